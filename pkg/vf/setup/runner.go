package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

const (
	// rounds is how often is planned in one pass: number and mode, features,
	// OVS, and a look whether all is well.
	rounds = 6
	// recheckInterval is for policies that are refused or pending: no event tells that
	// a pod's claim has ended, or that OVS was restarted.
	recheckInterval = 30 * time.Second
)

// NIC changes devices; the kernel behind pkg/netdev is one.
type NIC interface {
	SetVFs(address string, n int) error
	SetEswitchMode(address, mode string) error
	SetHWTC(link string, on bool) error
}

// OVSControl observes and changes the node's OVS; Vswitchd is one.
type OVSControl interface {
	// Observe gives nil while OVS does not run.
	Observe() *OVS
	// Merge sets keys of other_config; "" removes one.
	Merge(ctx context.Context, keys map[string]string) error
	// Restart ends ovs-vswitchd and waits until it is there again.
	Restart(ctx context.Context) error
	// DeleteRules deletes rules of TC on links that OVS has made.
	DeleteRules() error
}

// Uplinks changes the mode of NICs with the node's own traffic; *uplink.Mover is one.
type Uplinks interface {
	Change(ctx context.Context, c uplink.Change) error
	// Resume ends a change that a crash has interrupted.
	Resume(ctx context.Context) error
	// Undone tells of changes that cut the node off, by PCI address.
	Undone() map[string]uplink.Undone
}

// Busy is what changes NICs that the node uses.
type Busy struct {
	Uplinks Uplinks
	// Pods are those of the node that a drain moves.
	Pods func() []string
	// Idle says that no pod of the node has its network, and that none gets it before Returned; nil: some may have it.
	Idle func() bool
	// UnitDir is where the host's systemd finds units; empty: the host has none.
	UnitDir string
	// DPU says that the host has a DPU.
	DPU bool
}

// Deps is what a Runner works with.
type Deps struct {
	// Policies is not ok before they are synced.
	Policies func() (_ []*v1alpha1.OffloadPolicy, ok bool)
	// NodeObject gives the Node, nil before it is synced.
	NodeObject func() *corev1.Node
	Inventory  func() (vf.Inventory, error)
	// InUse says who has a VF, by its PCI address.
	InUse func() map[string]string
	// Hold keeps VFs from pods until release. It fails when a pod has one.
	Hold func(devices []string, reason string) (release func(), err error)
	NIC  NIC
	OVS  OVSControl
	Busy Busy
	// Warn puts an Event on the Node.
	Warn func(message string)
	// Changed is called when Results or Reserved have changed.
	Changed    func()
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Runner keeps a node's NICs as its policies say.
type Runner struct {
	*host
	loop *reconcile.Single

	mu       sync.Mutex
	results  []v1alpha1.PolicyResult
	reserved map[string]int // by PF
	returned chan struct{}
	once     sync.Once // closes returned
}

// New makes a Runner with its checkpoint in a file; nothing is touched before Run.
func New(file, boot string, deps Deps) (*Runner, error) {
	var saved Checkpoint
	if _, err := durable.Load(file, &saved); err != nil {
		return nil, fmt.Errorf("reading the original state of NICs: %w", err)
	}
	r := &Runner{
		host:     &host{deps: deps, file: file, boot: boot, saved: saved},
		reserved: saved.Reserved, returned: make(chan struct{}),
	}
	if !saved.isReset(boot) {
		r.once.Do(func() { close(r.returned) })
	}
	lc := reconcile.Defaults("offloadpolicy")
	lc.Logger, lc.Registerer = deps.Logger, deps.Registerer
	r.loop = reconcile.NewSingle(lc, r.pass)
	deps.Registerer.MustRegister(r)
	return r, nil
}

// Mark asks for a pass: devices, policies or the Node have changed.
func (r *Runner) Mark() { r.loop.Mark() }

// Run applies policies until ctx ends; it leaves the NICs as they are.
func (r *Runner) Run(ctx context.Context) error { return r.loop.Run(ctx) }

// Returned is closed when NICs that the host's boot has reset are set up again as far as they can be. Until then a
// change of the uplink need not wait for pods.
func (r *Runner) Returned() <-chan struct{} { return r.returned }

// Results say what became of the policies on this node.
func (r *Runner) Results() []v1alpha1.PolicyResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.results
}

// Reserved counts the VFs of each PF, from the lowest number, that pods do not get. It
// is loaded at the start, and covers VFs that do not exist yet.
func (r *Runner) Reserved() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reserved
}

// reserve is in force before a VF is made that it concerns.
func (r *Runner) reserve(reserved map[string]int) error {
	if maps.Equal(r.saved.Reserved, reserved) {
		return nil
	}
	if err := r.change(func(c *Checkpoint) { c.Reserved = reserved }); err != nil {
		return err
	}
	r.mu.Lock()
	r.reserved = reserved
	r.mu.Unlock()
	return nil
}

