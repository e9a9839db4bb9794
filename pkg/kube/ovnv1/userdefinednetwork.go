package ovnv1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// UserDefinedNetwork is a network for the pods of its namespace. The controller makes a NetworkAttachmentDefinition with
// the same name from the network.
//
// +kubebuilder:resource:scope=Namespaced,path=userdefinednetworks,singular=userdefinednetwork,shortName=udn
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Topology,type=string,JSONPath=`.spec.topology`
// +kubebuilder:printcolumn:name=Created,type=string,JSONPath=`.status.conditions[?(@.type=="NetworkCreated")].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type UserDefinedNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the network. Only the subnets of a primary Layer3 network can change: subnets can be added.
	Spec UserDefinedNetworkSpec `json:"spec"`

	// status says whether the network exists. The controller writes it.
	Status NetworkStatus `json:"status,omitzero"`
}

// UserDefinedNetworkSpec is the network of a UserDefinedNetwork.
//
// +kubebuilder:validation:XValidation:rule="self.topology == 'Layer3' ? has(self.layer3) : !has(self.layer3)",message="spec.layer3 is required when topology is Layer3 and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.topology == 'Layer2' ? has(self.layer2) : !has(self.layer2)",message="spec.layer2 is required when topology is Layer2 and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.topology == oldSelf.topology",message="topology is immutable"
type UserDefinedNetworkSpec struct {
	// topology is the shape of the network. Layer3 has a subnet for each node and a router between the nodes. Layer2 has one
	// switch for all nodes.
	//
	// +kubebuilder:validation:Enum=Layer2;Layer3
	Topology Topology `json:"topology"`

	// layer3 describes a network of topology Layer3.
	Layer3 *Layer3 `json:"layer3,omitempty"`

	// layer2 describes a network of topology Layer2.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="layer2 is immutable"
	Layer2 *Layer2 `json:"layer2,omitempty"`
}

// ClusterUserDefinedNetwork is one network for the pods of several namespaces. The controller makes a
// NetworkAttachmentDefinition with the same name in each selected namespace.
//
// +kubebuilder:resource:scope=Cluster,path=clusteruserdefinednetworks,singular=clusteruserdefinednetwork,shortName=cudn
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Topology,type=string,JSONPath=`.spec.network.topology`
// +kubebuilder:printcolumn:name=Created,type=string,JSONPath=`.status.conditions[?(@.type=="NetworkCreated")].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterUserDefinedNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the network, and the namespaces that have it.
	Spec ClusterUserDefinedNetworkSpec `json:"spec"`

	// status says whether the network exists. The controller writes it.
	Status NetworkStatus `json:"status,omitzero"`
}

// ClusterUserDefinedNetworkSpec is the network of a ClusterUserDefinedNetwork.
type ClusterUserDefinedNetworkSpec struct {
	// namespaceSelector selects the namespaces that have the network. An empty selector selects all namespaces. The selector
	// can change; a namespace that is no longer selected keeps the network while pods there use it.
	//
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (has(e.values) && size(e.values) > 0) == (e.operator in ['In', 'NotIn']))",message="values is required with the operators In and NotIn, and forbidden with others"
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// network is the network. Only the subnets of a primary Layer3 network can change: subnets can be added.
	Network Network `json:"network"`
}

