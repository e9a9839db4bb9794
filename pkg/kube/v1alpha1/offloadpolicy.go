package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OffloadPolicy makes bare NICs offloading ones. What became of it is in the
// NodeOffload of each node.
type OffloadPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OffloadPolicySpec `json:"spec"`
}

// OffloadPolicySpec is the wanted state of the NICs that it selects.
type OffloadPolicySpec struct {
	// NodeSelector selects nodes by label; empty selects all.
	NodeSelector metav1.LabelSelector `json:"nodeSelector,omitempty"`
	PFSelector   PFSelector           `json:"pfSelector"`
	// NumVFs is exact: more VFs are removed.
	NumVFs int `json:"numVFs"`
	// EswitchMode is switchdev or legacy.
	EswitchMode string `json:"eswitchMode,omitempty"`
	// HWTCOffload is of the uplink and the representors; absent: as the mode,
	// on in switchdev.
	HWTCOffload *bool `json:"hwTCOffload,omitempty"`
	// OVSHWOffload sets other_config:hw-offload of OVS; absent: as HWTCOffload.
	OVSHWOffload *bool `json:"ovsHWOffload,omitempty"`
	// ReservedVFs is how many VFs, from the lowest number on, pods do not get.
	ReservedVFs int `json:"reservedVFs,omitempty"`
	// DryRun shows the plan in each NodeOffload and changes nothing; what the policy has
	// changed before stays.
	DryRun bool `json:"dryRun,omitempty"`
}

// PFSelector matches NICs that satisfy all of its fields; an empty field is
// satisfied by any NIC, but at least one must be set.
type PFSelector struct {
	Vendors      []string `json:"vendors,omitempty"` // four hexadecimal digits
	Devices      []string `json:"devices,omitempty"` // likewise, of the PF
	PCIAddresses []string `json:"pciAddresses,omitempty"`
	Names        []string `json:"names,omitempty"` // of the uplink's netdev
}
