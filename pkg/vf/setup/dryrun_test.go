package setup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// The same policy, which is no dry run any more, is the negative control.
func TestDryRun_ShowsPlanAndChangesNothing(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	before := w.String()
	p := policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2, ReservedVFs: 1, DryRun: true})
	w.policies = []*v1alpha1.OffloadPolicy{p}
	r := w.pass()
	if after := w.String(); w.changes != 0 || after != before || len(r.Reserved()) != 0 || len(r.saved.PFs) != 0 {
		t.Errorf("changed: %q, reserved %v, saved %v, %s", w.took(), r.Reserved(), r.saved.PFs, after)
	}
	want := []v1alpha1.PolicyResult{
		{Policy: "p", Generation: 1, Device: first, State: v1alpha1.PolicyPlanned, Message: "save original state of " + first + " (0 VFs, legacy); " +
			"set eswitch of " + first + " to switchdev; set number of VFs of " + first + " to 2; " +
			"set hw-tc-offload of the uplink and the representors to true"},
		{Policy: "p", Generation: 1, State: v1alpha1.PolicyPlanned, Message: "save settings of OVS map[hw-offload:]; " +
			"merge settings of OVS map[hw-offload:true]; restart ovs-vswitchd"},
	}
	if diff := cmp.Diff(want, r.Results()); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	p.Spec.DryRun = false
	if r = w.pass(); w.changes == 0 || w.cards[first].vfs != 2 || r.Reserved()[first] != 1 {
		t.Errorf("no dry run: %d changes, reserved %v, %s", w.changes, r.Reserved(), w)
	}
}

func TestDryRun_KeepsWhatPolicyHasChanged(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	bareNode := w.String()
	p := policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2, ReservedVFs: 1})
	w.policies = []*v1alpha1.OffloadPolicy{p}
	w.pass()
	applied, changes := w.String(), w.changes
	p.Spec.DryRun, p.Spec.NumVFs, p.Spec.ReservedVFs = true, 4, 2
	for range 2 {
		r := w.pass()
		if w.changes != changes || w.String() != applied || r.Reserved()[first] != 1 {
			t.Errorf("%d changes, reserved %v, %s", w.changes-changes, r.Reserved(), w)
		}
		if got := r.Results(); len(got) != 2 || got[0].State != v1alpha1.PolicyPlanned || got[1].State != v1alpha1.PolicyApplied {
			t.Errorf("results %v", got)
		}
	}
	w.policies = nil
	if w.pass(); w.String() != bareNode {
		t.Errorf("deleted:\nbefore %s\nafter  %s", bareNode, w)
	}
}

func TestDryRun_SaysWhatIsRefused(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
	w.cards[first].master = "br-ex"
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2, DryRun: true})}
	got := w.pass().Results()
	if len(got) == 0 || got[0].State != v1alpha1.PolicyRefused || w.changes != 0 {
		t.Errorf("%d changes, results %v", w.changes, got)
	}
}

// The plan says when only the administrator of OVS can restart ovs-vswitchd.
func TestDryRun_NamesRestartThatIsNotOurs(t *testing.T) {
	for _, supervised := range []bool{true, false} {
		w := newWorld(t, map[string]*card{first: bare("mlx5_core")})
		w.supervised = supervised
		w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2, DryRun: true})}
		got := w.pass().Results()
		if len(got) != 2 || strings.Contains(got[1].Message, "only the administrator of OVS") == supervised {
			t.Errorf("supervised %t: %v", supervised, got)
		}
	}
}

// A dry run neither delays nor claims OVS for the policy of another NIC.
func TestDryRun_LeavesOtherNICToItsPolicy(t *testing.T) {
	w := newWorld(t, map[string]*card{first: bare("mlx5_core"), second: bare("mlx5_core")})
	only := func(address string) v1alpha1.PFSelector { return v1alpha1.PFSelector{PCIAddresses: []string{address}} }
	w.policies = []*v1alpha1.OffloadPolicy{
		policy("dry", 2, v1alpha1.OffloadPolicySpec{PFSelector: only(first), NumVFs: 2, DryRun: true}),
		policy("p", 1, v1alpha1.OffloadPolicySpec{PFSelector: only(second), NumVFs: 1}),
	}
	got := map[string]v1alpha1.PolicyState{}
	for _, r := range w.pass().Results() {
		got[r.Policy+" "+r.Device] = r.State
	}
	want := map[string]v1alpha1.PolicyState{
		"dry " + first: v1alpha1.PolicyPlanned, "p " + second: v1alpha1.PolicyApplied, "p ": v1alpha1.PolicyApplied,
	}
	if diff := cmp.Diff(want, got); diff != "" || w.cards[first].vfs != 0 || w.running["hw-offload"] != "true" {
		t.Errorf("states (-want +got):\n%s%s", diff, w)
	}
}
