package setup

import (
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/node/uplink"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// TestUplink_ChangesAsPolicySays: who may be interrupted by a change of the uplink's mode, and what happens instead.
func TestUplink_ChangesAsPolicySays(t *testing.T) {
	inPlace := v1alpha1.OffloadPolicySpec{NumVFs: 2, OVSHWOffload: new(bool), UplinkChange: v1alpha1.UplinkInPlace}
	with := func(change func(*v1alpha1.OffloadPolicySpec)) v1alpha1.OffloadPolicySpec {
		spec := inPlace
		change(&spec)
		return spec
	}
	evict := with(func(s *v1alpha1.OffloadPolicySpec) { s.Drain = v1alpha1.DrainEvict })
	for name, c := range map[string]struct {
		spec  v1alpha1.OffloadPolicySpec
		set   func(w *world, p *v1alpha1.OffloadPolicy)
		state v1alpha1.PolicyState
		says  string
	}{
		"drained": {inPlace, func(*world, *v1alpha1.OffloadPolicy) {}, v1alpha1.PolicyApplied, ""},
		"refused by default": {with(func(s *v1alpha1.OffloadPolicySpec) { s.UplinkChange = "" }), func(*world, *v1alpha1.OffloadPolicy) {},
			v1alpha1.PolicyRefused, "set uplinkChange"},
		"not cordoned": {inPlace, func(w *world, _ *v1alpha1.OffloadPolicy) { w.cordoned = false }, v1alpha1.PolicyDrainNeeded, "not cordoned"},
		"pods":         {inPlace, func(w *world, _ *v1alpha1.OffloadPolicy) { w.pods = []string{"pod a/b"} }, v1alpha1.PolicyDrainNeeded, "pod a/b"},
		"pods and no turn": {inPlace, func(w *world, p *v1alpha1.OffloadPolicy) { w.pods, p.Status.Changing = []string{"pod a/b"}, nil },
			v1alpha1.PolicyDrainNeeded, "pod a/b"},
		"pods stay": {with(func(s *v1alpha1.OffloadPolicySpec) { s.Drain = v1alpha1.DrainNone }),
			func(w *world, _ *v1alpha1.OffloadPolicy) { w.pods, w.cordoned = []string{"pod a/b"}, false }, v1alpha1.PolicyApplied, ""},
		"no turn": {inPlace, func(_ *world, p *v1alpha1.OffloadPolicy) { p.Status.Changing = []string{"n2"} }, v1alpha1.PolicyWaiting, "maxUnavailable"},
		"the controller drains in turn": {evict, func(w *world, p *v1alpha1.OffloadPolicy) { w.pods, p.Status.Changing = []string{"pod a/b"}, nil },
			v1alpha1.PolicyWaiting, "maxUnavailable"},
		"the controller drains": {evict, func(w *world, _ *v1alpha1.OffloadPolicy) { w.pods = []string{"pod a/b"} }, v1alpha1.PolicyDrainNeeded, "pod a/b"},
		"undone": {inPlace, func(w *world, _ *v1alpha1.OffloadPolicy) {
			w.undone = map[string]uplink.Undone{first: {Reason: "p/1", Error: "no carrier"}}
		}, v1alpha1.PolicyFailed, "no carrier"},
		"another policy was undone": {inPlace, func(w *world, _ *v1alpha1.OffloadPolicy) {
			w.undone = map[string]uplink.Undone{first: {Reason: "p/0", Error: "no carrier"}}
		}, v1alpha1.PolicyApplied, ""},
		"a bond": {inPlace, func(w *world, _ *v1alpha1.OffloadPolicy) { w.cards[first].master = "bond0" }, v1alpha1.PolicyRefused, "is a port of bond0"},
		"dry run": {with(func(s *v1alpha1.OffloadPolicySpec) { s.DryRun = true }), func(w *world, p *v1alpha1.OffloadPolicy) {
			w.cordoned, p.Status.Changing = false, nil
		}, v1alpha1.PolicyPlanned, "to switchdev, with the node's addresses; set number of VFs of " + first + " to 2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
			w.cards[first].master, w.cordoned = ovsDatapath, true
			p := policy("p", 1, c.spec)
			w.policies = []*v1alpha1.OffloadPolicy{p}
			c.set(w, p)
			got := w.pass().Results()[0]
			if got.State != c.state || !strings.Contains(got.Message, c.says) {
				t.Errorf("%+v, want %s with %q", got, c.state, c.says)
			}
			steps := w.took()
			if moved := slices.Contains(steps, "03 move switchdev for p/1"); moved != (c.state == v1alpha1.PolicyApplied) {
				t.Errorf("steps %q", steps)
			}
		})
	}
}

