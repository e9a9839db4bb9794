package offload

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func TestWriteTable_ShowsPortsAndTotals(t *testing.T) {
	pod := Port{Name: "eth4", Pod: contract.PodOwner("default", "web"), Device: Device{Representor: true, Function: true}}
	r := Report{
		Settings: Settings{HWOffload: true, Policy: PolicyNone}, Malformed: 2,
		Total: Share{Hardware: Count{Flows: 3}, OVS: Count{Flows: 1}},
		Ports: []PortReport{
			{Port: Port{Name: "a-uplink"}, From: Share{Hardware: Count{Flows: 1, Packets: 4}}},
			{
				Port: pod, From: Share{Hardware: Count{Flows: 2, Packets: 90}}, To: Share{TC: Count{Flows: 1, Packets: 10}},
				Outside: []Cause{{Reason: ReasonAction, Detail: "hash"}, {Reason: ReasonNew}},
			},
			{Port: Port{Name: "new", Pod: contract.PodOwner("default", "new")}, From: Share{OVS: Count{Flows: 1}}},
			{Port: Port{Name: "idle"}},
		},
	}
	var out strings.Builder
	if err := WriteTable(&out, r); err != nil {
		t.Fatal(err)
	}
	want := `hw-offload of OVS: on, tc-policy none. 3 of 4 datapath flows are in hardware.

POD          PORT      FLOWS  PACKETS  HARDWARE  TC   OVS  OUTSIDE BECAUSE
default/new  new       1      0        -         -    -    -
default/web  eth4      3      100      90%       10%  0%   action (hash), new-connection
-            a-uplink  1      4        100%      0%   0%   -

2 lines of the dump were not understood

`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for settings, want := range map[Settings]string{{}: "OVS: off", {HWOffload: true, RestartDue: true}: "OVS: set, in force when"} {
		out.Reset()
		if err := WriteTable(&out, Report{Settings: settings}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%+v: %v, %s", settings, err, out.String())
		}
	}
}
