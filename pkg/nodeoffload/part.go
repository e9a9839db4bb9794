package nodeoffload

import "github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"

// Part is what a publisher writes of a NodeOffload: a host with a DPU knows its
// devices, and the DPU where their traffic is.
type Part int

// The parts. Traffic has whether offload is on, the reason if not, the shares, the versions of OVS and OVN, and where the
// agent serves flows.
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
		return withTraffic(*had, own)
	}
	return own
}

func withTraffic(s, from v1alpha1.NodeOffloadStatus) v1alpha1.NodeOffloadStatus {
	s.Offload, s.Reason, s.Agent = from.Offload, from.Reason, from.Agent
	s.Versions.OpenVSwitch, s.Versions.OVN = from.Versions.OpenVSwitch, from.Versions.OVN
	s.HardwarePercent, s.Outside, s.Traffic, s.TrafficOmitted = from.HardwarePercent, from.Outside, from.Traffic, from.TrafficOmitted
	return s
}
