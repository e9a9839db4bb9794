package setup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

const first, second = "0000:03:00.0", "0000:04:00.0"

func bare(driver string) *card { return &card{driver: driver, total: 8, mode: vf.Legacy} }

// states are those of the metric of the newest agent.
func (w *world) states(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "ovn_offload_offloadpolicy_devices" {
			continue
		}
		for _, m := range family.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return out
}

func TestSetup_BareNICOffloadsAndGoesBack(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core"), second: bare("ice")})
	w.pass()
	if steps := w.took(); steps != nil {
		t.Fatalf("without a policy: %q", steps)
	}
	before := w.String()
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{
		PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{first}}, NumVFs: 2, ReservedVFs: 1,
	})}
	r := w.pass()
	want := []string{
		"03 mode switchdev", "03 vfs 2", "up03 tc true", "rep030 tc true", "rep031 tc true",
		"ovs map[hw-offload:true]", "ovs restart",
	}
	if diff := cmp.Diff(want, w.took()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	results := []v1alpha1.PolicyResult{
		{Policy: "p", Generation: 1, Device: first, State: v1alpha1.PolicyApplied}, {Policy: "p", Generation: 1, State: v1alpha1.PolicyApplied},
	}
	if diff := cmp.Diff(results, r.Results()); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if got := w.states(t); got["Applied"] != 2 || got["Failed"] != 0 || len(got) != 6 {
		t.Errorf("states %v", got)
	}
	if got := w.reserved(w.agent()); len(got) != 1 || !got[vfName(first, 0)] { // a restart later, and before any pass
		t.Errorf("reserved %v", got)
	}
	w.pass()
	if steps := w.took(); steps != nil {
		t.Errorf("a second time: %q", steps)
	}
	w.policies = nil
	r = w.pass()
	want = []string{"ovs map[hw-offload:]", "ovs restart", "03 vfs 0", "03 mode legacy", "up03 tc false"}
	if diff := cmp.Diff(want, w.took()); diff != "" || w.cleared != 1 {
		t.Errorf("rules of OVS deleted %d times; back (-want +got):\n%s", w.cleared, diff)
	}
	if after := w.String(); after != before || len(r.Results()) != 0 || len(w.reserved(r)) != 0 {
		t.Errorf("before %s\nafter  %s\nresults %v", before, after, r.Results())
	}
}

// VFs are reserved before they exist: no pod gets one meanwhile.
func TestReserved_FromCreationOfVFs(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 4, ReservedVFs: 2})}
	w.crashAt, w.crashAfter = 2, true // the VFs are just made
	r := w.agent()
	if err := r.pass(t.Context()); !errors.Is(err, errCrash) || w.cards[first].vfs != 4 {
		t.Fatal(err, w)
	}
	for _, agent := range []*Runner{r, w.agent()} {
		if got := w.reserved(agent); len(got) != 2 || !got[vfName(first, 1)] {
			t.Errorf("reserved %v", got)
		}
	}
}

// A NIC that cannot go back yet keeps its reserved VFs: the node still uses them.
func TestReserved_UntilNICIsBack(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 4, ReservedVFs: 1})}
	w.pass()
	w.policies = nil
	w.addressed["v0"] = true
	for range 2 {
		r := w.pass()
		if got := w.reserved(r); len(got) != 1 || !got[vfName(first, 0)] || w.cards[first].vfs != 4 {
			t.Errorf("reserved %v, %s", got, w)
		}
	}
	w.addressed["v0"] = false
	r := w.pass()
	if len(r.saved.Reserved) != 0 || w.cards[first].vfs != 0 {
		t.Errorf("restored: reserved %v, %s", r.saved.Reserved, w)
	}
}

