package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// The second external bridge is a way of pods to the networks at a second NIC of
// the node. Nothing else depends on it: its error is reported, and the rest of the
// node goes on without it.

// keepSecond is its part of a pass. The Gateway is empty where there is none of
// which the Node could say anything.
func (s *Setup) keepSecond(ctx context.Context, first Gateway) Gateway {
	if s.second.cfg.GatewayInterface == "" {
		s.secondErr = s.second.releaseUnwanted(ctx)
		return Gateway{}
	}
	g, err := s.secondBridge(ctx, first)
	if err != nil {
		err = fmt.Errorf("second external bridge: %w", err)
	}
	if errors.Is(err, reconcile.ErrNotReady) && (s.secondErr == nil || s.secondErr.Error() != err.Error()) {
		s.Deps.Logger.Warn("the node goes on without its second external bridge", "error", err)
	}
	s.secondErr = err
	return g
}

func (s *Setup) secondBridge(ctx context.Context, first Gateway) (Gateway, error) {
	b := s.second
	st, err := b.observe(ctx)
	if err != nil {
		return Gateway{}, err
	}
	g, err := chooseGateway(b.cfg, st)
	s.links.Remember(st.State, b.cfg.GatewayInterface, g.Bridge, g.NIC)
	switch {
	case err != nil:
		return Gateway{}, err
	case g.Bridge == first.Bridge || g.owned() && g.NIC == first.NIC:
		return Gateway{}, fmt.Errorf("interface %s is the gateway interface already, by bridge %s", b.cfg.GatewayInterface, first.Bridge)
	}
	kept := b.keep(ctx, st, g)
	if st, err = b.observe(ctx); err != nil {
		return Gateway{}, err
	}
	if err := apart(b.cfg, st, first, g); err != nil {
		return Gateway{}, urgent(kept, err)
	}
	return g, urgent(kept, b.directPods(ctx, st, g, s.Mark))
}

// apart refuses a bridge without addresses, and one to the network that the first
// one leads to: the router would have two ways there.
func apart(cfg Config, s State, first, second Gateway) error {
	addrs := primary(cfg, s, second.Bridge)
	if len(addrs) == 0 {
		return node.NotReady("bridge %s has no address of the cluster's families", second.Bridge)
	}
	for _, own := range addrs {
		for _, other := range primary(cfg, s, first.Bridge) {
			if own.Overlaps(other) {
				return fmt.Errorf("%s of bridge %s is in the network of %s of bridge %s", own, second.Bridge, other, first.Bridge)
			}
		}
	}
	return nil
}

// directPods keeps the flows of a bridge at which services are not asked for.
func (b *bridge) directPods(ctx context.Context, st State, g Gateway, mark func()) error {
	w, err := bridgeOf(b.cfg, st, g)
	if err != nil {
		return err
	}
	b.watch(ctx, g.Bridge, mark)
	return b.write(ctx, g.Bridge, flows.Table(w))
}

// releaseUnwanted restores the NIC of a second bridge that is not configured any more.
func (b *bridge) releaseUnwanted(ctx context.Context) error {
	var s State
	b.observeSwitch(&s)
	name := node.BridgeOf(s.Settings[node.BridgeMappings], contract.SecondPhysicalNetwork)
	saved, err := loadCheckpoint(b.cfg.Checkpoint)
	switch {
	case err != nil:
		return err
	case saved == nil && slices.Contains(s.Bridges, name): // the host's own
		return b.write(ctx, name, flows.Plain())
	case saved == nil:
		return nil
	}
	if s, err = b.observe(ctx); err != nil {
		return err
	}
	return b.release(ctx, s)
}
