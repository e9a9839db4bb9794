package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

const (
	// stepTimeout bounds a step that waits for the database or ovs-vswitchd.
	stepTimeout = 10 * time.Second
	// programTimeout bounds a step that starts programs, which on a starved machine
	// take many times as long: one that is ended half-way has done nothing.
	programTimeout = 30 * time.Second
	// verifyTimeout is how long a takeover may cut the node off.
	verifyTimeout = 10 * time.Second
	// probePause is the time between two attempts of a probe that fails.
	probePause = 500 * time.Millisecond
)

// machine is the host, its database and the Node object: what a State is
// observed of and what steps are applied to.
type machine struct {
	cfg  Config
	deps Deps
	// misled says that connections to node ports may have to be forgotten.
	misled bool
}

// tell writes the annotations.
func (m *machine) tell(ctx context.Context, st State, g Gateway, encap netip.Addr, mtu int) error {
	node := m.deps.Node()
	if node == nil {
		return notReady("node %s is not known", m.cfg.Node)
	}
	facts, err := annotations(m.cfg, st, g, encap, mtu)
	if err != nil {
		return err
	}
	const key = contract.GatewayConfigKey
	if facts[key], err = contract.SetNetwork(node.Annotations[key], m.cfg.Network.Key(), gatewayConfig(m.cfg, st, g)); err != nil {
		return err
	}
	return m.deps.Annotate(ctx, node, facts)
}

func (m *machine) run(ctx context.Context, steps []Step) error {
	for _, step := range steps {
		start := time.Now()
		if err := step.apply(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		m.deps.Logger.Info("node step", "step", step.String(), "took", time.Since(start))
	}
	return nil
}

// release goes through every step whatever fails: each brings the host closer.
func (m *machine) release(ctx context.Context, st State) error {
	var errs []error
	for _, step := range planRelease(m.cfg, st) {
		if _, last := step.(forget); last && len(errs) > 0 {
			break
		}
		if err := step.apply(ctx, m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step, err))
		}
	}
	return errors.Join(errs...)
}

func (m *machine) merge(ctx context.Context, keys map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := m.deps.DB.MergeKeys(ctx, vswitch.OpenvSwitchTable, "external_ids", keys); err != nil {
		return fmt.Errorf("setting external_ids of %s: %w", vswitch.OpenvSwitchTable, err)
	}
	return nil
}
func (m *machine) commit(ctx context.Context, c commit) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	result, err := m.deps.DB.Commit(ctx, ovsdb.Want{Owner: c.Owner.String(), Rows: c.Rows})
	if err != nil {
		return err
	}
	return result.Failed[c.Owner.String()]
}

// awaitPort returns ovs-vswitchd's complaint, if that is what it answers.
func (m *machine) awaitPort(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var complaint *string
	err := m.deps.DB.WaitRow(ctx, vswitch.InterfaceTable, gatewayOwner(m.cfg).String(), name, func(row any) bool {
		iface, ok := row.(*vswitch.Interface)
		if !ok {
			return false
		}
		complaint = iface.Error
		return iface.Error != nil || iface.Ofport != nil && *iface.Ofport > 0
	})
	if err != nil {
		return fmt.Errorf("ovs-vswitchd has not opened %s: %w", name, err)
	}
	if complaint != nil {
		return fmt.Errorf("ovs-vswitchd: %s", *complaint)
	}
	return nil
}

// reachable names the probes that succeed now.
func (m *machine) reachable(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var mu sync.Mutex
	var names []string
	var asked sync.WaitGroup
	for name, probe := range m.deps.Probes {
		asked.Go(func() {
			if probe(ctx) == nil {
				mu.Lock()
				defer mu.Unlock()
				names = append(names, name)
			}
		})
	}
	asked.Wait()
	slices.Sort(names)
	return names
}

// verify succeeds when each of the probes has, each in its own time.
func (m *machine) verify(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	missing := map[string]error{}
	for _, name := range names {
		probe, ok := m.deps.Probes[name]
		for ok {
			err := probe(ctx)
			if err == nil {
				break
			}
			select {
			case <-time.After(probePause):
				continue
			case <-ctx.Done():
			}
			missing[name] = err
			break
		}
	}
	if len(missing) == 0 {
		return nil
	}
	first := slices.Sorted(maps.Keys(missing))[0]
	return fmt.Errorf("%s was reachable before, and is not after %s: %w", first, verifyTimeout, missing[first])
}