// Each driver has its order; what exists is removed before there is another
// number; and what OVS had is not taken from it.
func TestSetup_StepsFollowDriver(t *testing.T) {
	for _, c := range []struct {
		card card
		spec v1alpha1.OffloadPolicySpec
		want string
	}{
		{card{driver: "ice", total: 8, vfs: 4, mode: vf.Legacy}, v1alpha1.OffloadPolicySpec{NumVFs: 4}, "03 vfs 0; 03 mode switchdev; 03 vfs 4"},
		{card{driver: "bnxt_en", total: 8, mode: vf.Legacy}, v1alpha1.OffloadPolicySpec{NumVFs: 4}, "03 vfs 4; 03 mode switchdev"},
		{card{driver: "bnxt_en", total: 8, vfs: 2, mode: vf.Legacy}, v1alpha1.OffloadPolicySpec{NumVFs: 4}, "03 vfs 0; 03 vfs 4; 03 mode switchdev"},
		{card{driver: "mlx5_core", total: 8, vfs: 2, mode: vf.Switchdev, reps: make([]bool, 2)}, v1alpha1.OffloadPolicySpec{NumVFs: 3}, "03 vfs 0; 03 vfs 3"},
		{card{driver: "mlx5_core", total: 8, vfs: 2, mode: vf.Switchdev, reps: make([]bool, 2)}, v1alpha1.OffloadPolicySpec{EswitchMode: "legacy"}, "03 vfs 0; 03 mode legacy"},
		{card{driver: "mlx5_core", total: 8, vfs: 1, mode: vf.Switchdev, reps: []bool{true}, uplink: true}, v1alpha1.OffloadPolicySpec{NumVFs: 1}, ""},
	} {
		nic := c.card
		w := newWorld(t, map[string]*card{first: &nic})
		w.config, w.running = map[string]string{"hw-offload": "true"}, map[string]string{"hw-offload": "true"}
		before := w.String()
		w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, c.spec)}
		w.pass()
		var steps []string
		for _, step := range w.took() {
			if !strings.Contains(step, " tc ") {
				steps = append(steps, step)
			}
		}
		if got := strings.Join(steps, "; "); got != c.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", c.card, got, c.want)
		}
		w.policies = nil
		w.pass()
		if after := w.String(); after != before {
			t.Errorf("%+v:\nbefore %s\nafter  %s", c.card, before, after)
		}
	}
}

func TestSetup_RefusesNICInUseOrUnfit(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*world)
		want  string
	}{
		"the node has a VF":  {func(w *world) { w.cards[first].vfs = 2; w.addressed["v1"] = true }, "v1 has address 192.0.2.1/24"},
		"the node's bridge":  {func(w *world) { w.cards[first].master = "ovs-system" }, "port of ovs-system"},
		"the node's address": {func(w *world) { w.addressed["up03"] = true }, "up03, which has address 192.0.2.1/24"},
		"too many":           {func(w *world) { w.cards[first].total = 3 }, "the NIC can have 3"},
		"no SR-IOV":          {func(w *world) { w.cards[first].total = 0 }, "cannot have VFs"},
		"an unknown mode":    {func(w *world) { w.cards[first].mode = vf.Unknown }, "unknown mode"},
	} {
		w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
		w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 4, OVSHWOffload: new(bool)})}
		c.spoil(w)
		r := w.pass()
		if got := r.Results(); len(got) != 1 || got[0].State != v1alpha1.PolicyRefused || !strings.Contains(got[0].Message, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
		if steps := w.took(); steps != nil {
			t.Errorf("%s: %q", name, steps)
		}
		if _, err := os.Stat(w.file); err == nil {
			t.Errorf("%s: something was recorded", name)
		}
	}
}

