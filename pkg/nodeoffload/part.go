package nodeoffload

import (
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// Part is what a publisher writes of a NodeOffload: a host with a DPU knows its
// devices, and the DPU where their traffic is.
type Part int

// The parts. Traffic has whether offload is on, the reason if not, the shares, the versions of OVS and OVN, where the
// agent serves flows, and the problems of the DPU.
const (
	Whole Part = iota
	Devices
	Traffic
)

// join merges the facts of one side, host or DPU, with the other side's part of the status. had is nil before the object
// exists. The part of a DPU that is not ready is dropped.
func join(part Part, facts Facts, had *v1alpha1.NodeOffloadStatus) v1alpha1.NodeOffloadStatus {
	own := Status(facts)
	switch {
	case part == Devices && facts.Away != "":
		return withTraffic(own, v1alpha1.NodeOffloadStatus{Offload: v1alpha1.OffloadOff, Reason: facts.Away})
	case part == Devices && had == nil:
		return withTraffic(own, v1alpha1.NodeOffloadStatus{Offload: v1alpha1.OffloadOff, Reason: "the DPU has not said yet"})
	case part == Devices:
		return withTraffic(own, *had)
	case part == Traffic && had != nil:
		own.Problems = nil // those of the DPU's own devices are in its inventory
		for _, problem := range facts.Problems {
			own.Problems = append(own.Problems, ofDPU+problem)
		}
		return withTraffic(*had, own)
	}
	return own
}

// ofDPU begins each problem that the DPU writes.
const ofDPU = "the DPU: "

func isOfDPU(problem string) bool { return strings.HasPrefix(problem, ofDPU) }

func withTraffic(s, from v1alpha1.NodeOffloadStatus) v1alpha1.NodeOffloadStatus {
	s.Offload, s.Reason, s.Agent = from.Offload, from.Reason, from.Agent
	s.Versions.OpenVSwitch, s.Versions.OVN = from.Versions.OpenVSwitch, from.Versions.OVN
	s.HardwarePercent, s.Outside, s.Traffic, s.TrafficOmitted = from.HardwarePercent, from.Outside, from.Traffic, from.TrafficOmitted
	s.Problems = slices.DeleteFunc(slices.Clone(s.Problems), isOfDPU)
	for _, problem := range from.Problems {
		if isOfDPU(problem) && len(s.Problems) < maxProblems {
			s.Problems = append(s.Problems, problem)
		}
	}
	if s.Problem = ""; len(s.Problems) > 0 {
		s.Problem = s.Problems[0]
	}
	return s
}
