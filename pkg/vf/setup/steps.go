package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// Step is one change of a host.
type Step = reconcile.Step[*host]

type savePF struct {
	PF string
	Original
}

type forgetPF struct{ PF string }

type setVFs struct {
	PF vf.PCIAddress
	N  int
}

type setMode struct {
	PF   vf.PCIAddress
	Mode vf.Mode
}

// moveMode is setMode of a NIC with the node's own traffic.
type moveMode struct {
	setMode
	From   vf.Mode
	Reason string
}

type setHWTC struct {
	Link string
	On   bool
}

type saveOVS struct{ Undo map[string]string }

type mergeOVS struct{ Keys map[string]string }

type restartOVS struct{}

// deleteRules is for rules of TC that OVS left on its own links when it ended: an OVS that does not offload removes none,
// and a rule whose NIC has a new netdev drops packets.
type deleteRules struct{}

type forgetOVS struct{}

func (a savePF) String() string {
	return fmt.Sprintf("save original state of %s (%d VFs, %s)", a.PF, a.NumVFs, a.Mode)
}
func (a forgetPF) String() string  { return "forget original state of " + a.PF }
func (a setVFs) String() string    { return fmt.Sprintf("set number of VFs of %s to %d", a.PF, a.N) }
func (a setMode) String() string   { return fmt.Sprintf("set eswitch of %s to %s", a.PF, a.Mode) }
func (a moveMode) String() string  { return a.setMode.String() + ", with the node's addresses" }
func (a setHWTC) String() string   { return fmt.Sprintf("set hw-tc-offload of %s to %t", a.Link, a.On) }
func (a saveOVS) String() string   { return fmt.Sprintf("save settings of OVS %v", a.Undo) }
func (a mergeOVS) String() string  { return fmt.Sprintf("merge settings of OVS %v", a.Keys) }
func (restartOVS) String() string  { return "restart ovs-vswitchd" }
func (deleteRules) String() string { return "delete rules of TC on links of OVS" }
func (forgetOVS) String() string   { return "forget settings of OVS" }

func (a savePF) Apply(_ context.Context, h *host) error {
	return h.change(func(c *Checkpoint) {
		if c.PFs == nil {
			c.PFs = map[string]Original{}
		}
		c.PFs[a.PF] = a.Original
	})
}

func (a forgetPF) Apply(_ context.Context, h *host) error {
	return h.change(func(c *Checkpoint) { delete(c.PFs, a.PF) })
}

func (a setVFs) Apply(_ context.Context, h *host) error {
	return h.deps.NIC.SetVFs(a.PF.String(), a.N)
}

func (a setMode) Apply(_ context.Context, h *host) error {
	return h.deps.NIC.SetEswitchMode(a.PF.String(), string(a.Mode))
}

func (a moveMode) Apply(ctx context.Context, h *host) error {
	return h.deps.Busy.Uplinks.Change(ctx, uplink.Change{Device: a.PF.String(), From: string(a.From), To: string(a.Mode), Reason: a.Reason})
}

// Apply does not hold up the other links when this one stays enabled: they may give
// theirs up.
func (a setHWTC) Apply(_ context.Context, h *host) error {
	err := h.deps.NIC.SetHWTC(a.Link, a.On)
	if errors.Is(err, netdev.ErrStillEnabled) {
		return fmt.Errorf("%w: %w", reconcile.ErrSkipped, err)
	}
	return err
}

func (a saveOVS) Apply(_ context.Context, h *host) error {
	return h.change(func(c *Checkpoint) { c.OVS = a.Undo })
}

func (a mergeOVS) Apply(ctx context.Context, h *host) error { return h.deps.OVS.Merge(ctx, a.Keys) }

func (restartOVS) Apply(ctx context.Context, h *host) error { return h.deps.OVS.Restart(ctx) }

func (deleteRules) Apply(_ context.Context, h *host) error {
	if ovs := h.deps.OVS.Observe(); ovs == nil || ovs.Settings().HWOffload {
		return nil // these are rules that OVS uses
	}
	return h.deps.OVS.DeleteRules()
}

func (forgetOVS) Apply(_ context.Context, h *host) error {
	return h.change(func(c *Checkpoint) { c.OVS = nil })
}
