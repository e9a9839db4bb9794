package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NamespaceSubnets is the resource of NamespaceSubnet.
func NamespaceSubnets() schema.GroupVersionResource { return resource("namespacesubnets") }

// NamespaceSubnet gives pods of the selected namespaces their addresses on the default network, on all nodes. Of several
// that select a namespace, the oldest is used. Pods that have an address keep it.
//
// +kubebuilder:resource:scope=Cluster,path=namespacesubnets,singular=namespacesubnet
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type NamespaceSubnet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which pods get which addresses.
	Spec NamespaceSubnetSpec `json:"spec"`

	// status says whether the subnets are in use.
	Status NamespaceSubnetStatus `json:"status,omitempty"`
}

// NamespaceSubnetSpec says which pods get which addresses.
type NamespaceSubnetSpec struct {
	// namespaceSelector selects namespaces by their labels. An empty selector selects all namespaces.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// subnets are one subnet for each address family of the cluster, such as 10.9.0.0/24. They must not overlap other subnets of
	// the cluster or addresses of nodes. The first four addresses of each stay free.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="subnets cannot be changed: create another NamespaceSubnet"
	// +kubebuilder:validation:XValidation:rule="self.all(s, isCIDR(s) && cidr(s) == cidr(s).masked())",message="each subnet must be a network address with a length"
	Subnets []string `json:"subnets"`

	// snat says that packets to addresses outside the cluster get the address of the pod's node. Without it they keep the pod's
	// address, and routers outside need routes for the subnets to the nodes.
	//
	// +kubebuilder:default=true
	SNAT *bool `json:"snat,omitempty"`
}

// ConditionAccepted is true when pods get addresses of the subnets.
const ConditionAccepted = "Accepted"

// NamespaceSubnetStatus says whether the subnets are in use.
type NamespaceSubnetStatus struct {
	// conditions has Accepted: whether pods get addresses, and else why not.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
