package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Flows is the OpenFlow table of a bridge; pkg/openflow is one. Watch sends on
// changed when the table changed or the switch restarted, until ctx ends.
type Flows interface {
	Replace(ctx context.Context, bridge string, flows []string) error
	Dump(ctx context.Context, bridge string) ([]string, error)
	Watch(ctx context.Context, bridge string, concerns func(flow string) bool, changed chan<- struct{})
}

// direct keeps the flows of the gateway bridge, the host's own included, for the
// router is on it: they are gone when ovs-vswitchd was, and anybody may change them.
func (s *Setup) direct(ctx context.Context, st State, g Gateway, services ServicePorts, known bool) error {
	link, ok := st.Links[g.Bridge]
	if !ok {
		return notReady("gateway bridge %s has no link", g.Bridge)
	}
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	uplink, err := uplinkOf(s.cfg, st, g)
	if err != nil {
		return err
	}
	w := s.wire(st, g, link)
	w.Uplink, w.Services = st.OFPorts[uplink], services
	if known || !s.directed(bounded, g.Bridge) {
		table := gatewayTable(w)
		if err := s.deps.Flows.Replace(bounded, g.Bridge, table); err != nil {
			return fmt.Errorf("gateway bridge: %w", err)
		}
		s.metrics.observe(w, len(table))
	}
	if s.watched != g.Bridge {
		s.watched = g.Bridge
		go s.watchFlows(ctx, g.Bridge)
	}
	return nil
}

func (s *Setup) wire(st State, g Gateway, link netdev.Link) wire {
	addrs := primary(s.cfg, st, g.Bridge)
	return wire{
		MAC: link.MAC.String(), Router: st.OFPorts[routerPort(s.cfg, g)],
		ClusterSubnets: s.cfg.ClusterSubnets, Addresses: addrs, Meetings: meetings(s.cfg, st.Services, addrs),
	}
}

// rangesOf are the ranges of services to lead the node to.
func (s *Setup) rangesOf(st State, g Gateway, services ServicePorts, known bool) []netip.Prefix {
	subnets, refused := serviceSubnets(s.cfg, st, g, services.Subnets, known)
	if len(refused) > 0 {
		s.deps.Logger.Warn("ranges of services that overlap networks of the node or its pods are left out", "ranges", refused)
	}
	return subnets
}

// services are also the ranges of their addresses; false while they are not known.
func (s *Setup) services() (ServicePorts, bool) {
	if s.deps.Services == nil {
		return ServicePorts{}, true
	}
	return s.deps.Services()
}

// directed reports whether an agent before us has left a table: it knew services
// that we do not know yet.
func (s *Setup) directed(ctx context.Context, bridge string) bool {
	flows, err := s.deps.Flows.Dump(ctx, bridge)
	return err == nil && slices.ContainsFunc(flows, func(flow string) bool {
		return strings.Contains(flow, fmt.Sprintf("table=%d,", tableAnswer))
	})
}

// routerPort is what ovn-controller calls the bridge's end of the gateway
// router's way out, after the localnet port that the annotation names.
func routerPort(cfg Config, g Gateway) string {
	return "patch-" + localnetPort(cfg, g) + "-to-" + IntegrationBridge
}

func localnetPort(cfg Config, g Gateway) string { return g.Bridge + "_" + cfg.Node }

func (s *Setup) watchFlows(ctx context.Context, bridge string) {
	changed := make(chan struct{}, 1)
	go s.deps.Flows.Watch(ctx, bridge, nil, changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			s.Mark()
		}
	}
}
