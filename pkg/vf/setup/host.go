package setup

import (
	"context"
	"fmt"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// host is what a State is observed of and what steps are applied to. It is
// of one goroutine.
type host struct {
	deps       Deps
	file, boot string
	saved      Checkpoint
}

func (h *host) observe() (State, error) {
	inv, err := h.deps.Inventory()
	if err != nil {
		return State{}, fmt.Errorf("observing the NICs: %w", err)
	}
	units, err := readUnits(h.deps.Busy.UnitDir)
	if err != nil {
		return State{}, err
	}
	st := State{
		PFs: inv.PFs, Bonds: inv.Bonds, InUse: h.deps.InUse(), Boot: h.boot, OVS: h.deps.OVS.Observe(), Saved: h.saved.clone(),
		Users: Users{Pods: h.deps.Busy.Pods()}, Undone: h.deps.Busy.Uplinks.Undone(), Units: units, DPU: h.deps.Busy.DPU,
	}
	if idle := h.deps.Busy.Idle; idle != nil {
		st.Idle = idle()
	}
	if node := h.deps.NodeObject(); node != nil {
		st.Node, st.Cordoned = node.Name, node.Spec.Unschedulable
	}
	return st, nil
}

// run applies steps; links that stay enabled are an error of their own.
func (h *host) run(ctx context.Context, steps []Step) error {
	skipped, err := reconcile.Apply(ctx, h.deps.Logger, h, steps)
	if err != nil || len(skipped) == 0 {
		return err
	}
	var links stillEnabledError
	for _, step := range skipped {
		links = append(links, step.(setHWTC).Link)
	}
	return links
}

// stillEnabledError names the links that keep their hw-tc-offload for the rules they have.
type stillEnabledError []string

func (e stillEnabledError) Error() string {
	return "hw-tc-offload stays on while there are rules of TC: " + strings.Join(atMost(e, "more links"), ", ")
}

// change writes the checkpoint before it is believed.
func (h *host) change(f func(*Checkpoint)) error {
	next := h.saved.clone()
	f(&next)
	if err := durable.Save(h.file, next); err != nil {
		return fmt.Errorf("recording the original state of NICs: %w", err)
	}
	h.saved = next
	return nil
}
