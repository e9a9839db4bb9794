package opnfv

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Network is a virtual network of OVN4NFV: one switch for all nodes. The controller makes a NetworkAttachmentDefinition
// with the same name from the network.
//
// +kubebuilder:resource:scope=Namespaced,path=networks,singular=network
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=State,type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the network.
	Spec NetworkSpec `json:"spec"`

	// status says whether the network exists. The controller writes it.
	Status Status `json:"status,omitzero"`
}

// NetworkSpec is an address plan.
type NetworkSpec struct {
	// cniType is ovn4nfv.
	//
	// +kubebuilder:validation:Enum=ovn4nfv
	CNIType string `json:"cniType"`

	Addresses `json:",inline"`
}

// Addresses are what both kinds have.
type Addresses struct {
	// ipv4Subnets have the IPv4 addresses of the pods.
	//
	// +kubebuilder:validation:MaxItems=16
	IPv4Subnets []Subnet `json:"ipv4Subnets,omitempty"`

	// ipv6Subnets have the IPv6 addresses of the pods.
	//
	// +kubebuilder:validation:MaxItems=16
	IPv6Subnets []Subnet `json:"ipv6Subnets,omitempty"`

	// dns has no effect.
	DNS DNS `json:"dns,omitzero"`

	// routes has no effect.
	//
	// +kubebuilder:validation:MaxItems=64
	Routes []Route `json:"routes,omitempty"`
}

// Subnet has addresses of pods.
type Subnet struct {
	// name of the subnet has no effect.
	Name string `json:"name,omitempty"`

	// subnet is in CIDR notation, such as 172.16.33.0/24.
	//
	// +kubebuilder:validation:MaxLength=43
	Subnet string `json:"subnet"`

	// gateway is an address in the subnet, with or without the length, such as 172.16.33.1/24. Pods never get this address.
	//
	// +kubebuilder:validation:MaxLength=49
	Gateway string `json:"gateway,omitempty"`

	// excludeIps are addresses and ranges that pods never get, separated by spaces, such as "172.16.33.2
	// 172.16.33.5..172.16.33.10".
	//
	// +kubebuilder:validation:MaxLength=4096
	ExcludeIPs string `json:"excludeIps,omitempty"`
}

// DNS has settings of a resolver.
type DNS struct {
	// nameservers are addresses.
	//
	// +kubebuilder:validation:MaxItems=32
	Nameservers []string `json:"nameservers,omitempty"`

	// domain is the local domain.
	Domain string `json:"domain,omitempty"`

	// search are domains that are searched.
	//
	// +kubebuilder:validation:MaxItems=32
	Search []string `json:"search,omitempty"`

	// options are options of the resolver.
	//
	// +kubebuilder:validation:MaxItems=32
	Options []string `json:"options,omitempty"`
}

// Route leads to a subnet by a gateway.
type Route struct {
	// dst is the subnet.
	Dst string `json:"dst"`

	// gw is the gateway.
	GW string `json:"gw,omitempty"`
}

// Status is the state of a network or chain.
type Status struct {
	// state is Created or CreateInternalError.
	State string `json:"state,omitempty"`

	// message says what is wrong.
	Message string `json:"message,omitempty"`
}

// ProviderNetwork is a network of OVN4NFV with a port to a physical network. The name of the physical network in the
// bridge mappings of the nodes is nw_ and the name of the object.
//
// +kubebuilder:resource:scope=Namespaced,path=providernetworks,singular=providernetwork
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Type,type=string,JSONPath=`.spec.providerNetType`
// +kubebuilder:printcolumn:name=State,type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ProviderNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the network.
	Spec ProviderNetworkSpec `json:"spec"`

	// status says whether the network exists. The controller writes it.
	Status Status `json:"status,omitzero"`
}

// ProviderNetworkSpec is an address plan with a physical network.
//
// +kubebuilder:validation:XValidation:rule="self.providerNetType == 'VLAN' ? has(self.vlan) : !has(self.vlan)",message="vlan is required when providerNetType is VLAN, and forbidden otherwise"
type ProviderNetworkSpec struct {
	// cniType is ovn4nfv.
	//
	// +kubebuilder:validation:Enum=ovn4nfv
	CNIType string `json:"cniType"`

	// providerNetType is VLAN or DIRECT. Packets of a VLAN have a tag on the physical network.
	//
	// +kubebuilder:validation:Enum=VLAN;DIRECT
	ProviderNetType string `json:"providerNetType"`

	// vlan has the tag.
	VLAN *VLAN `json:"vlan,omitempty"`

	// direct names the interface of the nodes.
	Direct *Direct `json:"direct,omitempty"`

	Addresses `json:",inline"`
}

// VLAN has the tag of a network.
type VLAN struct {
	// vlanId is the VLAN ID, as a text.
	//
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,3}$`
	ID string `json:"vlanId"`

	// vlanNodeSelector is all, any or specific: which nodes get a bridge with the interface. any is the same as all. The
	// default is all.
	//
	// +kubebuilder:validation:MaxLength=16
	NodeSelector string `json:"vlanNodeSelector,omitempty"`

	// nodeLabelList has labels, such as "rack=a". With specific, nodes with all of these labels are selected.
	//
	// +kubebuilder:validation:MaxItems=64
	NodeLabelList []string `json:"nodeLabelList,omitempty"`

	// providerInterfaceName is the interface that becomes a port of the bridge. It has all VLANs. If this field is not set,
	// an administrator makes the bridges.
	//
	// +kubebuilder:validation:Pattern=`^[^/:\s]{0,15}$`
	ProviderInterfaceName string `json:"providerInterfaceName,omitempty"`

	// logicalInterfaceName is the name of a VLAN interface, which is not made. If the node has an interface with this name,
	// the bridge is not made, because the interface would take the packets of the VLAN.
	LogicalInterfaceName string `json:"logicalInterfaceName,omitempty"`
}

// Direct names an interface of nodes.
type Direct struct {
	// directNodeSelector is all, any or specific: which nodes get a bridge with the interface. any is the same as all. The
	// default is all.
	//
	// +kubebuilder:validation:MaxLength=16
	NodeSelector string `json:"directNodeSelector,omitempty"`

	// nodeLabelList has labels, such as "rack=a". With specific, nodes with all of these labels are selected.
	//
	// +kubebuilder:validation:MaxItems=64
	NodeLabelList []string `json:"nodeLabelList,omitempty"`

	// providerInterfaceName is the interface that becomes a port of the bridge. If this field is not set, an administrator
	// makes the bridges.
	//
	// +kubebuilder:validation:Pattern=`^[^/:\s]{0,15}$`
	ProviderInterfaceName string `json:"providerInterfaceName,omitempty"`
}
