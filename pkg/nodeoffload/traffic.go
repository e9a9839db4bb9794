package nodeoffload

import (
	"cmp"
	"math"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// traffic tells of pods that have a device; others are never in hardware. The
// worst come first, and are the ones that a bounded list keeps.
func traffic(s *v1alpha1.NodeOffloadStatus, r *offload.Report) {
	var all offload.Share
	var list []v1alpha1.PodTraffic
	for i := range r.Ports {
		p := &r.Ports[i]
		if !p.Function || p.Pod == (contract.Owner{}) {
			continue
		}
		sum := merge(p.From, p.To)
		all = merge(all, sum)
		if sum.Sum().Flows == 0 {
			continue
		}
		t := v1alpha1.PodTraffic{
			Pod: p.Pod.Namespace + "/" + p.Pod.Name, Port: p.Name,
			Flows:   share(sum, func(c offload.Count) uint64 { return uint64(c.Flows) }),
			Packets: share(sum, func(c offload.Count) uint64 { return c.Packets }),
		}
		for _, c := range p.Outside[:min(len(p.Outside), maxReasons)] {
			t.Outside = append(t.Outside, v1alpha1.OutsideHardware{Reason: string(c.Reason), Detail: c.Detail})
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.PodTraffic) int {
		return cmp.Compare(a.Packets.Hardware, b.Packets.Hardware)
	})
	s.Traffic = list[:min(len(list), maxTraffic)]
	s.TrafficOmitted = len(list) - len(s.Traffic)
	if sum := all.Sum().Packets; sum > 0 {
		hardware := percent(all.Hardware.Packets, sum)
		s.HardwarePercent = &hardware
	}
}

func merge(a, b offload.Share) offload.Share {
	for _, at := range offload.Places() {
		to, from := a.At(at), b.At(at)
		to.Flows += from.Flows
		to.Packets += from.Packets
		to.Bytes += from.Bytes
	}
	return a
}

// share counts what the NIC only helps with as OVS': software acts there.
func share(s offload.Share, of func(offload.Count) uint64) v1alpha1.TrafficShare {
	sum := of(s.Sum())
	return v1alpha1.TrafficShare{
		Hardware: percent(of(s.Hardware), sum),
		TC:       percent(of(s.TC), sum),
		OVS:      percent(of(s.OVS)+of(s.Partial), sum),
	}
}

// percent is in steps of five, but 0 and 100 mean none and all.
func percent(part, sum uint64) int {
	switch {
	case part == 0 || sum == 0:
		return 0
	case part == sum:
		return 100
	}
	return min(95, max(5, 5*int(math.Round(20*float64(part)/float64(sum)))))
}
