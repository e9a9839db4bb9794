package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PortMirrors is the resource of PortMirror.
func PortMirrors() schema.GroupVersionResource { return resource("portmirrors") }

// PortMirror sends copies of the packets of selected pods to a host outside the cluster, or to other pods. Policies do not
// apply to copies: only administrators may write this object.
//
// +kubebuilder:resource:scope=Cluster,path=portmirrors,singular=portmirror
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type PortMirror struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which packets are copied, and where copies go.
	Spec PortMirrorSpec `json:"spec"`
}

// PortMirrorSpec says which packets are copied, and where copies go.
type PortMirrorSpec struct {
	// sources are the pods whose packets are copied.
	Sources PodSelection `json:"sources"`

	// network is NAMESPACE/NAME of a NetworkAttachmentDefinition: then the interfaces of the selected pods on this network
	// are the sources. The default is the default network.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]+/[a-z0-9.-]+$`
	Network string `json:"network,omitempty"`

	// direction says which packets are copied: those that come from the pods, those that go to them, or both.
	//
	// +kubebuilder:validation:Enum=Both;FromPods;ToPods
	// +kubebuilder:default=Both
	Direction string `json:"direction,omitempty"`

	// collector gets the copies.
	Collector MirrorCollector `json:"collector"`
}

// MirrorCollector gets copies of packets.
//
// +kubebuilder:validation:XValidation:rule="has(self.tunnel) != has(self.pods)",message="collector needs either tunnel or pods"
type MirrorCollector struct {
	// tunnel leads to a host outside the cluster.
	Tunnel *MirrorTunnel `json:"tunnel,omitempty"`

	// pods get the copies of packets of the pods on their own nodes.
	Pods *MirrorPods `json:"pods,omitempty"`
}

// MirrorPods are pods that get copies at an interface. On a node with several of them, the first by name gets the copies. A
// node without one copies nothing.
type MirrorPods struct {
	// namespace is that of the pods.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// podSelector selects pods of the namespace by their labels. An empty selector selects all of them.
	PodSelector metav1.LabelSelector `json:"podSelector"`

	// network is NAMESPACE/NAME of a NetworkAttachmentDefinition: the interface of a pod on this network gets the copies, and
	// carries no other packets meanwhile.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]+/[a-z0-9.-]+$`
	Network string `json:"network"`
}

// PodSelection selects pods.
type PodSelection struct {
	// namespaceSelector selects namespaces by their labels. An empty selector selects all namespaces.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// podSelector selects pods of these namespaces by their labels. An empty selector selects all pods.
	PodSelector metav1.LabelSelector `json:"podSelector"`
}

// MirrorTunnel carries copies from each node to a host.
type MirrorTunnel struct {
	// protocol is the tunnel's.
	//
	// +kubebuilder:validation:Enum=GRE;ERSPAN
	Protocol string `json:"protocol"`

	// address is the host's IP address, which the nodes must reach.
	//
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="address must be an IP address"
	// +kubebuilder:validation:MaxLength=39
	Address string `json:"address"`

	// key is the key of GRE, or the index of ERSPAN.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048575
	Key int `json:"key,omitempty"`
}
