package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
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
	return State{
		PFs: inv.PFs, InUse: m.deps.InUse(), Boot: m.boot, OVS: m.deps.OVS.Observe(), Saved: m.saved.clone(),
	}, nil
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