// VFs that no claim tells of: in another namespace, a bridge's, a VFIO user's.
func TestUsers_OfVFsWithoutClaim(t *testing.T) {
	for want, v := range map[string]vf.VF{
		"":                        {Device: vf.Device{Driver: "mlx5_core"}, Netdev: &vf.Netdev{Name: "v0"}},
		"another namespace":       {Device: vf.Device{Driver: "mlx5_core"}},
		"port of br0":             {Device: vf.Device{Driver: "mlx5_core"}, Netdev: &vf.Netdev{Name: "v0", Use: "is a port of br0"}},
		"bound to vfio-pci":       {Device: vf.Device{Driver: "vfio-pci"}},
		"pod d/p, which has VF 0": {Device: vf.Device{Name: "0000:03:00.5"}},
		"and 2 more":              {Index: -1},
	} {
		pf := &vf.PF{VFs: []vf.VF{v}}
		if v.Index < 0 {
			pf.VFs = make([]vf.VF, 5)
			for i := range pf.VFs {
				pf.VFs[i].Driver = "vfio-pci"
			}
		}
		var c Change
		pods := way{}.vfUsers(State{InUse: map[string]string{"0000:03:00.5": "pod d/p"}}, pf, &c)
		got := c.Refused + strings.Join(pods, "; ")
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSelect_PolicyOfEachNIC(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core"), second: bare("mlx5_core")})
	inv, err := w.inventory()
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) v1alpha1.PFSelector { return v1alpha1.PFSelector{Names: []string{name}} }
	s := State{PFs: inv.PFs, Saved: Checkpoint{PFs: map[string]Original{second: {Uplink: "before"}}}}
	for name, c := range map[string]struct {
		policies []*v1alpha1.OffloadPolicy
		want     string // who has the first and the second
		notes    string
	}{
		"vendor":       {[]*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{})}, "p p", ""},
		"the older":    {[]*v1alpha1.OffloadPolicy{policy("a", 1, v1alpha1.OffloadPolicySpec{}), policy("b", 2, v1alpha1.OffloadPolicySpec{PFSelector: named("up03")})}, "b a", "a " + first + " Conflict"},
		"equally old":  {[]*v1alpha1.OffloadPolicy{policy("b", 1, v1alpha1.OffloadPolicySpec{PFSelector: named("up03")}), policy("a", 1, v1alpha1.OffloadPolicySpec{PFSelector: named("up03")})}, "a ", "b " + first + " Conflict"},
		"former name":  {[]*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{PFSelector: named("before")})}, " p", ""},
		"no such name": {[]*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{PFSelector: named("eth9")})}, " ", "p  Pending"},
		"another node": {[]*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"kind": "slow"}}})}, " ", ""},
		"this node":    {[]*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"kind": "fast"}}})}, "p p", ""},
		"bad selector": {[]*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NodeSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}})}, " ", "p  Failed"},
		"both fields":  {[]*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{PFSelector: v1alpha1.PFSelector{Names: []string{"up03"}, Vendors: []string{"8086"}}})}, " ", "p  Pending"},
	} {
		wants, notes := Select(c.policies, w.labels, s)
		var reported []string
		for _, n := range notes {
			reported = append(reported, fmt.Sprintf("%s %s %s", n.Policy, n.Device, n.State))
		}
		if got := wants[first].Policy + " " + wants[second].Policy; got != c.want || strings.Join(reported, "; ") != c.notes {
			t.Errorf("%s: %q, notes %q", name, got, reported)
		}
	}
	empty := policy("p", 1, v1alpha1.OffloadPolicySpec{})
	empty.Spec.PFSelector = v1alpha1.PFSelector{}
	if wants, _ := Select([]*v1alpha1.OffloadPolicy{empty}, w.labels, s); len(wants) != 0 {
		t.Errorf("an empty selector takes all NICs: %v", wants)
	}
}

func TestSetup_WaitsUntilPoliciesAreKnown(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 4})}
	w.pass()
	w.took()
	w.policies, w.unknown = nil, true
	if err := w.agent().pass(t.Context()); !errors.Is(err, reconcile.ErrNotReady) || w.took() != nil {
		t.Errorf("%v", err)
	}
}

// A reboot undoes everything by itself: what the machine starts with is the
// original from then on, and nothing older is ever restored.
func TestReboot_OriginalIsStateAtBoot(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 4, OVSHWOffload: new(bool)})}
	w.pass()
	w.boot, w.cards[first] = "boot-2", &card{driver: "mlx5_core", total: 8, vfs: 1, mode: vf.Legacy}
	w.pass()
	if w.cards[first].vfs != 4 {
		t.Error(w)
	}
	w.policies = nil
	w.pass()
	if w.cards[first].vfs != 1 || w.cards[first].mode != vf.Legacy {
		t.Errorf("not as the machine started: %s", w)
	}
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 4, OVSHWOffload: new(bool)})}
	w.pass()
	w.took()
	w.boot, w.cards[first], w.policies = "boot-3", bare("mlx5_core"), nil
	r := w.pass()
	if steps := w.took(); steps != nil || len(r.saved.PFs) != 0 {
		t.Errorf("the policy went while the machine was down: %q, %v", steps, r.saved)
	}
}

// TestUpgrade_CheckpointOfFormerVersionGivesNICBack: testdata has the file as an agent wrote it before networks were values.
func TestUpgrade_CheckpointOfFormerVersionGivesNICBack(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core"), second: bare("ice")})
	before := w.String()
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{
		PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{first}}, NumVFs: 2, ReservedVFs: 1,
	})}
	w.pass()
	w.took()
	former, err := os.ReadFile("testdata/checkpoint.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.file, former, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.reserved(w.agent()); len(got) != 1 || !got[vfName(first, 0)] {
		t.Errorf("reserved %v", got)
	}
	w.pass()
	if steps := w.took(); steps != nil {
		t.Errorf("with the former checkpoint: %q", steps)
	}
	w.policies = nil
	w.pass()
	if after := w.String(); after != before {
		t.Errorf("before %s\nafter  %s", before, after)
	}
}

