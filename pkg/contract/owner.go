package contract

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
)

// The kinds of owners. A kind is the Kubernetes kind of the object that rows
// are made for; KindNetwork is an owner that no object stands for: the
// rows that exist once in a zone (cluster router, join switch).
const (
	KindNetwork = "Network"
	KindNode    = "Node"
	KindPod     = "Pod"
	KindService = "Service"
	// KindNodeServices is a node's part in the services: what is its own of
	// their addresses and backends.
	KindNodeServices = "NodeServices"

	KindNetworkPolicy = "NetworkPolicy"
	// KindMultiNetworkPolicy has rows on each network that the object is for. On the default network it has none: that
	// owner stands for the object.
	KindMultiNetworkPolicy = "MultiNetworkPolicy"

	KindAdminNetworkPolicy         = "AdminNetworkPolicy"
	KindBaselineAdminNetworkPolicy = "BaselineAdminNetworkPolicy"
	KindClusterNetworkPolicy       = "ClusterNetworkPolicy"

	// KindNetworkChaining has a router on the networks of the chain.
	KindNetworkChaining = "NetworkChaining"

	// KindNAD has no rows: the networks that NetworkAttachmentDefinitions define have them.
	KindNAD = "NetworkAttachmentDefinition"

	// KindIPAMClaim has addresses, which outlive the pods that refer to the claim.
	KindIPAMClaim = "IPAMClaim"

	// KindNamespaceSubnet has no rows: nodes and pods have them.
	KindNamespaceSubnet = "NamespaceSubnet"

	// KindPortMirror has a mirror, to which the ports of pods refer.
	KindPortMirror = "PortMirror"

	// KindNeighbor is an address of a namespace's subnet on a node. Its row has no place for the name of the pod.
	KindNeighbor = "Neighbor"

	// KindPodSet is the other kind without an object: a selection of pods that
	// rules of policies share.
	KindPodSet = "PodSet"
)

// Owner names one Kubernetes object on one network, on whose behalf rows and devices exist. It is the work item of
// every queue and, as a string, the value of external_ids in the databases.
type Owner struct {
	Kind, Namespace, Name string
	// Network is "" for the cluster's default network. It is the name of a further network, and for a pod the key of its
	// attachment there.
	Network string
}

// NetworkOwner is the owner of the rows that exist once in a zone.
func NetworkOwner() Owner { return Owner{Kind: KindNetwork, Name: "default"} }

// NodeOwner is the owner of a node's rows.
func NodeOwner(name string) Owner { return Owner{Kind: KindNode, Name: name} }

// PodOwner is the owner of a pod's rows and devices.
func PodOwner(namespace, name string) Owner {
	return Owner{Kind: KindPod, Namespace: namespace, Name: name}
}

// ServiceOwner is the owner of a service's rows.
func ServiceOwner(namespace, name string) Owner {
	return Owner{Kind: KindService, Namespace: namespace, Name: name}
}

// NodeServicesOwner is the owner of a node's part in the services.
func NodeServicesOwner(node string) Owner { return Owner{Kind: KindNodeServices, Name: node} }

// NetworkPolicyOwner is the owner of a policy's port group and rules.
func NetworkPolicyOwner(namespace, name string) Owner {
	return Owner{Kind: KindNetworkPolicy, Namespace: namespace, Name: name}
}

// MultiNetworkPolicyOwner is the owner that stands for a MultiNetworkPolicy; the owners on its networks have rows.
func MultiNetworkPolicyOwner(namespace, name string) Owner {
	return Owner{Kind: KindMultiNetworkPolicy, Namespace: namespace, Name: name}
}

// NetworkChainingOwner is the owner of the rows of a chain of functions.
func NetworkChainingOwner(namespace, name string) Owner {
	return Owner{Kind: KindNetworkChaining, Namespace: namespace, Name: name}
}

// NamespaceSubnetOwner stands for a NamespaceSubnet.
func NamespaceSubnetOwner(name string) Owner { return Owner{Kind: KindNamespaceSubnet, Name: name} }

// PortMirrorOwner is the owner of a PortMirror's rows.
func PortMirrorOwner(name string) Owner { return Owner{Kind: KindPortMirror, Name: name} }

// CollectorOwner is the owner of the rows of a PortMirror whose collectors are pods, for its sources on one node.
func CollectorOwner(node, mirror string) Owner {
	return Owner{Kind: KindPortMirror, Namespace: node, Name: mirror}
}

// NeighborOwner is the owner of the neighbor by which a router knows a pod's address on a node.
func NeighborOwner(node string, addr netip.Addr) Owner {
	return Owner{Kind: KindNeighbor, Namespace: node, Name: addr.String()}
}

// On is the owner of the same object on another network.
func (o Owner) On(network string) Owner {
	o.Network = network
	return o
}

// NetworkKey is the network's name in annotations that hold a value for each network.
func (o Owner) NetworkKey() string { return Network{Name: o.Network}.Key() }

// String gives "Kind/namespace/name", or "Kind/name" where the object has no namespace. "@network" follows unless that
// is the default network. The names of objects that own rows have neither @ nor /.
func (o Owner) String() string {
	text := o.Kind + "/" + o.Name
	if o.Namespace != "" {
		text = o.Kind + "/" + o.Namespace + "/" + o.Name
	}
	if o.Network != "" {
		text += "@" + o.Network
	}
	return text
}

// LogValue is String in a log.
func (o Owner) LogValue() slog.Value { return slog.StringValue(o.String()) }

// ParseOwner reads what String wrote.
func ParseOwner(s string) (Owner, error) {
	object, network, on := strings.Cut(s, "@")
	parts := strings.Split(object, "/")
	switch {
	case on && network == "":
	case len(parts) == 2:
		return Owner{Kind: parts[0], Name: parts[1], Network: network}, nil
	case len(parts) == 3:
		return Owner{Kind: parts[0], Namespace: parts[1], Name: parts[2], Network: network}, nil
	}
	return Owner{}, fmt.Errorf("owner %q is not Kind/name or Kind/namespace/name, with or without @network", s)
}

// Unique leaves out owners that are there already, and keeps the order.
func Unique(owners []Owner) []Owner {
	seen := map[Owner]bool{}
	return slices.DeleteFunc(owners, func(o Owner) bool {
		again := seen[o]
		seen[o] = true
		return again
	})
}
