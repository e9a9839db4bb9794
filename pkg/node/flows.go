package node

import (
	"context"
	"fmt"
)

// Flows is the OpenFlow table of a bridge; pkg/openflow is one. Watch sends on
// changed when the table changed or the switch restarted, until ctx ends.
type Flows interface {
	Replace(ctx context.Context, bridge string, flows []string) error
	Watch(ctx context.Context, bridge string, changed chan<- struct{})
}

// gatewayFlows make the gateway bridge a plain switch between the host and the
// wire. The gateway router has the host's MAC and address too: until it carries
// north-south traffic, what it sends is dropped, so that neither the bridge nor
// the neighbours learn the host's address behind it.
func gatewayFlows(mac string) []string {
	return []string{
		"priority=100,in_port=LOCAL actions=NORMAL",
		"priority=90,dl_src=" + mac + " actions=drop",
		"priority=0 actions=NORMAL",
	}
}

// direct keeps the flows of a bridge that is ours: they are gone when
// ovs-vswitchd was, and anybody may change them. The flows of a host's own bridge
// are the host's.
func (s *Setup) direct(ctx context.Context, st State, g Gateway) error {
	if !g.owned() {
		return nil
	}
	link, ok := st.Links[g.Bridge]
	if !ok {
		return notReady("gateway bridge %s has no link", g.Bridge)
	}
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := s.deps.Flows.Replace(bounded, g.Bridge, gatewayFlows(link.MAC.String())); err != nil {
		return fmt.Errorf("gateway bridge: %w", err)
	}
	if s.watched != g.Bridge {
		s.watched = g.Bridge
		go s.watchFlows(ctx, g.Bridge)
	}
	return nil
}

func (s *Setup) watchFlows(ctx context.Context, bridge string) {
	changed := make(chan struct{}, 1)
	go s.deps.Flows.Watch(ctx, bridge, changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			s.Mark()
		}
	}
}
