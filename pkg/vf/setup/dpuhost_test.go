package setup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// newDPUHost is a host with a DPU: the kernel shows no eswitch before there are VFs, and one in legacy mode then.
func newDPUHost(t *testing.T) *world {
	w := newWorld(t, map[string]*card{first: {driver: "mlx5_core", total: 8, mode: vf.NoSwitch}})
	w.dpu = true
	w.addressed["up03"] = true // the host's own address
	return w
}

// TestDPUHost_PolicySetsNumberOfVFs: a policy as for other nodes makes the VFs, and nothing else; its deletion removes them.
func TestDPUHost_PolicySetsNumberOfVFs(t *testing.T) {
	w := newDPUHost(t)
	before := w.String()
	w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, v1alpha1.OffloadPolicySpec{NumVFs: 2, ReservedVFs: 1, UplinkChange: v1alpha1.UplinkAtBoot})}
	r := w.pass()
	if diff := cmp.Diff([]string{"03 vfs 2"}, w.took()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	want := []v1alpha1.PolicyResult{{Policy: "p", Generation: 1, Device: first, State: v1alpha1.PolicyApplied, Message: noteDPU}}
	if diff := cmp.Diff(want, r.Results()); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if got := w.reserved(w.agent()); len(got) != 1 || !got[vfName(first, 0)] {
		t.Errorf("reserved %v", got)
	}
	w.cards[first].mode = vf.Legacy
	w.pass()
	if steps := w.took(); steps != nil {
		t.Errorf("a second time: %q", steps)
	}
	w.used[vfName(first, 0)] = "pod default/web"
	w.policies = nil
	if got := w.pass().Results(); len(got) != 1 || got[0].State != v1alpha1.PolicyDrainNeeded || w.took() != nil {
		t.Errorf("with a pod on a VF: %+v", got)
	}
	clear(w.used)
	r = w.pass()
	w.cards[first].mode = vf.NoSwitch
	if diff := cmp.Diff([]string{"03 vfs 0"}, w.took()); diff != "" || w.String() != before || len(r.Results()) != 0 {
		t.Errorf("%s, %+v; back (-want +got):\n%s", w, r.Results(), diff)
	}
}

// TestDPUHost_RefusesWhatIsTheDPUs: what a policy cannot have there is a result of its own, and nothing is changed.
func TestDPUHost_RefusesWhatIsTheDPUs(t *testing.T) {
	on, off := true, false
	for name, c := range map[string]struct {
		spec  v1alpha1.OffloadPolicySpec
		state v1alpha1.PolicyState
		says  string
	}{
		"legacy mode":             {v1alpha1.OffloadPolicySpec{NumVFs: 2, EswitchMode: "legacy"}, v1alpha1.PolicyRefused, "eswitchMode is legacy, and the eswitch is that of the host's DPU"},
		"no hw-tc-offload":        {v1alpha1.OffloadPolicySpec{NumVFs: 2, HWTCOffload: &off}, v1alpha1.PolicyRefused, "hwTCOffload is false"},
		"no offload in OVS":       {v1alpha1.OffloadPolicySpec{NumVFs: 2, OVSHWOffload: &off}, v1alpha1.PolicyRefused, "ovsHWOffload is false"},
		"too many VFs":            {v1alpha1.OffloadPolicySpec{NumVFs: 9}, v1alpha1.PolicyRefused, "9 VFs are wanted, the NIC can have 8"},
		"what the DPU has":        {v1alpha1.OffloadPolicySpec{NumVFs: 2, EswitchMode: "switchdev", HWTCOffload: &on, OVSHWOffload: &on}, v1alpha1.PolicyApplied, noteDPU},
		"a dry run":               {v1alpha1.OffloadPolicySpec{NumVFs: 2, DryRun: true}, v1alpha1.PolicyPlanned, "set number of VFs of " + first + " to 2"},
		"in place, on the uplink": {v1alpha1.OffloadPolicySpec{NumVFs: 2, UplinkChange: v1alpha1.UplinkInPlace}, v1alpha1.PolicyApplied, noteDPU},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDPUHost(t)
			w.policies = []*v1alpha1.OffloadPolicy{policy("p", 1, c.spec)}
			got := w.pass().Results()
			if len(got) != 1 || got[0].State != c.state || !strings.Contains(got[0].Message, c.says) {
				t.Errorf("%+v, want %s with %q", got, c.state, c.says)
			}
			if steps := w.took(); (len(steps) > 0) != (c.state == v1alpha1.PolicyApplied) {
				t.Errorf("steps %q", steps)
			}
		})
	}
}
