package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// OffloadPolicy says how the NICs of nodes must be set up: number of VFs, eswitch mode, hardware offload. The
// NodeOffload of each node has the result.
//
// +kubebuilder:resource:scope=Cluster,path=offloadpolicies,singular=offloadpolicy,shortName=ofp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=VFs,type=integer,JSONPath=`.spec.numVFs`
// +kubebuilder:printcolumn:name=Mode,type=string,JSONPath=`.spec.eswitchMode`
// +kubebuilder:printcolumn:name=Reserved,type=integer,JSONPath=`.spec.reservedVFs`
// +kubebuilder:printcolumn:name=Nodes,type=integer,JSONPath=`.status.selected`
// +kubebuilder:printcolumn:name=Applied,type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type OffloadPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the selected NICs.
	Spec OffloadPolicySpec `json:"spec"`

	// status counts the nodes in each state. The controller writes it.
	Status OffloadPolicyStatus `json:"status,omitzero"`
}

// OffloadPolicySpec is the desired state of the NICs that the policy selects.
//
// +kubebuilder:validation:XValidation:rule="!has(self.reservedVFs) || self.reservedVFs <= self.numVFs",message="reservedVFs is greater than numVFs"
// +kubebuilder:validation:XValidation:rule="self.eswitchMode != 'legacy' || !has(self.hwTCOffload) || !self.hwTCOffload",message="hwTCOffload needs eswitchMode switchdev"
type OffloadPolicySpec struct {
	// nodeSelector selects nodes by their labels. An empty selector selects all nodes.
	NodeSelector metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// pfSelector selects NICs on these nodes, by their physical functions (PFs).
	PFSelector PFSelector `json:"pfSelector"`

	// numVFs is the exact number of VFs of each selected NIC. Further VFs are removed.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024
	NumVFs int `json:"numVFs"`

	// eswitchMode is the mode of the NIC's embedded switch. Open vSwitch can offload flows in switchdev mode only.
	//
	// +kubebuilder:validation:Enum=switchdev;legacy
	// +kubebuilder:default=switchdev
	EswitchMode string `json:"eswitchMode,omitempty"`

	// hwTCOffload sets the feature hw-tc-offload of the uplink and the representors. If this field is not set, the feature
	// is on in switchdev mode.
	HWTCOffload *bool `json:"hwTCOffload,omitempty"`

	// ovsHWOffload sets other_config:hw-offload of Open vSwitch. If this field is not set, the value of hwTCOffload applies.
	OVSHWOffload *bool `json:"ovsHWOffload,omitempty"`

	// reservedVFs is the number of VFs, from the lowest number on, that pods do not get.
	//
	// +kubebuilder:validation:Minimum=0
	ReservedVFs int `json:"reservedVFs,omitempty"`

	// dryRun shows the planned changes in each NodeOffload and changes nothing. Earlier changes of the policy stay.
	DryRun bool `json:"dryRun,omitempty"`

	// uplinkChange says how the agent changes the eswitch mode of a NIC that carries the node's own traffic. Refuse changes
	// no such NIC. InPlace interrupts the node's network for some seconds and undoes the change if the node becomes
	// unreachable. AtBoot writes a systemd unit, which makes the change at the next boot of the host.
	//
	// +kubebuilder:validation:Enum=Refuse;InPlace;AtBoot
	// +kubebuilder:default=Refuse
	UplinkChange UplinkChange `json:"uplinkChange,omitempty"`

	// drain says what happens to pods that a change would interrupt. Wait: the change waits until the node is cordoned and
	// drained. Evict: the controller cordons the node, evicts the pods, and uncordons the node after the change. None: the
	// uplink changes while pods run. With each value, pods keep the VFs that they have.
	//
	// +kubebuilder:validation:Enum=Wait;Evict;None
	// +kubebuilder:default=Wait
	Drain Drain `json:"drain,omitempty"`

	// maxUnavailable is the number, or the percentage, of selected nodes that change at the same time. A node whose change
	// has failed counts until it succeeds. Percentages are rounded up.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:default=1
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// UplinkChange is a way to change the mode of a NIC that carries the node's own traffic.
type UplinkChange string

// The ways.
const (
	UplinkRefuse  UplinkChange = "Refuse"
	UplinkInPlace UplinkChange = "InPlace"
	UplinkAtBoot  UplinkChange = "AtBoot"
)

// Drain says what happens to pods that a change would interrupt.
type Drain string

// The values of Drain.
const (
	DrainWait  Drain = "Wait"
	DrainEvict Drain = "Evict"
	DrainNone  Drain = "None"
)

// PFSelector matches NICs that satisfy all fields that are set. At least one field must be set.
//
// +kubebuilder:validation:MinProperties=1
type PFSelector struct {
	// vendors are PCI vendor IDs: four hexadecimal digits in lower case, such as 15b3.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{4}$`
	Vendors []string `json:"vendors,omitempty"`

	// devices are PCI device IDs of the PF: four hexadecimal digits in lower case, such as 101d.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{4}$`
	Devices []string `json:"devices,omitempty"`

	// pciAddresses are PCI addresses of PFs, such as 0000:03:00.0.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`
	PCIAddresses []string `json:"pciAddresses,omitempty"`

	// names are names of the PF's network interface, such as ens1f0np0.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=15
	Names []string `json:"names,omitempty"`
}