func TestRestart_UnsupervisedIsLeftToAdministrator(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.supervised = false
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 1})}
	r := w.pass()
	if got := r.Results()[1]; got.State != v1alpha1.PolicyRefused || got.Message != notSupervised || w.restarts != 0 {
		t.Errorf("%+v after %d restarts", got, w.restarts)
	}
	w.running["hw-offload"] = "true" // the administrator did
	if got := w.pass().Results()[1]; got.State != v1alpha1.PolicyApplied {
		t.Errorf("%+v", got)
	}
}

// One NIC that fails does not hold back the other, and is tried again.
func TestSetup_FailedNICDelaysNoOther(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core"), second: bare("mlx5_core")})
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 1})}
	w.crashAt = 1
	r := w.agent()
	if err := r.pass(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if got := r.Results(); got[0].State != v1alpha1.PolicyFailed || !strings.Contains(got[0].Message, errCrash.Error()) || got[1].State != v1alpha1.PolicyApplied {
		t.Errorf("%+v", got)
	}
	if err := r.pass(t.Context()); err != nil || w.cards[first].vfs != 1 || w.cards[second].vfs != 1 {
		t.Errorf("%v: %s", err, w)
	}
}

// From any state, with a crash at any step: the policy is reached, is stable,
// and its end brings the original state back.
func TestSetup_ReachesPolicyFromAnyState(t *testing.T) {
	drivers := []string{"mlx5_core", "ice", "bnxt_en"}
	modes := []vf.Mode{vf.Legacy, vf.Switchdev}
	random := rand.New(rand.NewPCG(1, 2))
	flip := func() bool { return random.IntN(2) == 0 }
	for run := range 100 {
		nic := &card{driver: drivers[random.IntN(3)], total: 8, vfs: random.IntN(9), mode: modes[random.IntN(2)], uplink: flip()}
		if nic.driver == "bnxt_en" && nic.mode == vf.Switchdev {
			nic.vfs = max(nic.vfs, 1)
		}
		for range nic.vfs {
			nic.reps = append(nic.reps, flip())
		}
		spec := v1alpha1.OffloadPolicySpec{ReservedVFs: random.IntN(2), NumVFs: 1 + random.IntN(8), EswitchMode: string(modes[random.IntN(2)])}
		for _, field := range []**bool{&spec.HWTCOffload, &spec.OVSHWOffload} {
			if on := flip(); flip() {
				*field = &on
			}
		}
		w := newWorld(t, map[string]*card{first: nic})
		if flip() {
			w.config["hw-offload"], w.running["hw-offload"] = "true", "true"
		}
		before := w.String()
		w.crashAt, w.crashAfter = random.IntN(12), flip()
		what := fmt.Sprintf("run %d: %s with %+v, crash at %d", run, before, spec, w.crashAt)
		live := func() *Runner { // until no crash comes
			for {
				r := w.agent()
				if err := r.pass(t.Context()); err == nil {
					return r
				} else if !errors.Is(err, errCrash) {
					t.Fatalf("%s: %v", what, err)
				}
			}
		}
		w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, spec)}
		for _, result := range live().Results() {
			if result.State != v1alpha1.PolicyApplied {
				t.Fatalf("%s: %+v", what, result)
			}
		}
		if nic.vfs != spec.NumVFs || string(nic.mode) != spec.EswitchMode {
			t.Fatalf("%s: reached %s", what, w)
		}
		w.took()
		if w.pass(); w.took() != nil {
			t.Fatalf("%s: not stable", what)
		}
		w.changes, w.policies = 0, nil
		live()
		if after := w.String(); after != before {
			t.Fatalf("%s\nafter %s", what, after)
		}
		if r := w.agent(); len(r.saved.PFs)+len(r.saved.OVS)+len(r.saved.Reserved) != 0 {
			t.Fatalf("%s: left in the checkpoint: %+v", what, r.saved)
		}
	}
}

// TestPass_InterruptedChangeOfUplinkDelaysNoPolicy: what cannot be resumed is in the log, and nothing else is.
func TestPass_InterruptedChangeOfUplinkDelaysNoPolicy(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no such device")} {
		w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
		w.resume = failure
		w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2})}
		w.pass()
		if w.cards[first].vfs == 0 {
			t.Errorf("with error %v: no VFs", failure)
		}
		const message = "ending an interrupted change of the eswitch's mode"
		if got := strings.Contains(w.log.String(), message); got != (failure != nil) {
			t.Errorf("with error %v the log has: %s", failure, &w.log)
		}
	}
}
