package contract

// What OVN-Kubernetes writes on the objects of user-defined networks, and their namespaces.
const (
	// UserDefinedNetworkLabel marks a NetworkAttachmentDefinition that is made from another object; the value is "".
	UserDefinedNetworkLabel = "k8s.ovn.org/user-defined-network"
	// PrimaryNetworkLabel marks a namespace whose pods have a primary network; the value does not matter.
	PrimaryNetworkLabel = "k8s.ovn.org/primary-user-defined-network"
	// OpenPortsKey lists the ports that a pod with a primary network opens on the default network, as YAML
	// [{protocol: tcp|udp|sctp|icmp, port: N}]; user, on a Pod.
	OpenPortsKey = "k8s.ovn.org/open-default-ports"
	// NetworkFinalizer keeps the object of a network, and its NetworkAttachmentDefinitions, while pods use it.
	NetworkFinalizer = "k8s.ovn.org/user-defined-network-protection"
	// OVNPrefix begins the annotations that are not their object's author's.
	OVNPrefix = "k8s.ovn.org/"
)
