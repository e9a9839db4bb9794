package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"

	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// machine is what a State is observed of and what steps are applied to. It is
// of one goroutine.
type machine struct {
	deps       Deps
	file, boot string
	saved      Checkpoint
}

func (m *machine) observe() (State, error) {
	inv, err := m.deps.Inventory()
	if err != nil {
		return State{}, fmt.Errorf("looking at the NICs: %w", err)
	}
	s := State{
		PFs: inv.PFs, InUse: m.deps.InUse(), Addressed: map[string]bool{}, Boot: m.boot, OVS: m.deps.OVS.Observe(),
		Saved: m.saved.clone(),
	}
	for i := range inv.PFs {
		for _, name := range ends(&inv.PFs[i]) {
			if s.Addressed[name], err = m.deps.HasAddress(name); err != nil {
				return State{}, err
			}
		}
	}
	return s, nil
}

// ends are the links by which the node itself may use a NIC.
func ends(pf *vf.PF) []string {
	var out []string
	for i := range pf.Ports {
		out = append(out, pf.Ports[i].Name)
	}
	for i := range pf.VFs {
		if n := pf.VFs[i].Netdev; n != nil {
			out = append(out, n.Name)
		}
	}
	return out
}

// run goes on after a link that keeps its hw-tc-offload: others may give theirs up.
func (m *machine) run(ctx context.Context, steps []Step) error {
	var kept keptError
	for _, step := range steps {
		start := time.Now()
		err := step.apply(ctx, m)
		if off, ok := step.(setHWTC); ok && errors.Is(err, netdev.ErrKept) {
			kept = append(kept, off.Link)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		m.deps.Logger.Info("device step", "step", step.String(), "took", time.Since(start))
	}
	if kept != nil {
		return kept
	}
	return nil
}

// keptError names the links that keep their hw-tc-offload for the rules they have.
type keptError []string

func (e keptError) Error() string {
	return "hw-tc-offload stays on while there are rules of TC: " + strings.Join(atMost(e, "more links"), ", ")
}

// change writes the checkpoint before it is believed.
func (m *machine) change(f func(*Checkpoint)) error {
	next := m.saved.clone()
	f(&next)
	if err := saveCheckpoint(m.file, next); err != nil {
		return err
	}
	m.saved = next
	return nil
}
