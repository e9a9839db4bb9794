package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// programTimeout bounds a step that starts programs, which on a starved host
// take many times as long: one that is ended half-way has done nothing.
const programTimeout = 30 * time.Second

// annotate writes the annotations.
func (b *bridge) annotate(ctx context.Context, st State, g Gateway, encap netip.Addr, mtu int) error {
	object := b.Deps.Node()
	if object == nil {
		return node.NotReady("node %s is not in the cache", b.cfg.Node)
	}
	facts, err := annotations(b.cfg, st, g, encap, mtu)
	if err != nil {
		return err
	}
	const key = contract.GatewayConfigKey
	if facts[key], err = contract.SetNetwork(object.Annotations[key], b.cfg.Network.Key(), gatewayConfig(b.cfg, st, g)); err != nil {
		return err
	}
	return b.Deps.Annotate(ctx, object, facts)
}

// release goes through every step whatever fails: each brings the host closer.
func (b *bridge) release(ctx context.Context, st State) error {
	var errs []error
	for _, step := range planRelease(b.cfg, st) {
		if _, last := step.(forget); last && len(errs) > 0 {
			break
		}
		if err := step.Apply(ctx, b.Host); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step, err))
		}
	}
	return errors.Join(errs...)
}

func (b *bridge) merge(ctx context.Context, keys map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, node.StepTimeout)
	defer cancel()
	edit := func(have map[string]string) map[string]string {
		keys := maps.Clone(keys)
		if wanted, ok := keys[node.BridgeMappings]; ok { // the observed mappings of other networks may be old
			keys[node.BridgeMappings] = node.Mappings(have[node.BridgeMappings],
				node.BridgeOf(wanted, contract.PhysicalNetwork), node.BridgeOf(wanted, contract.SecondPhysicalNetwork))
		}
		return keys
	}
	if err := b.Deps.DB.EditKeys(ctx, vswitch.OpenvSwitchTable, "external_ids", edit); err != nil {
		return fmt.Errorf("setting external_ids of %s: %w", vswitch.OpenvSwitchTable, err)
	}
	return nil
}
