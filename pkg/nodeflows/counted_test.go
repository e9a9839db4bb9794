package nodeflows

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// flow is a line of a dump: a flow between two ports with its packets.
type flow struct {
	id, from, to, place string
	packets             uint64
}

// dumping is an ovs-vswitchd that gives one dump after the other, and may have been started anew.
type dumping struct {
	vswitchd
	lists [][]flow
	pid   int
}

func (d *dumping) Instance() (unixctl.Instance, error) { return unixctl.Instance{PID: d.pid}, nil }

func (d *dumping) Lines(_ context.Context, line func(string) error, _ string, _ ...string) error {
	now := d.lists[min(d.dumps, len(d.lists)-1)]
	d.dumps++
	for _, f := range now {
		text := fmt.Sprintf("ufid:aaaaaaaa-0000-0000-0000-%012s, recirc_id(0),in_port(%s),eth_type(0x0800),ipv4(src=10.244.1.6,dst=10.244.2.5,proto=6,frag=no), packets:%d, bytes:%d, used:0.1s, %s, actions:%s",
			f.id, f.from, f.packets, 100*f.packets, f.place, f.to)
		if err := line(text); err != nil {
			return err
		}
	}
	return nil
}

const inHardware, inTC, inOVS = "offloaded:yes, dp:tc", "dp:tc", "dp:ovs"

// TestSummary_CountsFlowByFlow: of a flow that ends, and of one that moves to hardware, the packets of before are neither lost nor
// counted again, whoever looks how often. The pod has two networks, and one line.
func TestSummary_CountsFlowByFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sw := &dumping{lists: [][]flow{
			{{"1", "rep1", "up", inHardware, 5000}, {"2", "rep1", "up", inTC, 1000}, {"3", "rep2", "up", inOVS, 800}},
			{{"1", "rep1", "up", inHardware, 5030}, {"2", "rep1", "up", inHardware, 1010}, {"4", "rep2", "drop", inOVS, 7}},
			{{"1", "rep1", "up", inHardware, 5030}},
			{{"1", "rep1", "up", inHardware, 9}},
		}}
		s := testSource(nil)
		s.cfg.Switch = sw
		port := func(name string, pod contract.Owner) offload.Port {
			return offload.Port{Name: name, Pod: pod, Device: offload.Device{Representor: true, Function: true, HWTC: true}}
		}
		web := contract.PodOwner("shop", "web")
		s.cfg.State = func() offload.State {
			return offload.State{Ports: []offload.Port{port("rep1", web), port("rep2", web.On("shop/net1")), {Name: "up"}}}
		}
		var seen []*flowapi.Summary
		for range 4 {
			got, err := s.Summary(t.Context(), true)
			if err != nil || len(got.Pods) != 1 || len(got.Pods[0].Ports) > 2 {
				t.Fatalf("%v, %+v", err, got)
			}
			seen = append(seen, got)
			time.Sleep(flowapi.MinPeriod)
			sw.pid = len(seen) / 3 // the last dump is that of a new process
		}
		for _, c := range []struct {
			from, to                 int
			hardware, ovs, drops, tc uint64
		}{
			{0, 1, 40, 7, 7, 0}, {1, 2, 0, 0, 0, 0}, {0, 2, 40, 7, 7, 0}, {2, 3, 9, 0, 0, 0},
		} {
			got := flowapi.Since(seen[c.from], seen[c.to])
			total, pod := got.Total, got.Pods[0]
			if total.Hardware.Packets != c.hardware || total.OVS.Packets != c.ovs || total.TC.Packets != c.tc || got.Seconds != 2*float64(c.to-c.from) {
				t.Errorf("from %d to %d: %v s, %+v", c.from, c.to, got.Seconds, total)
			}
			if pod.Traffic.Hardware.Packets != c.hardware || pod.Traffic.OVS.Packets != c.ovs || pod.Drops.Packets != c.drops || pod.Traffic.Hardware.Bytes != 100*c.hardware {
				t.Errorf("from %d to %d: %+v", c.from, c.to, pod)
			}
		}
		if first := seen[0]; first.Counted != (offload.Share{}) || !first.CountedSince.Equal(first.Taken) || first.Total.Hardware.Packets != 5000 {
			t.Errorf("the first: %+v", first)
		}
		time.Sleep(time.Hour) // without a look nothing is kept
		if late, err := s.Summary(t.Context(), true); err != nil || !late.CountedSince.Equal(late.Taken) {
			t.Errorf("%v, %+v", err, late)
		}
	})
}
