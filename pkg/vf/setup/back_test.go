package setup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// TestBack_LinkWithRulesKeepsTCOffload: a link with rules of OVS keeps hw-tc-offload.
func TestBack_LinkWithRulesKeepsTCOffload(t *testing.T) {
	w := newWorld(t, map[string]*card{first: {driver: "mlx5_core", total: 8, vfs: 2, mode: vf.Switchdev, reps: make([]bool, 2), busy: true}})
	before := w.String()
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2})}
	w.pass()
	if !w.cards[first].uplink {
		t.Error(w)
	}
	w.policies = nil
	r := w.pass()
	if after := w.String(); after != before || len(r.Results()) != 0 {
		t.Errorf("before %s\nafter  %s\nresults %v", before, after, r.Results())
	}
}

// TestBack_OneOfTwoNICsDoesNotWait: the first NIC is restored although OVS still offloads for the other. Only settings
// that TC rules keep are left, and are reported.
func TestBack_OneOfTwoNICsDoesNotWait(t *testing.T) {
	own := func() *card {
		return &card{driver: "mlx5_core", total: 8, vfs: 2, mode: vf.Switchdev, reps: make([]bool, 2)}
	}
	a := policy("a", 2, v1alpha1.OffloadPolicySpec{PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{first}}, NumVFs: 2})
	b := policy("b", 1, v1alpha1.OffloadPolicySpec{PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{second}}, NumVFs: 2})
	stays := []v1alpha1.PolicyResult{{Policy: "b", Generation: 1, Device: second, State: v1alpha1.PolicyApplied}, {Policy: "b", Generation: 1, State: v1alpha1.PolicyApplied}}
	for name, c := range map[string]struct {
		leaves *card
		busy   bool
		steps  []string
		kept   string
	}{
		"no rules":            {own(), false, []string{"rep031 tc false", "rep030 tc false", "up03 tc false"}, ""},
		"rules":               {own(), true, nil, "hw-tc-offload stays on while there are rules of TC: rep031, rep030, up03; OVS offloads for policy b"},
		"its rules go as VFs": {bare("mlx5_core"), false, []string{"03 vfs 0", "03 mode legacy", "up03 tc false"}, ""},
	} {
		w := newWorld(t, map[string]*card{first: c.leaves, second: own()})
		w.policies = []*v1alpha1.OffloadPolicy{a, b}
		w.pass()
		w.took()
		w.policies, c.leaves.busy = w.policies[1:], c.busy
		r := w.pass() // without an error
		want := stays
		if c.kept != "" {
			want = append([]v1alpha1.PolicyResult{{Device: first, State: v1alpha1.PolicyPending, Message: c.kept}}, stays...)
		}
		if diff := cmp.Diff(want, r.Results()); diff != "" {
			t.Errorf("%s: results (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.steps, w.took()); diff != "" {
			t.Errorf("%s: steps (-want +got):\n%s", name, diff)
		}
		c.leaves.busy = false // no traffic for a while
		if diff := cmp.Diff(stays, w.pass().Results()); diff != "" || w.cards[first].uplink || w.running["hw-offload"] != "true" {
			t.Errorf("%s: in the end %s, results (-want +got):\n%s", name, w, diff)
		}
	}
}

// TestBack_KeptRulesDelayNoOtherPolicy: rules that stay on the NIC of one policy do not keep
// another from OVS' offload.
func TestBack_KeptRulesDelayNoOtherPolicy(t *testing.T) {
	w := newWorld(t, map[string]*card{
		first:  {driver: "mlx5_core", total: 8, mode: vf.Switchdev},
		second: bare("mlx5_core"),
	})
	w.policies = []*v1alpha1.OffloadPolicy{policy("a", 1, v1alpha1.OffloadPolicySpec{
		PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{first}}, OVSHWOffload: new(bool),
	})}
	w.pass()
	w.cards[first].filter = true
	w.policies = []*v1alpha1.OffloadPolicy{policy("b", 1, v1alpha1.OffloadPolicySpec{
		PFSelector: v1alpha1.PFSelector{PCIAddresses: []string{second}}, NumVFs: 1,
	})}
	r := w.pass()
	if w.running["hw-offload"] != "true" || len(r.Results()) != 3 || r.Results()[0].State != v1alpha1.PolicyPending {
		t.Errorf("%s: %+v", w, r.Results())
	}
}

func TestWhyRules_ReasonOfEachState(t *testing.T) {
	pfs := []vf.PF{{Device: vf.Device{Name: first}}}
	ovs := func(config, running string) *OVS {
		return &OVS{Observed: offload.Observed{
			OtherConfig: map[string]string{"hw-offload": config}, Running: map[string]string{"hw-offload": running},
		}}
	}
	for want, c := range map[string]struct {
		state State
		wants map[string]Want
	}{
		"for policy b":     {State{PFs: pfs, OVS: ovs("true", "true")}, map[string]Want{first: {Policy: "b", OVS: true}}},
		"a NIC cannot":     {State{OVS: ovs("true", "true"), Saved: Checkpoint{OVS: map[string]string{"hw-offload": ""}}}, nil},
		"is restarted":     {State{OVS: ovs("", "true")}, nil},
		"no policy's":      {State{OVS: ovs("true", "true")}, nil},
		"does not offload": {State{OVS: ovs("", "")}, nil},
		"not offload":      {State{}, nil},
	} {
		if got := whyRules(c.state, c.wants); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A pod keeps its VF when the policy goes; when the pod has gone, so does the VF.
func TestBack_WaitsForPods(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 4})}
	w.pass()
	w.took()
	w.policies = nil
	w.used[vfName(first, 2)] = "pod default/web"
	r := w.pass()
	if got := r.Results()[0]; got.Policy != "" || got.State != v1alpha1.PolicyDrainNeeded || !strings.Contains(got.Message, "default/web") {
		t.Errorf("%+v", got)
	}
	if steps := w.took(); steps != nil || len(r.Results()) != 1 { // nor is its offload
		t.Errorf("steps %q, results %+v", steps, r.Results())
	}
	w.used = map[string]string{}
	w.pass()
	if w.cards[first].vfs != 0 || w.cards[first].mode != vf.Legacy {
		t.Error(w)
	}
}
