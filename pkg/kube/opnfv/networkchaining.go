package opnfv

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NetworkChaining leads packets between networks at its left and right end through pods, the functions, in their order, in
// both directions.
//
// +kubebuilder:resource:scope=Namespaced,path=networkchainings,singular=networkchaining
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=State,type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type NetworkChaining struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the chain.
	Spec NetworkChainingSpec `json:"spec"`

	// status says whether the chain exists. The controller writes it.
	Status Status `json:"status,omitzero"`
}

// NetworkChainingSpec is a chain.
type NetworkChainingSpec struct {
	// chainType is Routing.
	//
	// +kubebuilder:validation:Enum=Routing
	ChainType string `json:"chainType"`

	// routingSpec has the functions and networks.
	RoutingSpec RoutingSpec `json:"routingSpec"`
}

// RoutingSpec has the functions and networks of a chain.
type RoutingSpec struct {
	// namespace of the functions and networks. It must be the namespace of the object.
	//
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// networkChain are labels of pods, and the networks between them, in turn, with commas between, from left to right, such
	// as app=balancer,net=net-1,app=firewall. Networks may be without "net=". A network before the first label is one more
	// network at the left end, and one behind the last label at the right end.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	NetworkChain string `json:"networkChain"`

	// left are the networks at the left end.
	//
	// +kubebuilder:validation:MaxItems=16
	Left []ChainEnd `json:"left,omitempty"`

	// right are the networks at the right end.
	//
	// +kubebuilder:validation:MaxItems=16
	Right []ChainEnd `json:"right,omitempty"`

	// leftNetwork is another name of left.
	//
	// +kubebuilder:validation:MaxItems=16
	LeftNetwork []ChainEnd `json:"leftNetwork,omitempty"`

	// rightNetwork is another name of right.
	//
	// +kubebuilder:validation:MaxItems=16
	RightNetwork []ChainEnd `json:"rightNetwork,omitempty"`
}

// ChainEnd is a network at an end of a chain.
type ChainEnd struct {
	// networkName is a Network, ProviderNetwork or NetworkAttachmentDefinition.
	//
	// +kubebuilder:validation:MaxLength=253
	NetworkName string `json:"networkName"`

	// gatewayIp is the router that leads to subnet, if subnet is not one of the network's own.
	//
	// +kubebuilder:validation:MaxLength=45
	GatewayIP string `json:"gatewayIp,omitempty"`

	// subnet has the addresses that the chain leads to. Default: the subnets of the network.
	//
	// +kubebuilder:validation:MaxLength=43
	Subnet string `json:"subnet,omitempty"`

	// podSelector selects the pods on the network that get routes to the other end. Default: all.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`

	// namespaceSelector selects the namespaces of these pods. Default: all.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}
