package answer

import (
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// meaningOfState says what a node's settings of offload mean for packets; "": nothing is known of them.
func meaningOfState(s *v1alpha1.NodeOffloadStatus) string {
	switch s.Offload {
	case v1alpha1.OffloadOn:
		if !slices.ContainsFunc(s.Devices, func(d v1alpha1.Device) bool { return d.Limit == "" }) {
			return "" // the limits say it
		}
		return "hw-offload is in force: established connections of pods with a VF can be in the NIC"
	case v1alpha1.OffloadNone:
		return "pods get a veth, and OVS forwards all packets"
	}
	switch s.Reason {
	case v1alpha1.OffNoSwitchdev:
		return "there are no representors: OVS forwards all packets"
	case v1alpha1.OffHWOffload:
		return "OVS offers no flow to TC or a NIC, and forwards all packets"
	case v1alpha1.OffRestartDue:
		return "a restart of ovs-vswitchd is due: until then OVS forwards all packets"
	case v1alpha1.OffTCPolicy:
		return "TC has the flows and offers none to a NIC: the kernel forwards all packets"
	case v1alpha1.OffKernel:
		return "OVS keeps flows with connection tracking, almost all of OVN's, out of TC, and forwards their packets"
	case v1alpha1.OffUplink:
		return "NICs take no rules for their uplinks: packets from and to other nodes stay in software"
	}
	return ""
}