// TestUplink_DriverThatReopensIt: bnxt_en interrupts the uplink when VFs are removed, as no other driver does.
func TestUplink_DriverThatReopensIt(t *testing.T) {
	for name, c := range map[string]struct {
		driver string
		change v1alpha1.UplinkChange
		vfs    int // before
		mode   vf.Mode
		set    func(*world)
		state  v1alpha1.PolicyState
		says   string
	}{
		"by default":             {bnxt, "", 4, vf.Switchdev, nil, v1alpha1.PolicyRefused, "closes the NIC for a moment"},
		"legacy":                 {bnxt, "", 4, vf.Legacy, nil, v1alpha1.PolicyRefused, "closes the NIC for a moment"},
		"free":                   {bnxt, "", 4, vf.Switchdev, func(w *world) { w.cards[first].master = "" }, v1alpha1.PolicyApplied, ""},
		"first VFs":              {bnxt, "", 0, vf.Switchdev, nil, v1alpha1.PolicyApplied, ""},
		"drained":                {bnxt, v1alpha1.UplinkInPlace, 4, vf.Switchdev, nil, v1alpha1.PolicyApplied, ""},
		"pods":                   {bnxt, v1alpha1.UplinkInPlace, 4, vf.Switchdev, func(w *world) { w.pods = []string{"pod a/b"} }, v1alpha1.PolicyDrainNeeded, "pod a/b"},
		"at the next boot":       {bnxt, v1alpha1.UplinkAtBoot, 4, vf.Switchdev, nil, v1alpha1.PolicyRebootNeeded, "a reboot of the host"},
		"another driver":         {"mlx5_core", "", 4, vf.Switchdev, nil, v1alpha1.PolicyApplied, ""},
		"another driver and pod": {"mlx5_core", "", 4, vf.Switchdev, func(w *world) { w.pods = []string{"pod a/b"} }, v1alpha1.PolicyApplied, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]*card{first: {driver: c.driver, total: 8, vfs: c.vfs, mode: c.mode, reps: make([]bool, c.vfs), master: ovsDatapath}})
			w.units, w.cordoned = t.TempDir(), true
			if c.set != nil {
				c.set(w)
			}
			w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{
				NumVFs: 2, EswitchMode: string(c.mode), HWTCOffload: new(bool), OVSHWOffload: new(bool), UplinkChange: c.change,
			})}
			got := w.pass().Results()[0]
			if got.State != c.state || !strings.Contains(got.Message, c.says) {
				t.Errorf("%+v, want %s with %q", got, c.state, c.says)
			}
			if changed := w.cards[first].vfs == 2; changed != (c.state == v1alpha1.PolicyApplied) {
				t.Errorf("%d VFs", w.cards[first].vfs)
			}
		})
	}
}

// TestEvents_OncePerState: the recheck of each half minute tells nothing new.
func TestEvents_OncePerState(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.cards[first].master = ovsDatapath
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2, OVSHWOffload: new(bool)})}
	r := w.agent()
	for range 2 {
		if err := r.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.policies[0].Spec.UplinkChange = v1alpha1.UplinkInPlace
	if err := r.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.events) != 2 || !strings.HasPrefix(w.events[0], "p "+first+" Refused: ") || !strings.HasPrefix(w.events[1], "p "+first+" DrainNeeded: ") {
		t.Errorf("%q", w.events)
	}
}

