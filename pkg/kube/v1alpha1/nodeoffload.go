package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeOffload says what a node has to offload to, who uses it, and whether
// traffic is there. It has the node's name, and goes with the Node.
type NodeOffload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            NodeOffloadStatus `json:"status"`
}

// OffloadState is one word for a node.
type OffloadState string

// The states. None is a node without a NIC that has an embedded switch.
const (
	OffloadOn   OffloadState = "on"
	OffloadOff  OffloadState = "off"
	OffloadNone OffloadState = "none"
)

// NodeOffloadStatus is bounded: lists say how much they leave out.
type NodeOffloadStatus struct {
	Offload OffloadState `json:"offload"`
	// Reason says why Offload is not on.
	Reason string `json:"reason,omitempty"`
	// Problem is the first of Problems, for people who look at a table.
	Problem  string   `json:"problem,omitempty"`
	Problems []string `json:"problems,omitempty"`

	DeviceCount int      `json:"deviceCount"`
	Devices     []Device `json:"devices,omitempty"`
	VFs         VFCount  `json:"vfs"`
	UsedVFs     []UsedVF `json:"usedVFs,omitempty"`
	// UsedVFsOmitted counts those that are not in the list.
	UsedVFsOmitted int `json:"usedVFsOmitted,omitempty"`

	// HardwarePercent is the share of the packets of pods with a device that
	// the NIC forwards; absent without such traffic.
	HardwarePercent *int         `json:"hardwarePercent,omitempty"`
	Traffic         []PodTraffic `json:"traffic,omitempty"`
	TrafficOmitted  int          `json:"trafficOmitted,omitempty"`

	Policies []PolicyResult `json:"policies,omitempty"`
}

// VFCount adds up: Total is Used, Reserved and Free.
type VFCount struct {
	Total    int `json:"total"`
	Used     int `json:"used"`
	Reserved int `json:"reserved"`
	Free     int `json:"free"`
}

// Device is a NIC with an embedded switch.
type Device struct {
	Name    string `json:"name"` // the PCI address
	Uplink  string `json:"uplink,omitempty"`
	Product string `json:"product,omitempty"`
	Driver  string `json:"driver,omitempty"`
	// NUMA is -1 where the machine does not say.
	NUMA int `json:"numa"`
	// Mode is legacy, switchdev or unknown.
	Mode string `json:"mode"`
	// Link is up, no-carrier or down.
	Link string `json:"link,omitempty"`
	// HWTCOffload is the uplink's hw-tc-offload: on, off, or empty.
	HWTCOffload string  `json:"hwTCOffload,omitempty"`
	MaxVFs      int     `json:"maxVFs"`
	VFs         VFCount `json:"vfs"`
	// Limit is what keeps OVN's flows out of this kind of NIC.
	Limit    string   `json:"limit,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// UsedVF is a VF that a pod has.
type UsedVF struct {
	Device string `json:"device"` // the PCI address of the VF
	PF     string `json:"pf"`     // and that of its PF
	// Pod is namespace/name.
	Pod       string `json:"pod"`
	Interface string `json:"interface,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Phase     string `json:"phase"`
}

// PodTraffic is where the traffic of a pod with a device is handled.
type PodTraffic struct {
	Pod     string       `json:"pod"`
	Port    string       `json:"port"`
	Flows   TrafficShare `json:"flows"`
	Packets TrafficShare `json:"packets"`
	// Outside has the reasons, the one with the most packets first.
	Outside []OutsideHardware `json:"outside,omitempty"`
}

// TrafficShare is in percent, in steps of five: 0 and 100 are exact.
type TrafficShare struct {
	Hardware int `json:"hardware"`
	TC       int `json:"tc"`
	OVS      int `json:"ovs"`
}

// OutsideHardware is why traffic is not in hardware; words of pkg/offload.
type OutsideHardware struct {
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// PolicyState is how far an OffloadPolicy is on a NIC of the node.
type PolicyState string

// The states. Conflict: an older policy has the NIC. Refused: it would harm.
const (
	PolicyApplied  PolicyState = "Applied"
	PolicyPending  PolicyState = "Pending"
	PolicyPlanned  PolicyState = "Planned" // a dry run with something to do
	PolicyRefused  PolicyState = "Refused"
	PolicyConflict PolicyState = "Conflict"
	PolicyFailed   PolicyState = "Failed"
)

// PolicyResult is what became of a policy on one NIC, or of going back to the
// original state when Policy is empty.
type PolicyResult struct {
	Policy string `json:"policy,omitempty"`
	// Device is empty where no NIC matched, or for OVS' own setting.
	Device  string      `json:"device,omitempty"`
	State   PolicyState `json:"state"`
	Message string      `json:"message,omitempty"`
}
