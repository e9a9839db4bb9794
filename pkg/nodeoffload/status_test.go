package nodeoffload

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
)

// inventory is that of one of pkg/vf's machines.
func inventory(t *testing.T, machine string) *vf.Inventory {
	t.Helper()
	text, err := os.ReadFile("../vf/testdata/" + machine + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	w, err := vftest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	node := vf.Node{Sysfs: w.Sysfs(), Kernel: w.Kernel, Links: w}
	inv, err := node.Read()
	if err != nil {
		t.Fatal(err)
	}
	return &inv
}

func claim(device, pod string) ledger.Claim {
	return ledger.Claim{
		Device: device, Resource: "ovn-offload.io/vf", Pod: types.NamespacedName{Namespace: "default", Name: pod},
		Interface: "eth0", Phase: ledger.Attached,
	}
}

func TestStatus_DevicesVFsAndProblems(t *testing.T) {
	inv := inventory(t, "connectx6dx-switchdev")
	got := Status(Facts{
		Inventory: inv,
		Claims:    []ledger.Claim{claim("0000:03:00.2", "web")},
		Damaged:   map[string]error{"0000:03:00.9": errors.New("record is damaged")},
		Reserved:  map[string]bool{"0000:03:00.2": true, "0000:03:00.5": true},
		Settings:  &offload.Settings{HWOffload: true},
		Policies: []v1alpha1.PolicyResult{
			{Policy: "old", Device: "0000:03:00.0", State: v1alpha1.PolicyApplied},
			{Policy: "try", Device: "0000:04:00.0", State: v1alpha1.PolicyPlanned, Message: "set number of VFs"},
			{Policy: "new", Device: "0000:03:00.0", State: v1alpha1.PolicyConflict, Message: "policy old is older"},
		},
	})
	// Of the four, VF 0 is a pod's by the ledger (though reserved since), VF 1's
	// netdev is absent without a claim, and VF 3 is the system's.
	if want := (v1alpha1.VFCount{Total: 4, Used: 2, Reserved: 1, Free: 1}); got.VFs != want || got.Devices[0].VFs != want {
		t.Errorf("VFs are %+v, of the device %+v, want %+v", got.VFs, got.Devices[0].VFs, want)
	}
	if got.Offload != v1alpha1.OffloadOn || got.Reason != "" || got.DeviceCount != 2 {
		t.Errorf("offload is %s (%s) with %d devices", got.Offload, got.Reason, got.DeviceCount)
	}
	used := []v1alpha1.UsedVF{{
		Device: "0000:03:00.2", PF: "0000:03:00.0", Pod: "default/web", Interface: "eth0", Representor: "ens1f0npf0vf0", Resource: "ovn-offload.io/vf", Phase: "attached",
	}}
	if diff := cmp.Diff(used, got.UsedVFs); diff != "" {
		t.Errorf("used VFs (-want +got):\n%s", diff)
	}
	problems := []string{"0000:03:00.9: record is damaged", "policy new on 0000:03:00.0: Conflict: policy old is older"}
	if diff := cmp.Diff(problems, got.Problems); diff != "" || got.Problem != problems[0] {
		t.Errorf("problem %q, all (-want +got):\n%s", got.Problem, diff)
	}
}

func TestStatus_OffloadStateHasItsReason(t *testing.T) {
	on := &offload.Settings{HWOffload: true, Policy: offload.PolicyNone}
	for _, c := range []struct {
		machine  string
		settings *offload.Settings
		want     v1alpha1.OffloadState
		reason   string
	}{
		{"", on, "off", "devices are not known"},
		{"nothing", on, "none", "nothing to offload to"},
		{"plain", on, "none", "nothing to offload to"},
		{"connectx6dx-legacy", on, "off", "switchdev mode"},
		{"connectx6dx-switchdev", nil, "off", "not known"},
		{"connectx6dx-switchdev", &offload.Settings{}, "off", "is not set"},
		{"connectx6dx-switchdev", &offload.Settings{HWOffload: true, RestartDue: true}, "off", "restarted"},
		{"connectx6dx-switchdev", &offload.Settings{HWOffload: true, Policy: offload.PolicySkipHW}, "off", "skip_hw"},
		{"connectx6dx-switchdev", &offload.Settings{HWOffload: true, NoRecirculation: true}, "off", "CONFIG_NET_TC_SKB_EXT"},
		{"connectx6dx-switchdev", on, "on", ""},
	} {
		f := Facts{Settings: c.settings}
		if c.machine != "" {
			f.Inventory = inventory(t, c.machine)
		}
		s := Status(f)
		if s.Offload != c.want || !strings.Contains(s.Reason, c.reason) || (c.reason == "") != (s.Reason == "") {
			t.Errorf("%s with %+v: %s, %q", c.machine, c.settings, s.Offload, s.Reason)
		}
	}
	f := Facts{Inventory: inventory(t, "connectx6dx-switchdev"), Settings: on}
	*f.Inventory.PFs[0].Ports[0].HWTC = false
	if s := Status(f); s.Offload != v1alpha1.OffloadOff || !strings.Contains(s.Reason, "hw-tc-offload") {
		t.Errorf("hw-tc-offload off: %s, %q", s.Offload, s.Reason)
	}
}

func TestLabels_FollowDevicesAndOffload(t *testing.T) {
	on := &offload.Settings{HWOffload: true}
	for machine, want := range map[string][4]string{ // sriov, switchdev, vfs, hw-offload
		"plain":                 {},
		"connectx6dx-legacy":    {"true"},
		"connectx6dx-switchdev": {"true", "true", "true", "true"},
	} {
		got := Labels(Status(Facts{Inventory: inventory(t, machine), Settings: on}))
		for i, label := range []string{LabelSRIOV, LabelSwitchdev, LabelVFs, LabelOffload} {
			if value, ok := got[label]; !ok || value != want[i] {
				t.Errorf("%s: %s is %q, want %q", machine, label, value, want[i])
			}
		}
	}
}

func port(name, pod string, function bool, from, to offload.Share) offload.PortReport {
	return offload.PortReport{
		Port: offload.Port{Name: name, Pod: contract.PodOwner("default", pod), Device: offload.Device{Function: function}},
		From: from, To: to,
		Outside: []offload.Cause{
			{Reason: offload.ReasonRefused}, {Reason: offload.ReasonAction, Detail: "hash"},
			{Reason: offload.ReasonNew}, {Reason: offload.ReasonUnknown},
		},
	}
}

func count(flows int, packets uint64) offload.Count {
	return offload.Count{Flows: flows, Packets: packets}
}

func TestStatus_TrafficOfPods(t *testing.T) {
	report := &offload.Report{Ports: []offload.PortReport{
		port("eth4", "good", true, offload.Share{Hardware: count(3, 1000)}, offload.Share{Hardware: count(1, 10), OVS: count(4, 1)}),
		port("eth5", "bad", true, offload.Share{TC: count(1, 90), OVS: count(1, 5), Partial: count(1, 5)}, offload.Share{}),
		port("eth6", "idle", true, offload.Share{}, offload.Share{}),
		port("veth", "veth", false, offload.Share{OVS: count(9, 9)}, offload.Share{}),
		{Port: offload.Port{Name: "uplink"}, From: offload.Share{Hardware: count(9, 9)}},
	}}
	got := Status(Facts{Report: report})
	outside := []v1alpha1.OutsideHardware{{Reason: "refused"}, {Reason: "action", Detail: "hash"}, {Reason: "new-connection"}}
	want := []v1alpha1.PodTraffic{
		{
			Pod: "default/bad", Port: "eth5", Outside: outside,
			Flows: v1alpha1.TrafficShare{TC: 35, OVS: 65}, Packets: v1alpha1.TrafficShare{TC: 90, OVS: 10},
		},
		{
			Pod: "default/good", Port: "eth4", Outside: outside, // not one packet in a thousand is nothing
			Flows: v1alpha1.TrafficShare{Hardware: 50, OVS: 50}, Packets: v1alpha1.TrafficShare{Hardware: 95, OVS: 5},
		},
	}
	if diff := cmp.Diff(want, got.Traffic); diff != "" {
		t.Errorf("traffic (-want +got):\n%s", diff)
	}
	if got.HardwarePercent == nil || *got.HardwarePercent != 90 {
		t.Errorf("hardware: %v", got.HardwarePercent)
	}
	if idle := Status(Facts{Report: &offload.Report{}}); idle.HardwarePercent != nil {
		t.Errorf("without traffic there is a share of it: %d", *idle.HardwarePercent)
	}
}

// TestStatus_SumsByReasonCountPodsWithMuchOutside: also those that the bounded list leaves out, and not the pod of which a
// twentieth is outside, the idle one and the one without a device.
func TestStatus_SumsByReasonCountPodsWithMuchOutside(t *testing.T) {
	of := func(name string, function bool, hardware, software uint64, causes ...offload.Cause) offload.PortReport {
		p := port(name, name, function, offload.Share{Hardware: count(1, hardware), OVS: count(1, software)}, offload.Share{})
		p.Outside = causes
		return p
	}
	because := func(reason offload.Reason, packets uint64) offload.Cause {
		return offload.Cause{Reason: reason, Count: count(1, packets)}
	}
	report := &offload.Report{}
	for i := range 2 * maxTraffic {
		report.Ports = append(report.Ports, of(fmt.Sprint("refused", i), true, 50, 50, because(offload.ReasonRefused, 40), because(offload.ReasonNew, 10)))
	}
	report.Ports = append(report.Ports, of("hash", true, 0, 100, because(offload.ReasonAction, 100)),
		of("good", true, 9500, 500, because(offload.ReasonNew, 500)), of("veth", false, 0, 9999, because(offload.ReasonPort, 9999)),
		port("idle", "idle", true, offload.Share{}, offload.Share{}))
	want := []v1alpha1.ReasonSum{{Reason: "refused", Pods: 2 * maxTraffic, Percent: 10}, {Reason: "action", Pods: 1, Percent: 5}}
	if diff := cmp.Diff(want, Status(Facts{Report: report}).Outside); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
	report.Ports = report.Ports[len(report.Ports)-3:]
	if got := Status(Facts{Report: report}).Outside; got != nil {
		t.Errorf("without such pods: %+v", got)
	}
}

func TestPercent_RoundsToFive(t *testing.T) {
	for _, c := range []struct {
		part, sum uint64
		want      int
	}{{0, 0, 0}, {0, 9, 0}, {1, 1e9, 5}, {1e9 - 1, 1e9, 95}, {5, 5, 100}, {52, 100, 50}, {53, 100, 55}} {
		if got := percent(c.part, c.sum); got != c.want {
			t.Errorf("%d of %d is %d, want %d", c.part, c.sum, got, c.want)
		}
	}
}

// The object stays small whatever a node has.
func TestStatus_SizeIsBounded(t *testing.T) {
	f := Facts{Report: &offload.Report{}, Inventory: &vf.Inventory{}}
	for i := range 2000 {
		pf := vf.PF{Device: vf.Device{Name: fmt.Sprintf("pf%d", i)}, Eswitch: vf.Eswitch{Mode: vf.Switchdev}}
		for range 20 {
			pf.Problems = append(pf.Problems, strings.Repeat("problem ", 10))
		}
		f.Inventory.PFs = append(f.Inventory.PFs, pf)
		f.Claims = append(f.Claims, claim(fmt.Sprint(i), fmt.Sprint(i)))
		f.Report.Ports = append(f.Report.Ports, port(fmt.Sprint(i), "p", true, offload.Share{OVS: count(1, 1)}, offload.Share{}))
		f.Policies = append(f.Policies, v1alpha1.PolicyResult{Policy: fmt.Sprint(i), State: v1alpha1.PolicyFailed})
	}
	s := Status(f)
	raw, err := json.Marshal(s)
	if err != nil || len(raw) > 200<<10 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if s.UsedVFsOmitted != 2000-maxUsed || s.TrafficOmitted != 2000-maxTraffic || s.DeviceCount != 2000 {
		t.Errorf("%d used VFs and %d pods are left out, %d devices are counted", s.UsedVFsOmitted, s.TrafficOmitted, s.DeviceCount)
	}
}

// What other parts know comes first, also on a node without devices.
func TestStatus_ProblemsOfOthersComeFirst(t *testing.T) {
	for _, problems := range [][]string{nil, {"the DPU is not ready"}} {
		s := Status(Facts{Problems: problems})
		if fmt.Sprint(s.Problems) != fmt.Sprint(problems) || s.Problem != strings.Join(problems, "") {
			t.Errorf("%v: problem %q, problems %q", problems, s.Problem, s.Problems)
		}
	}
}
