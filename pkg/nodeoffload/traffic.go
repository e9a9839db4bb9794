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
	outside := reasonSums{}
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
		outside.add(p, t.Packets)
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.PodTraffic) int {
		return cmp.Compare(a.Packets.Hardware, b.Packets.Hardware)
	})
	s.Traffic = list[:min(len(list), maxTraffic)]
	s.TrafficOmitted = len(list) - len(s.Traffic)
	s.Outside = outside.list(all.Sum().Packets)
	if sum := all.Sum().Packets; sum > 0 {
		hardware := percent(all.Hardware.Packets, sum)
		s.HardwarePercent = &hardware
	}
}

// reasonSums are pods and packets by reason.
type reasonSums map[offload.Reason]*reasonSum

type reasonSum struct {
	pods    int
	packets uint64
}

// add counts the packets of a pod's port, and the pod if much of its traffic is outside hardware.
func (sums reasonSums) add(p *offload.PortReport, packets v1alpha1.TrafficShare) {
	for i, c := range p.Outside {
		if sums[c.Reason] == nil {
			sums[c.Reason] = &reasonSum{}
		}
		sums[c.Reason].packets += c.Packets
		if i == 0 && packets.MuchOutside() {
			sums[c.Reason].pods++
		}
	}
}

// list has the reasons with the most pods first.
func (sums reasonSums) list(all uint64) (list []v1alpha1.ReasonSum) {
	for _, reason := range offload.Reasons() {
		if sum := sums[reason]; sum != nil && sum.pods > 0 {
			list = append(list, v1alpha1.ReasonSum{Reason: string(reason), Pods: sum.pods, Percent: percent(sum.packets, all)})
		}
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.ReasonSum) int { return cmp.Compare(b.Pods, a.Pods) })
	return list
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
