package nodeoffload

import "github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"

// The labels of a Node; each is "true" or absent.
const (
	LabelSRIOV     = "ovn-offload.io/sriov"      // a NIC with an embedded switch
	LabelSwitchdev = "ovn-offload.io/switchdev"  // one is in switchdev mode
	LabelVFs       = "ovn-offload.io/vfs"        // one in switchdev mode has VFs
	LabelOffload   = "ovn-offload.io/hw-offload" // and OVS uses it
)

// Labels says which labels the node has, by what its status says; "" is absent.
func Labels(s v1alpha1.NodeOffloadStatus) map[string]string {
	switchdev, vfs := false, false
	for _, d := range s.Devices {
		if d.Mode == "switchdev" {
			switchdev = true
			vfs = vfs || d.VFs.Total > 0
		}
	}
	labels := map[string]string{}
	for label, is := range map[string]bool{
		LabelSRIOV: s.DeviceCount > 0, LabelSwitchdev: switchdev, LabelVFs: vfs, LabelOffload: s.Offload == v1alpha1.OffloadOn,
	} {
		labels[label] = map[bool]string{true: "true"}[is]
	}
	return labels
}
