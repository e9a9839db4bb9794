package relay

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/nodeflows"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// dumped is an ovs-vswitchd with these flows.
type dumped []string

func (dumped) Instance() (unixctl.Instance, error)   { return unixctl.Instance{}, nil }
func (dumped) ProcessorTime() (time.Duration, error) { return 0, nil }
func (dumped) Call(context.Context, string, ...string) (string, error) {
	return "system@ovs-system\n", nil
}
func (d dumped) Lines(_ context.Context, line func(string) error, _ string, _ ...string) error {
	for _, text := range d {
		if err := line(text); err != nil {
			return err
		}
	}
	return nil
}

// randomNode has pods with one or two VFs, pods with a veth, and flows between them and the tunnels in each place.
func randomNode(random *rand.Rand) (ports []offload.Port, flows dumped) {
	ports = []offload.Port{{Name: "genev_sys_6081", Type: "geneve"}}
	for i := range 1 + random.IntN(7) {
		for j := range 1 + random.IntN(2) {
			vf := offload.Device{Representor: true, Function: true, HWTC: random.IntN(4) > 0}
			ports = append(ports, offload.Port{Name: fmt.Sprintf("rep%d_%d", i, j), Pod: contract.PodOwner("shop", fmt.Sprintf("vf-%d", i)), Device: vf})
		}
	}
	for i := range random.IntN(3) {
		ports = append(ports, offload.Port{Name: fmt.Sprintf("veth%d", i), Pod: contract.PodOwner("shop", fmt.Sprintf("veth-%d", i))})
	}
	places := []string{"offloaded:yes, dp:tc", "offloaded:partial, dp:ovs", "dp:tc", "dp:ovs"}
	for i := range random.IntN(60) {
		from, to := ports[random.IntN(len(ports))].Name, ports[random.IntN(len(ports))].Name
		actions := []string{to, to, "drop", to + ",genev_sys_6081", fmt.Sprintf("ct(zone=1),recirc(0x%x)", i+1)}[random.IntN(5)]
		flows = append(flows, fmt.Sprintf("ufid:aaaaaaaa-0000-0000-0000-%012d, recirc_id(0),in_port(%s),eth_type(0x0800),ipv4(src=10.244.1.6,dst=10.244.2.5,proto=6,frag=no),tcp(src=80,dst=%d), packets:%d, bytes:%d, used:0.1s, %s, actions:%s",
			i, from, i+1, random.IntN(1000), random.IntN(100000), places[random.IntN(len(places))], actions))
	}
	return ports, flows
}

// agrees says whether a percentage in steps of five is that of packets: 0 is none, and 100 is all.
func agrees(percent int, part, sum uint64) bool {
	exact := 100 * float64(part) / float64(max(1, sum))
	return math.Abs(float64(percent)-exact) < 5 && (percent == 0) == (part == 0) && (percent == 100) == (part == sum && sum > 0)
}

// TestGathered_AgreesWithTheNodeOffload: for any flows, what the NodeOffload of a node says of its traffic is what the relay
// gathers of the node, but for the steps of five, and the relay's sums are those of the sample. It failed when summaries left out
// the packets to pods, and when the relay summed the life of flows, for which an agent gives no time.
func TestGathered_AgreesWithTheNodeOffload(t *testing.T) {
	busy := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, seed))
		ports, flows := randomNode(random)
		state := offload.State{Ports: ports, Settings: offload.Settings{HWOffload: true, Policy: offload.PolicyNone}}
		now, at := dumped(nil), time.Unix(1_700_000_000, 0)
		var report offload.Report
		agent := nodeflows.New(nodeflows.Config{
			Node: "w1", Logger: slog.New(slog.DiscardHandler), State: func() offload.State { return state },
			Newest: func() (_ offload.Report, _ time.Time, ok bool) {
				var err error
				if report, err = offload.Read(t.Context(), now, state); err != nil || report.Malformed > 0 {
					t.Fatalf("seed %d: %v, %d lines malformed", seed, err, report.Malformed)
				}
				return report, at, true
			},
		})
		g := NewGathered(func() map[string]flowapi.Source { return map[string]flowapi.Source{"w1": agent} })
		g.Gather(t.Context(), at)
		now, at = flows, at.Add(20*time.Second)
		for range 2 { // the second time there is no newer sample
			g.Gather(t.Context(), at)
		}
		sums, summaries := g.Sums(), map[string]flowapi.PodSummary{}
		total := report.Total
		hardware, software := float64(total.Hardware.Packets)/20, float64(total.Partial.Packets+total.TC.Packets+total.OVS.Packets)/20
		for _, sum := range sums[1:] {
			if sum.Hardware != hardware || sum.Software != software {
				t.Fatalf("seed %d: the relay has %+v, and the sample %v and %v packets a second", seed, sum, hardware, software)
			}
		}
		nodes, _ := g.Summaries()
		var all offload.Share
		for _, pod := range nodes["w1"].Pods {
			summaries[pod.Namespace+"/"+pod.Name] = pod
			if pod.VF {
				all.Add(pod.Traffic)
			}
		}
		status := nodeoffload.Status(nodeoffload.Facts{Report: &report})
		if p, sum := status.HardwarePercent, all.Sum().Packets; (p != nil) != (sum > 0) || p != nil && !agrees(*p, all.Hardware.Packets, sum) {
			t.Fatalf("seed %d: hardwarePercent %v, and the relay has %+v", seed, p, all)
		}
		for _, pod := range status.Traffic {
			of := summaries[pod.Pod]
			if len(of.Ports) > 1 { // the NodeOffload has each port by itself
				continue
			}
			busy++
			sum := of.Traffic.Sum().Packets
			if !agrees(pod.Packets.Hardware, of.Traffic.Hardware.Packets, sum) || !agrees(pod.Packets.TC, of.Traffic.TC.Packets, sum) ||
				!agrees(pod.Packets.OVS, of.Traffic.OVS.Packets+of.Traffic.Partial.Packets, sum) {
				t.Fatalf("seed %d: %+v, and the relay has %+v", seed, pod, of)
			}
		}
	}
	if busy < 300 {
		t.Errorf("%d pods with traffic were compared", busy)
	}
}