// Network is the network of a ClusterUserDefinedNetwork.
//
// +kubebuilder:validation:XValidation:rule="self.topology == 'Layer3' ? has(self.layer3) : !has(self.layer3)",message="spec.layer3 is required when topology is Layer3 and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.topology == 'Layer2' ? has(self.layer2) : !has(self.layer2)",message="spec.layer2 is required when topology is Layer2 and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="self.topology == 'Localnet' ? has(self.localnet) : !has(self.localnet)",message="spec.localnet is required when topology is Localnet and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.transport) || self.transport != 'NoOverlay' || (self.topology == 'Layer3' && has(self.layer3) && self.layer3.role == 'Primary')",message="transport NoOverlay is only supported for primary Layer3 networks"
// +kubebuilder:validation:XValidation:rule="!has(self.transport) || self.transport != 'EVPN' || (has(self.layer3) && self.layer3.role == 'Primary') || (has(self.layer2) && self.layer2.role == 'Primary')",message="transport EVPN is only supported for primary Layer2 and Layer3 networks"
// +kubebuilder:validation:XValidation:rule="has(self.noOverlay) == (has(self.transport) && self.transport == 'NoOverlay')",message="noOverlay is required when transport is NoOverlay and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="has(self.evpn) == (has(self.transport) && self.transport == 'EVPN')",message="evpn is required when transport is EVPN and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.evpn) || self.topology != 'Layer2' || has(self.evpn.macVRF)",message="evpn.macVRF is required for Layer2 networks"
// +kubebuilder:validation:XValidation:rule="!has(self.evpn) || self.topology != 'Layer3' || !has(self.evpn.macVRF)",message="evpn.macVRF is forbidden for Layer3 networks"
// +kubebuilder:validation:XValidation:rule="!has(self.evpn) || self.topology != 'Layer3' || has(self.evpn.ipVRF)",message="evpn.ipVRF is required for Layer3 networks"
// +kubebuilder:validation:XValidation:rule="!has(self.uplinks) || (has(self.layer3) && self.layer3.role == 'Primary') || (has(self.layer2) && self.layer2.role == 'Primary')",message="uplinks is only supported for primary networks"
// +kubebuilder:validation:XValidation:rule="!has(self.uplinks) || !has(self.transport) || self.transport != 'EVPN'",message="uplinks is not supported with transport EVPN"
// +kubebuilder:validation:XValidation:rule="self.topology == oldSelf.topology",message="topology is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.transport) == has(oldSelf.transport) && (!has(self.transport) || self.transport == oldSelf.transport)",message="transport is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.noOverlay) == has(oldSelf.noOverlay) && (!has(self.noOverlay) || self.noOverlay == oldSelf.noOverlay)",message="noOverlay is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.evpn) == has(oldSelf.evpn) && (!has(self.evpn) || self.evpn == oldSelf.evpn)",message="evpn is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.uplinks) == has(oldSelf.uplinks) && (!has(self.uplinks) || self.uplinks == oldSelf.uplinks)",message="uplinks is immutable"
type Network struct {
	// topology is the shape of the network. Layer3 has a subnet for each node and a router between the nodes. Layer2 has one
	// switch for all nodes. Localnet is a Layer2 network with a port to a physical network.
	//
	// +kubebuilder:validation:Enum=Layer2;Layer3;Localnet
	Topology Topology `json:"topology"`

	// layer3 describes a network of topology Layer3.
	Layer3 *Layer3 `json:"layer3,omitempty"`

	// layer2 describes a network of topology Layer2.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="layer2 is immutable"
	Layer2 *Layer2 `json:"layer2,omitempty"`

	// localnet describes a network of topology Localnet.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="localnet is immutable"
	Localnet *Localnet `json:"localnet,omitempty"`

	// transport carries packets between nodes. If this field is not set, Geneve tunnels do. The condition TransportAccepted
	// says whether the cluster has the transport.
	//
	// +kubebuilder:validation:Enum=NoOverlay;EVPN
	Transport Transport `json:"transport,omitempty"`

	// noOverlay has the settings of transport NoOverlay.
	NoOverlay *NoOverlay `json:"noOverlay,omitempty"`

	// evpn has the settings of transport EVPN.
	EVPN *EVPN `json:"evpn,omitempty"`

	// uplinks names an uplink of the nodes that the network has for itself. No release supports uplinks yet: the condition
	// NetworkCreated says so.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Uplinks []string `json:"uplinks,omitempty"`
}

// NetworkStatus is the state of a network.
type NetworkStatus struct {
	// conditions are NetworkCreated, NetworkAllocationSucceeded and, for a network with a transport, TransportAccepted. A network
	// whose subnets came to overlap those of others has ExternallyReachable.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