// TestUplink_GoesBackAsItCame: the way back is the one of the policy that is gone.
func TestUplink_GoesBackAsItCame(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.cards[first].master, w.cordoned = ovsDatapath, true
	before := w.String()
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2, UplinkChange: v1alpha1.UplinkInPlace})}
	w.pass()
	w.policies, w.cordoned = nil, false
	if got := w.pass().Results(); len(got) != 1 || got[0].State != v1alpha1.PolicyDrainNeeded || w.cards[first].mode != vf.Switchdev {
		t.Errorf("on a node that is not drained: %+v, %s", got, w)
	}
	w.cordoned = true
	if got := w.pass().Results(); len(got) != 0 || w.String() != before {
		t.Errorf("%+v\nbefore %s\nafter  %s", got, before, w)
	}
}

// TestTurn_OfChangesThatInterrupt: VFs on a free NIC interrupt nothing; another mode and a restart of OVS do.
func TestTurn_OfChangesThatInterrupt(t *testing.T) {
	w := newWorld(t, map[string]*card{first: {driver: "mlx5_core", total: 8, mode: vf.Switchdev}})
	p := policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2})
	p.Status.Changing = nil
	w.policies = []*v1alpha1.OffloadPolicy{p}
	got := w.pass().Results()
	if got[0].State != v1alpha1.PolicyApplied || got[1].State != v1alpha1.PolicyWaiting || w.restarts != 0 || w.cards[first].vfs != 2 {
		t.Errorf("without a turn: %+v, %s", got, w)
	}
	p.Status.Changing = []string{"n1"}
	if got = w.pass().Results(); got[1].State != v1alpha1.PolicyApplied || w.restarts != 1 {
		t.Errorf("with its turn: %+v, %d restarts", got, w.restarts)
	}
}

// TestReboot_UplinkIsSetUpBeforePodsHaveNetwork: an unplanned boot resets the mode of a NIC with the node's
// address. Pods are bound to the node, and none of them has its network yet.
func TestReboot_UplinkIsSetUpBeforePodsHaveNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*world)
		state v1alpha1.PolicyState
	}{
		"no pod has its network": {func(w *world) { w.idle = true }, v1alpha1.PolicyApplied},
		"pods have it":           {func(*world) {}, v1alpha1.PolicyDrainNeeded},
		"a pod has a VF":         {func(w *world) { w.idle, w.cards[first].vfs, w.used[vfName(first, 0)] = true, 1, "pod a/b" }, v1alpha1.PolicyDrainNeeded},
		"not set up before":      {func(w *world) { w.idle, w.file = true, w.file+".other" }, v1alpha1.PolicyDrainNeeded},
		"the change was undone":  {func(w *world) { w.idle, w.undone = true, map[string]uplink.Undone{first: {Reason: "p/1"}} }, v1alpha1.PolicyFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
			w.cards[first].master, w.cordoned = ovsDatapath, true
			p := policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2, OVSHWOffload: new(bool), UplinkChange: v1alpha1.UplinkInPlace})
			w.policies = []*v1alpha1.OffloadPolicy{p}
			if got := w.pass().Results()[0].State; got != v1alpha1.PolicyApplied {
				t.Fatalf("before the boot the policy is %s", got)
			}
			w.boot, w.cards[first] = "boot-2", bare("mlx5_core")
			w.cards[first].master, w.cordoned, w.pods, p.Status.Changing = ovsDatapath, false, []string{"pod a/b"}, nil
			c.set(w)
			r := w.agent()
			_, isWaiting := r.saved.PFs[first]
			if isReturned(r) == isWaiting {
				t.Errorf("pods wait for the NIC: %t", isWaiting)
			}
			if err := r.pass(t.Context()); err != nil || !isReturned(r) {
				t.Errorf("after a pass: %v, and pods need not wait: %t", err, isReturned(r))
			}
			if got := r.Results()[0]; got.State != c.state {
				t.Errorf("%+v, want %s", got, c.state)
			}
			if saved := r.saved.PFs[first]; c.state == v1alpha1.PolicyApplied && (saved.Boot != "boot-2" || saved.Drain == v1alpha1.DrainNone) {
				t.Errorf("the record is %+v", saved)
			}
		})
	}
}

func isReturned(r *Runner) bool {
	select {
	case <-r.Returned():
		return true
	default:
		return false
	}
}
