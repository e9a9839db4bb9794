package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PhysicalNetworks is the resource of PhysicalNetwork.
func PhysicalNetworks() schema.GroupVersionResource { return resource("physicalnetworks") }

// PhysicalNetwork is a physical network to which networks of topology localnet can connect. Its name is the
// physicalNetworkName of these networks, and their name where they have none. Each selected node gets an Open vSwitch
// bridge with the node's interface to the physical network.
//
// +kubebuilder:resource:scope=Cluster,path=physicalnetworks,singular=physicalnetwork,shortName=physnet
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type PhysicalNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says where the physical network is, and who may use it.
	Spec PhysicalNetworkSpec `json:"spec"`
}

// PhysicalNetworkSpec says where a physical network is, and who may use it.
type PhysicalNetworkSpec struct {
	// bridges connect nodes to the physical network. A node takes the first entry that selects it. Without an entry, the
	// bridges and the setting ovn-bridge-mappings of Open vSwitch stay as an administrator has made them.
	//
	// +kubebuilder:validation:MaxItems=64
	Bridges []PhysicalBridge `json:"bridges,omitempty"`

	// namespaces say who may use the physical network. If this field is not set, all namespaces may use the network with
	// each VLAN.
	//
	// +kubebuilder:validation:MaxItems=256
	Namespaces []NamespaceGrant `json:"namespaces,omitempty"`
}

// PhysicalBridge connects nodes to a physical network.
type PhysicalBridge struct {
	// nodeSelector selects nodes by their labels. An empty selector selects all nodes.
	NodeSelector metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// interface is the name of the node's interface that becomes a port of the bridge: a NIC, a bond or a VLAN. It must have
	// no IP addresses: they would lose their connection.
	//
	// +kubebuilder:validation:Pattern=`^[^/:\s]{1,15}$`
	Interface string `json:"interface"`

	// bridge is the name of the Open vSwitch bridge. The default is br- with the beginning of the interface's name.
	//
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9._-]{0,14}$`
	// +kubebuilder:validation:XValidation:rule="self != 'br-int'",message="br-int is the bridge of the pods"
	Bridge string `json:"bridge,omitempty"`
}

// NamespaceGrant lets namespaces use a physical network.
type NamespaceGrant struct {
	// namespaceSelector selects namespaces by their labels. An empty selector selects all namespaces.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// vlans are the allowed VLANs: numbers such as 7, ranges such as 100-199, or 0 for untagged frames. If this field is not
	// set, each VLAN is allowed, and so are untagged frames.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[0-9]{1,4}(-[0-9]{1,4})?$`
	VLANs []string `json:"vlans,omitempty"`
}
