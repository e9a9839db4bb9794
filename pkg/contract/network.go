package contract

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	apitypes "k8s.io/apimachinery/pkg/types"
)

// DefaultNetwork is the key of the cluster's default network in annotations. In an Owner and in a Network that
// network's name is "".
const DefaultNetwork = "default"

// Role is a network's part in the pods that it is attached to.
type Role string

// The roles, as k8s.ovn.org/pod-networks says them.
const (
	// RolePrimary has the pod's default route and its services.
	RolePrimary Role = "primary"
	// RoleSecondary is a further interface.
	RoleSecondary Role = "secondary"
)

// Topology is the shape of a network in OVN, as the netconf of a NetworkAttachmentDefinition spells it.
type Topology string

// The topologies.
const (
	// Layer3 has a switch for each node, and a router between them.
	Layer3 Topology = "layer3"
	// Layer2 has one switch for all nodes.
	Layer2 Topology = "layer2"
	// Localnet has one switch for all nodes, with a port to a physical network.
	Localnet Topology = "localnet"
)

// Network is one network of pods. Copies of a Network share their slices: do not change them. A Network whose Name is the
// key of an attachment gives the names of the pod's port there and its key in the annotation.
type Network struct {
	// Name is "" for the cluster's default network.
	Name string
	// ID is unique in the cluster, 0 for the default network.
	ID       int
	Role     Role
	Topology Topology
	// Subnets hold the pods' addresses. There may be several of one family.
	Subnets []Subnet
	// JoinSubnets connect the network's router with its gateway routers: at most one for each family, none for
	// networks without gateway routers.
	JoinSubnets []netip.Prefix
	// Excluded are parts of Subnets that no pod gets.
	Excluded []netip.Prefix
	PodRules
	Leaving
	// MTU of the pods' interfaces, 0: that of the node.
	MTU int
	// VLAN is the tag of a localnet on the physical network, 0: none.
	VLAN int
	// PhysicalNetwork is the network_name of the ports to the physical network.
	PhysicalNetwork string
}

// PodRules say what pods may have and do on a further network.
type PodRules struct {
	// Persistent says that an IPAMClaim may keep a pod's addresses.
	Persistent bool
	// Reserved are parts of the subnets whose addresses pods get on request only.
	Reserved []netip.Prefix
	// DNS is that of the network configuration; nil: it has none.
	DNS *types.DNS
	// Owner is the UID of the object that a further network belongs to, which the annotations of its pods record. The network
	// of another object is another one, whatever its name.
	Owner apitypes.UID
	// Forward says that pods may send and get packets of other addresses than their own, as gateways of other pods do.
	// The MAC must be their own.
	Forward bool
}

// Leaving is how packets leave a further network.
type Leaving struct {
	// Gateways are the router's addresses on the switch of a network of topology layer2 or localnet, at most one for each
	// subnet. The router is the network's own if it has a gateway, and else that of a chain.
	Gateways []netip.Prefix
	// Exits are what pods reach by the gateway of a secondary network; without any, it has none.
	Exits []netip.Prefix
}

// HasNodeParts says that nodes have rows of their own on a further network.
func (n Network) HasNodeParts() bool { return n.Topology == Layer3 || n.HasGateway() }

// HasGateway says that the router of a further network leads to the nodes' gateway routers.
func (n Network) HasGateway() bool { return n.IsPrimary() || len(n.Exits) > 0 }

// Zone is what all networks of a zone share. A zone is one Northbound database with the nodes that it serves.
type Zone struct {
	// ServiceSubnets hold the services' own addresses.
	ServiceSubnets []netip.Prefix
	// MasqueradeSubnets hold addresses that stand for a node or a router: at most one for each family.
	MasqueradeSubnets []netip.Prefix
	// NamespaceSubnets are beside the subnets of the default network.
	NamespaceSubnets []NamespaceSubnet
	// DefaultSubnets are those of the default network: of its pods, and between its routers.
	DefaultSubnets []netip.Prefix
}

// IsPrimary says that the network is the primary one of some namespaces. The default network is not meant.
func (n Network) IsPrimary() bool { return n.Name != "" && n.Role == RolePrimary }

// Overlap says that an address is in subnets of both networks. Subnets of one network do not overlap.
func Overlap(a, b Network) bool {
	x, y := a.Prefixes(), b.Prefixes()
	if len(x) > 1 && len(y) > 1 {
		slices.SortFunc(x, netip.Prefix.Compare)
		slices.SortFunc(y, netip.Prefix.Compare)
	}
	if len(x) == 1 || len(y) == 1 {
		return slices.ContainsFunc(x, func(one netip.Prefix) bool { return slices.ContainsFunc(y, one.Overlaps) })
	}
	for len(x) > 0 && len(y) > 0 { // the one with the first address ends before all that follow
		switch {
		case x[0].Overlaps(y[0]):
			return true
		case x[0].Compare(y[0]) < 0:
			x = x[1:]
		default:
			y = y[1:]
		}
	}
	return false
}

// Subnet is a network of pods from which each node gets an equal part.
type Subnet struct {
	netip.Prefix
	// NodeBits is the prefix length of a node's part. It is that of the subnet itself where nodes share it.
	NodeBits int
}

// String is the form that ipam.ParseClusterSubnets reads.
func (s Subnet) String() string { return fmt.Sprintf("%s/%d", s.Prefix, s.NodeBits) }

// Key is the network's name in annotations that hold a value for each network.
func (n Network) Key() string {
	if n.Name == "" {
		return DefaultNetwork
	}
	return n.Name
}

// Families are the address families of the pods, in the order of the subnets.
func (n Network) Families() []Family {
	var families []Family
	for _, subnet := range n.Subnets {
		if f := FamilyOf(subnet.Addr()); !slices.Contains(families, f) {
			families = append(families, f)
		}
	}
	return families
}

// Prefixes are the subnets without the lengths of the nodes' parts.
func (n Network) Prefixes() []netip.Prefix {
	out := make([]netip.Prefix, len(n.Subnets))
	for i, subnet := range n.Subnets {
		out[i] = subnet.Prefix
	}
	return out
}

// prefix begins the names of the network's OVN objects: OVN-Kubernetes' form, in which "a-b" and "a.b" are the same.
// Whoever makes Networks refuses the second of two with one prefix.
func (n Network) prefix() string {
	if n.Name == "" {
		return ""
	}
	return strings.ReplaceAll(strings.ReplaceAll(n.Name, "-", "."), "/", ".") + "_"
}