// pass observes and applies until a plan is empty. What a crash has interrupted comes first: without it the API server may
// be out of reach.
func (r *Runner) pass(ctx context.Context) error {
	if err := r.deps.Busy.Uplinks.Resume(ctx); err != nil {
		r.deps.Logger.Warn("ending an interrupted change of the eswitch's mode", "error", err)
	}
	policies, synced := r.deps.Policies()
	node := r.deps.NodeObject()
	if !synced || node == nil {
		return fmt.Errorf("policies and node are not synced: %w", reconcile.ErrNotReady)
	}
	failed := map[string]error{} // by PF
	for round := 1; ; round++ {
		state, err := r.observe()
		if err != nil {
			return err
		}
		wants, notes := Select(policies, node.Labels, state)
		if err := r.reserve(reservedOf(wants, state.Saved)); err != nil {
			return err
		}
		changes := Plan(state, wants)
		busy := r.work(ctx, changes, failed)
		if !busy || round == rounds {
			r.publish(policies, results(changes, failed, whyRules(state, wants), notes))
			return join(failed)
		}
	}
}

// work applies what has steps; a PF that has failed waits for the next pass, so
// that it does not hold back the others. It reports whether anything was done.
func (r *Runner) work(ctx context.Context, changes []Change, failed map[string]error) (busy bool) {
	for _, c := range changes {
		if c.DryRun || len(c.Steps) == 0 || failed[c.PF] != nil {
			continue
		}
		release, err := r.deps.Hold(c.Hold, "an OffloadPolicy changes the VFs of "+c.PF)
		if err != nil { // a pod was quicker, which the next plan knows
			busy = true
			r.deps.Logger.Debug("devices are not held", "device", c.PF, "error", err)
			continue
		}
		err = r.run(ctx, c.Steps)
		release()
		if err != nil {
			failed[c.PF] = err
			continue
		}
		busy = true
	}
	return busy
}

// join joins errors, without those about remaining TC rules: OVS removes the rules later.
func join(failed map[string]error) error {
	var errs []error
	for _, err := range failed {
		if still := (stillEnabledError)(nil); !errors.As(err, &still) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// results tell of each change; rules is why there are rules of OVS.
func results(changes []Change, failed map[string]error, rules string, notes []v1alpha1.PolicyResult) []v1alpha1.PolicyResult {
	var out []v1alpha1.PolicyResult
	for _, c := range changes {
		result := v1alpha1.PolicyResult{Policy: c.Policy, Device: c.PF, State: v1alpha1.PolicyApplied}
		var still stillEnabledError
		switch {
		case errors.As(failed[c.PF], &still):
			result.State, result.Message = v1alpha1.PolicyPending, still.Error()+"; "+rules
		case failed[c.PF] != nil:
			result.State, result.Message = v1alpha1.PolicyFailed, failed[c.PF].Error()
		case c.Note != "" && len(c.Steps) == 0 && c.Refused == "":
			result.Message = c.Note
		case c.Refused != "":
			result.State, result.Message = cmp.Or(c.State, v1alpha1.PolicyRefused), c.Refused
		case c.DryRun && len(c.Steps) > 0:
			result.State, result.Message = v1alpha1.PolicyPlanned, planned(c)
		case len(c.Steps) > 0:
			result.State, result.Message = v1alpha1.PolicyPending, "next: "+c.Steps[0].String()
		}
		if c.Policy == "" && result.State == v1alpha1.PolicyApplied {
			continue // restored, and no policy asks for the PF
		}
		out = append(out, result)
	}
	return append(out, notes...)
}

func (r *Runner) publish(policies []*v1alpha1.OffloadPolicy, results []v1alpha1.PolicyResult) {
	generations := map[string]int64{}
	for _, p := range policies {
		generations[p.Name] = p.Generation
	}
	applied := true
	for i := range results {
		results[i].Generation = generations[results[i].Policy]
		applied = applied && results[i].State == v1alpha1.PolicyApplied
	}
	for _, result := range results {
		r.warn(result)
	}
	if !applied {
		r.loop.MarkSpaced(recheckInterval, 0)
	}
	r.mu.Lock()
	r.results = results
	r.mu.Unlock()
	r.once.Do(func() { close(r.returned) })
	r.deps.Changed()
}

// warn reports once a state that needs an administrator.
func (r *Runner) warn(result v1alpha1.PolicyResult) {
	switch result.State {
	case v1alpha1.PolicyRefused, v1alpha1.PolicyFailed, v1alpha1.PolicyDrainNeeded, v1alpha1.PolicyRebootNeeded:
	default:
		return
	}
	for _, before := range r.Results() {
		if before.Policy == result.Policy && before.Device == result.Device && before.State == result.State {
			return
		}
	}
	r.deps.Warn(strings.Join(strings.Fields(result.Policy+" "+result.Device+" "+string(result.State)), " ") + ": " + result.Message)
}
