package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Reasons of Events on the Node of a DPU's host.
const (
	reasonOffloadSet = "HardwareOffloadSet"
	reasonOffloadOff = "HardwareOffloadOff"
)

// docaKey of other_config starts OVS-DOCA, which offloads without hw-offload of the kernel's datapath.
const docaKey = "doca-init"

// DPUSwitchDeps is what a DPUSwitch works with.
type DPUSwitchDeps struct {
	OVS OVSControl
	// Warn and Note put an Event on the Node of the DPU's host.
	Warn, Note func(reason, message string)
	// Changed is called when Problem has changed.
	Changed func()
	Logger  *slog.Logger
}

// DPUSwitch keeps hw-offload set in the Open vSwitch of a DPU, which comes with the system of the DPU. An OffloadPolicy
// does the same on other nodes. DPUSwitch does not change a value that the administrator has set.
type DPUSwitch struct {
	deps DPUSwitchDeps
	loop *reconcile.Single

	mu      sync.Mutex
	problem error
}

// NewDPUSwitch makes a DPUSwitch; nothing is changed before Run or Reconcile.
func NewDPUSwitch(deps DPUSwitchDeps) *DPUSwitch {
	d := &DPUSwitch{deps: deps}
	cfg := reconcile.Defaults("hw-offload")
	cfg.Logger = deps.Logger // no metrics: those of the settings are ovn_offload_hw_offload_wanted and _in_force
	d.loop = reconcile.NewSingle(cfg, d.Reconcile)
	return d
}

// Mark asks for a pass: the settings of OVS have changed, or the database is connected again.
func (d *DPUSwitch) Mark() { d.loop.Mark() }

// Run makes passes until ctx ends. The setting stays.
func (d *DPUSwitch) Run(ctx context.Context) error { return d.loop.Run(ctx) }

// Problem says why hw-offload is not in force; nil: it is, or OVS does not answer.
func (d *DPUSwitch) Problem() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.problem
}

// Reconcile is one pass. While OVS does not run, it does nothing: OVS connects again later.
func (d *DPUSwitch) Reconcile(ctx context.Context) error {
	ovs := d.deps.OVS.Observe()
	if ovs == nil {
		return nil
	}
	if ovs.OtherConfig[docaKey] == "true" {
		d.report(nil)
		return nil
	}
	if value, set := ovs.OtherConfig[offload.HWOffloadKey]; set && value != "true" {
		d.report(fmt.Errorf("other_config:%s of Open vSwitch is %q: traffic of the host's pods stays in software; set it to true on the DPU, or remove the key",
			offload.HWOffloadKey, value))
		return nil
	}
	plan, err := offload.PlanSettings(ovs.Observed, map[string]string{offload.HWOffloadKey: "true"})
	if err != nil {
		d.report(err)
		return nil
	}
	if len(plan.Set) > 0 {
		if err := d.deps.OVS.Merge(ctx, plan.Set); err != nil {
			return fmt.Errorf("setting %s: %w", offload.HWOffloadKey, err)
		}
		d.deps.Logger.Info("hw-offload of Open vSwitch is set")
		d.deps.Note(reasonOffloadSet, "the DPU: other_config:hw-offload of Open vSwitch was not set, and is true now")
	}
	if len(plan.Restart) == 0 {
		d.report(nil)
		return nil
	}
	return d.restart(ctx, ovs)
}

// restart restarts an ovs-vswitchd that its supervisor starts again. Otherwise this is left to the administrator.
func (d *DPUSwitch) restart(ctx context.Context, ovs *OVS) error {
	if !ovs.Supervised {
		reason := "no service of systemd that the agent knows runs it"
		if ovs.Unsupervised != nil {
			reason = ovs.Unsupervised.Error()
		}
		d.report(errors.New("other_config:hw-offload is set, and ovs-vswitchd has to be restarted for it: restart Open vSwitch on the DPU; the agent does not, because " + reason))
		return nil
	}
	if err := d.deps.OVS.Restart(ctx); err != nil {
		err = fmt.Errorf("restarting ovs-vswitchd for hw-offload: %w", err)
		d.report(err)
		return err
	}
	d.deps.Logger.Info("ovs-vswitchd has been restarted for hw-offload")
	d.report(nil)
	return nil
}

// report keeps the problem. A new one is an Event.
func (d *DPUSwitch) report(problem error) {
	d.mu.Lock()
	before := d.problem
	d.problem = problem
	d.mu.Unlock()
	if fmt.Sprint(before) == fmt.Sprint(problem) {
		return
	}
	if problem != nil {
		d.deps.Logger.Warn("hw-offload of Open vSwitch is not in force", "error", problem)
		d.deps.Warn(reasonOffloadOff, "the DPU: "+problem.Error())
	}
	d.deps.Changed()
}
