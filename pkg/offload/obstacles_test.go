package offload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
)

func TestObstacles_EachWithoutTheOnesBefore(t *testing.T) {
	good, plain := Port{Name: "rep0", Device: Device{Representor: true, HWTC: true}}, Port{Name: "veth0"}
	on := Settings{HWOffload: true}
	for name, c := range map[string]struct {
		line     string
		settings Settings
		want     []Obstacle
	}{
		"nothing known": {"in_port(rep0), packets:1, actions:rep0", on, nil},
		"in hardware":   {"in_port(veth0), packets:1, offloaded:yes, dp:tc, actions:rep0", on, nil},
		"one action":    {"in_port(rep0), packets:1, actions:hash(l4(0)),rep0", on, []Obstacle{{ReasonAction, "hash"}}},
		"all kinds": {
			"in_port(veth0),ct_state(+new+trk),ct_tuple4(src=10.0.0.1,dst=10.0.0.2,proto=6), packets:1, actions:hash(l4(0)),userspace(pid=1,controller(reason=1)),trunc(9),rep0,veth1", Settings{},
			[]Obstacle{
				{ReasonOff, "hw-offload is not set"}, {ReasonSlowPath, "controller"}, {ReasonPort, noDevice},
				{ReasonAction, "hash"}, {ReasonAction, "trunc"}, {ReasonMatch, "ct_tuple4"}, {ReasonOutput, noDevice}, {ReasonNew, ""},
			},
		},
		"restart":             {"in_port(rep0), packets:1, actions:rep0", Settings{HWOffload: true, RestartDue: true}, []Obstacle{{ReasonOff, "ovs-vswitchd must be restarted"}}},
		"in nested actions":   {"in_port(rep0), packets:1, actions:clone(sample(sample=50.0%,actions(rep0))),rep0", on, []Obstacle{{ReasonAction, "clone"}}},
		"recirculation":       {"in_port(rep0), packets:1, actions:ct(zone=3),recirc(0x8)", Settings{HWOffload: true, NoRecirculation: true}, []Obstacle{{ReasonAction, "recirc"}}},
		"the same port twice": {"in_port(veth0), packets:1, actions:veth0,rep0", on, []Obstacle{{ReasonPort, noDevice}}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := dpflow.Parse(c.line)
			if err != nil {
				t.Fatal(err)
			}
			a := NewAdvisor(State{Ports: []Port{good, plain, {Name: "veth1"}}, Settings: c.settings})
			if diff := cmp.Diff(c.want, a.Obstacles(f)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if again := a.Obstacles(f); !cmp.Equal(again, c.want) { // what was removed is there again
				t.Errorf("the second time: %v", again)
			}
		})
	}
}
