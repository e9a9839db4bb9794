package relay

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/nodeflows"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// TestGathered_CountsFlowByFlow: a flow that moves to hardware brings none of its past into the hour of sums, and one that ends
// takes no packets of others along.
func TestGathered_CountsFlowByFlow(t *testing.T) {
	flow := func(id int, packets uint64, place string) string {
		return fmt.Sprintf("ufid:aaaaaaaa-0000-0000-0000-%012d, recirc_id(0),in_port(rep1),eth_type(0x0800),ipv4(src=10.244.1.6,dst=10.244.2.5,proto=6,frag=no), packets:%d, bytes:%d, used:0.1s, %s, actions:up",
			id, packets, packets, place)
	}
	const hardware, tc, ovs = "offloaded:yes, dp:tc", "dp:tc", "dp:ovs"
	dumps := []dumped{
		{flow(1, 1_000_000, tc), flow(2, 9_000_000, ovs), flow(3, 600, ovs)},
		{flow(1, 1_000_300, hardware), flow(3, 660, ovs)},
		{flow(1, 1_000_900, hardware), flow(3, 660, ovs), flow(4, 90, ovs)},
	}
	vf := offload.Device{Representor: true, Function: true, HWTC: true}
	state := offload.State{Ports: []offload.Port{{Name: "rep1", Pod: contract.PodOwner("shop", "web"), Device: vf}, {Name: "up", Device: vf}}}
	now, at := 0, time.Unix(1_700_000_000, 0)
	var counted *offload.Counted
	var last *offload.Sample
	agent := nodeflows.New(nodeflows.Config{
		Node: "w1", Logger: slog.New(slog.DiscardHandler), State: func() offload.State { return state },
		Newest: func() (offload.Report, time.Time, bool) { // as the sampler of an agent
			report, err := offload.Read(t.Context(), dumps[now], state)
			if err != nil || report.Malformed > 0 {
				t.Fatal(err, report.Malformed)
			}
			sample, delta := offload.Sample{At: at, Report: report}, (*offload.Delta)(nil)
			if last != nil {
				d := offload.Compare(*last, sample)
				delta = &d
			}
			last, counted = &sample, counted.Add(sample, delta)
			report.Counted = counted
			return report, at, true
		},
	})
	g := NewGathered(func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": agent} })
	for now = range dumps {
		g.Gather(t.Context(), at)
		at = at.Add(30 * time.Second)
	}
	for i, want := range [][2]float64{{0, 0}, {10, 2}, {20, 3}} {
		if sum := g.Sums()[i]; sum.Hardware != want[0] || sum.Software != want[1] {
			t.Errorf("sum %d: %+v, want %v packets a second in hardware and %v outside", i, sum, want[0], want[1])
		}
	}
	nodes, _ := g.Summaries()
	if pod := nodes["w1"].Pods[0]; pod.Traffic.Hardware.Packets != 600 || pod.Traffic.OVS.Packets != 90 {
		t.Errorf("the pod: %+v", pod)
	}
}

// TestRestrictSummary_AddsUpWhatIsTheSameWithoutPorts: a reason has one number, whatever the ports that the caller may not see. What was
// counted is restricted as what lives.
func TestRestrictSummary_AddsUpWhatIsTheSameWithoutPorts(t *testing.T) {
	cause := func(reason offload.Reason, detail string, packets uint64) offload.Cause {
		return offload.Cause{Reason: reason, Detail: detail, Count: offload.Count{Packets: packets}}
	}
	in := func(packets uint64) offload.Share { return offload.Share{OVS: offload.Count{Packets: packets}} }
	causes := []offload.Cause{cause("port", "rep1", 5), cause("action", "hash", 3), cause("port", "rep2", 2)}
	s := &flowapi.Summary{
		Total: in(100), Counted: in(50), CountedSince: time.Unix(1_700_000_000, 0), Outside: causes, CountedOutside: causes,
		Pods: []flowapi.PodSummary{{Namespace: "own", Traffic: in(7), Counted: in(4)}, {Namespace: "foreign", Traffic: in(93), Counted: in(46)}},
	}
	isOwn := func(namespace string) bool { return namespace == "own" }
	all := restrictSummary(s, "w1", &Sight{Nodes: true, Pods: isOwn})
	for _, of := range [][]offload.Cause{all.Outside, all.CountedOutside} {
		if len(of) != 2 || of[0] != cause("port", "", 7) || of[1] != cause("action", "hash", 3) {
			t.Errorf("%+v", of)
		}
	}
	if s.Outside[0].Packets != 5 || all.Counted != s.Counted {
		t.Errorf("%+v, %+v", s, all)
	}
	own := restrictSummary(s, "w1", &Sight{Pods: isOwn})
	if len(own.Pods) != 1 || own.Counted != in(4) || own.Total != in(7) || own.CountedOutside != nil || !own.CountedSince.Equal(s.CountedSince) {
		t.Errorf("%+v", own)
	}
}
