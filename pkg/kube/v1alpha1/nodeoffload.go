package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeOffload shows the NICs of a node that can offload traffic, the pods that use their VFs, and the share of traffic
// that is in hardware. The node's agent writes it. It has the name of the Node and is deleted with it.
//
// +kubebuilder:resource:scope=Cluster,path=nodeoffloads,singular=nodeoffload,shortName=nof
// +kubebuilder:printcolumn:name=Devices,type=integer,JSONPath=`.status.deviceCount`
// +kubebuilder:printcolumn:name=VFs,type=integer,JSONPath=`.status.vfs.total`
// +kubebuilder:printcolumn:name=Used,type=integer,JSONPath=`.status.vfs.used`
// +kubebuilder:printcolumn:name=Free,type=integer,JSONPath=`.status.vfs.free`
// +kubebuilder:printcolumn:name=Offload,type=string,JSONPath=`.status.offload`
// +kubebuilder:printcolumn:name="Hardware%",type=integer,JSONPath=`.status.hardwarePercent`,description="Share of the packets of pods with a device that the NIC forwards"
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name=Problem,type=string,JSONPath=`.status.problem`
// +kubebuilder:printcolumn:name=Version,type=string,JSONPath=`.status.versions.agent`
// +kubebuilder:printcolumn:name=OVS,type=string,JSONPath=`.status.versions.openvswitch`,priority=1
// +kubebuilder:printcolumn:name=OVN,type=string,JSONPath=`.status.versions.ovn`,priority=1
// +kubebuilder:printcolumn:name=Kernel,type=string,JSONPath=`.status.versions.kernel`,priority=1
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`,priority=1
type NodeOffload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what the node's agent observes.
	Status NodeOffloadStatus `json:"status"`
}

// OffloadState is one word for a node.
//
// +kubebuilder:validation:Enum="on";"off";none
type OffloadState string

// The states. None is a node without a NIC that has an embedded switch.
const (
	OffloadOn   OffloadState = "on"
	OffloadOff  OffloadState = "off"
	OffloadNone OffloadState = "none"
)

// NodeOffloadStatus is what the node's agent observes. Its size is bounded: lists say how many entries they leave out.
type NodeOffloadStatus struct {
	// offload is on if new flows of pods with a VF can go to hardware, off if they cannot, and none if the node has no NIC
	// with an embedded switch.
	Offload OffloadState `json:"offload"`

	// reason says why offload is not on.
	Reason string `json:"reason,omitempty"`

	// problem is the first entry of problems, for the column of kubectl get.
	Problem string `json:"problem,omitempty"`

	// problems are what keeps NICs, VFs or policies of the node from working as they should.
	Problems []string `json:"problems,omitempty"`

	// versions are the versions of the software that handles the node's traffic.
	Versions Versions `json:"versions,omitzero"`

	// agent is where the agent that knows the node's flows serves them to the relay. On a host with a DPU, this is the
	// agent of the DPU. It is not set if the agent serves no flows.
	Agent *AgentEndpoint `json:"agent,omitempty"`

	// deviceCount is the number of NICs with an embedded switch.
	DeviceCount int `json:"deviceCount"`

	// devices are the NICs with an embedded switch.
	Devices []Device `json:"devices,omitempty"`

	// vfs are the numbers of VFs of all these NICs.
	VFs VFCount `json:"vfs"`

	// usedVFs are the VFs that pods use.
	UsedVFs []UsedVF `json:"usedVFs,omitempty"`

	// usedVFsOmitted is the number of VFs in use that usedVFs leaves out.
	UsedVFsOmitted int `json:"usedVFsOmitted,omitempty"`

	// hardwarePercent is the share of the packets of pods with a device that the NIC forwards. It is not set without such
	// traffic.
	HardwarePercent *int `json:"hardwarePercent,omitempty"`

	// outside counts the pods with a device of whose packets a tenth or more is not in hardware, by the main reason.
	Outside []ReasonSum `json:"outside,omitempty"`

	// traffic says for each pod with a device where its traffic is forwarded.
	Traffic []PodTraffic `json:"traffic,omitempty"`

	// trafficOmitted is the number of pods with a device that traffic leaves out.
	TrafficOmitted int `json:"trafficOmitted,omitempty"`

	// policies are the results of OffloadPolicies on this node.
	Policies []PolicyResult `json:"policies,omitempty"`
}

// These values of status.reason are settings of Open vSwitch and of NICs that keep all flows out of hardware.
const (
	OffNoSwitchdev = "no NIC is in switchdev mode"
	OffHWOffload   = "other_config:hw-offload of OVS is not set"
	OffRestartDue  = "other_config:hw-offload of OVS is set, and ovs-vswitchd has to be restarted for it"
	OffTCPolicy    = "other_config:tc-policy of OVS is skip_hw"
	OffKernel      = "the kernel was built without CONFIG_NET_TC_SKB_EXT"
	OffUplink      = "hw-tc-offload of the uplink is off"
)

// Versions are the versions of the software that handles a node's traffic.
type Versions struct {
	// agent is the version of ovn-offload-agent on the node.
	Agent string `json:"agent,omitempty"`

	// openvswitch is the version of Open vSwitch. On a host with a DPU, this is the Open vSwitch of the DPU.
	OpenVSwitch string `json:"openvswitch,omitempty"`

	// ovn is the version of ovn-controller. On a host with a DPU, this is the ovn-controller of the DPU.
	OVN string `json:"ovn,omitempty"`

	// kernel is the release of the node's kernel.
	Kernel string `json:"kernel,omitempty"`
}

// AgentEndpoint is an address over TLS, and the certificate that answers there.
type AgentEndpoint struct {
	// address is the IP address and the port.
	Address string `json:"address"`

	// fingerprint is the SHA-256 of the certificate, in hexadecimal digits. It is another one after each start of the agent.
	Fingerprint string `json:"fingerprint"`
}

// VFCount counts VFs: total is the sum of used, reserved and free.
type VFCount struct {
	// total is the number of VFs.
	Total int `json:"total"`

	// used is the number of VFs that pods use.
	Used int `json:"used"`

	// reserved is the number of VFs that pods do not get: an OffloadPolicy reserves them, or the host uses them.
	Reserved int `json:"reserved"`

	// free is the number of VFs that new pods can get.
	Free int `json:"free"`
}

// Device is a NIC with an embedded switch.
type Device struct {
	// name is the PCI address of the NIC's physical function.
	Name string `json:"name"`

	// uplink is the name of the uplink's network interface.
	Uplink string `json:"uplink,omitempty"`

	// product is the name of the NIC's model.
	Product string `json:"product,omitempty"`

	// driver is the name of the kernel's driver, such as mlx5_core.
	Driver string `json:"driver,omitempty"`

	// numa is the NUMA node of the NIC, and -1 if the machine does not report one.
	NUMA int `json:"numa"`

	// mode is the mode of the embedded switch: legacy, switchdev or unknown.
	Mode string `json:"mode"`

	// link is the state of the uplink: up, no-carrier or down.
	Link string `json:"link,omitempty"`

	// hwTCOffload is the feature hw-tc-offload of the uplink: on, off, or empty if it is not known.
	HWTCOffload string `json:"hwTCOffload,omitempty"`

	// maxVFs is the highest number of VFs that the NIC's firmware allows.
	MaxVFs int `json:"maxVFs"`

	// vfs are the numbers of VFs of this NIC.
	VFs VFCount `json:"vfs"`

	// limit says why this kind of NIC cannot offload OVN's flows.
	Limit string `json:"limit,omitempty"`

	// problems are what keeps this NIC or its VFs from working as they should.
	Problems []string `json:"problems,omitempty"`
}

// UsedVF is a VF that a pod uses.
type UsedVF struct {
	// device is the PCI address of the VF.
	Device string `json:"device"`

	// pf is the PCI address of the VF's physical function.
	PF string `json:"pf"`

	// pod is the namespace and name of the pod, with a slash between.
	Pod string `json:"pod"`

	// interface is the name of the network interface in the pod.
	Interface string `json:"interface,omitempty"`

	// representor is the name of the VF's representor on the node. It is not set where a DPU has the representor.
	Representor string `json:"representor,omitempty"`

	// resource is the name of the extended resource by which the pod requested the VF.
	Resource string `json:"resource,omitempty"`

	// phase says how far the pod's use of the VF is, such as attached.
	Phase string `json:"phase"`
}

// PodTraffic says where the traffic of a pod with a device is forwarded.
type PodTraffic struct {
	// pod is the namespace and name of the pod, with a slash between.
	Pod string `json:"pod"`

	// port is the name of the pod's representor on the node.
	Port string `json:"port"`

	// flows is the share of the pod's flows.
	Flows TrafficShare `json:"flows"`

	// packets is the share of the pod's packets.
	Packets TrafficShare `json:"packets"`

	// outside are the reasons for traffic outside hardware. The reason with the most packets is first.
	Outside []OutsideHardware `json:"outside,omitempty"`
}

// TrafficShare is in percent, in steps of five. The values 0 and 100 are exact.
type TrafficShare struct {
	// hardware is the share that the NIC forwards.
	Hardware int `json:"hardware"`

	// tc is the share that the kernel's traffic control forwards, in software.
	TC int `json:"tc"`

	// ovs is the share that the datapath of Open vSwitch forwards, in software.
	OVS int `json:"ovs"`
}

// OutsideHardware is a reason for traffic that is not in hardware.
type OutsideHardware struct {
	// reason is one word.
	Reason string `json:"reason"`

	// detail says more about the reason.
	Detail string `json:"detail,omitempty"`
}

// ReasonSum is the pods of a node whose traffic is outside hardware for one reason.
type ReasonSum struct {
	// reason is one word.
	Reason string `json:"reason"`

	// pods is the number of pods for which this is the reason with the most packets.
	Pods int `json:"pods"`

	// percent is the share of the packets outside hardware for this reason, of all packets of pods with a device, in steps
	// of five. The value 100 is exact.
	Percent int `json:"percent"`
}

// MuchOutside says whether a tenth or more of the packets is not in hardware.
func (t TrafficShare) MuchOutside() bool { return t.Hardware <= 90 }

// PolicyState is the progress of an OffloadPolicy on a NIC of the node.
//
// +kubebuilder:validation:Enum=Applied;Pending;Planned;Refused;Conflict;Failed;Waiting;DrainNeeded;RebootNeeded
type PolicyState string

// The states. Conflict: an older policy has the NIC. Refused: it would harm.
const (
	PolicyApplied  PolicyState = "Applied"
	PolicyPending  PolicyState = "Pending"
	PolicyPlanned  PolicyState = "Planned" // a dry run with something to do
	PolicyRefused  PolicyState = "Refused"
	PolicyConflict PolicyState = "Conflict"
	PolicyFailed   PolicyState = "Failed"
	// PolicyWaiting: other nodes change first. DrainNeeded: the change would interrupt pods. RebootNeeded: a unit
	// of the host makes the change at the next boot.
	PolicyWaiting      PolicyState = "Waiting"
	PolicyDrainNeeded  PolicyState = "DrainNeeded"
	PolicyRebootNeeded PolicyState = "RebootNeeded"
)

// PolicyResult is the result of a policy on one NIC.
type PolicyResult struct {
	// policy is the name of the OffloadPolicy. It is empty if the NIC returns to its original state.
	Policy string `json:"policy,omitempty"`

	// generation is the generation of the policy to which the result belongs.
	Generation int64 `json:"generation,omitempty"`

	// device is the PCI address of the NIC. It is empty if no NIC matches, and for the setting of Open vSwitch.
	Device string `json:"device,omitempty"`

	// state is the progress. Planned: a dry run has changes to make. Refused: the changes would interrupt traffic, or the NIC
	// does not support them. Conflict: an older policy selects the NIC. Waiting: other nodes change first. DrainNeeded: the
	// changes would interrupt pods. RebootNeeded: a unit of the host makes the changes at the next boot.
	State PolicyState `json:"state"`

	// message explains the state.
	Message string `json:"message,omitempty"`
}
