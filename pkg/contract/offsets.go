package contract

import (
	"encoding/binary"
	"net/netip"
)

// Offsets from the network address of a node's subnet.
const (
	// RouterOffset is the router's port, the gateway of the pods. It is also the cluster router in a join subnet.
	RouterOffset = 1
	// ManagementOffset is the node's own interface, the management port.
	ManagementOffset = 2
	// FirstPodOffset is the first address that a pod may have, a power of two. OVN-Kubernetes keeps 3 for the gateway
	// of a hybrid overlay.
	FirstPodOffset = 4
)

// Offsets from the network address of a masquerade subnet. A node and its gateway router both have the node's
// address; packets between them carry these addresses in its place. The first five are OVN-Kubernetes'.
const (
	// MasqueradeRouter is the source that a process of the node sees when a service leads back to the node.
	MasqueradeRouter = 1
	// MasqueradeHost is the node as its gateway router sees it.
	MasqueradeHost = 2
	// MasqueradeNextHop is the next hop of routes between both. No interface has it.
	MasqueradeNextHop = 4
	// MasqueradeHairpin is the source of what a load balancer sends back to the pod that it came from.
	MasqueradeHairpin = 5
	// MasqueradeBound is the node whose process has chosen the node's address as its source.
	MasqueradeBound = 6
	// MasqueradeOther is the node under any further source address.
	MasqueradeOther = 7
	// MasqueradeElsewhere has the node ports of services with policy Local whose endpoints are on other nodes, for
	// processes of a node without one.
	MasqueradeElsewhere = 8
	// MasqueradeClient is the source of what the node's own processes send to MasqueradeElsewhere.
	MasqueradeClient = 9
)

// Further parts of a masquerade subnet, for primary networks beside the default one.
const (
	// masqueradeNetworks begins the addresses of networks, one for each id: a network's pods have it outside their network.
	masqueradeNetworks = 1 << 12
	// masqueradeLinks begins the pairs of addresses of nodes, two for each id: the second half of the subnet.
	masqueradeLinks = 1 << 14
	// primaryBits are the bits of an address in a subnet with both parts.
	primaryBits = 15
	// MaxLinkID is the largest node id that has a pair.
	MaxLinkID = 1<<13 - 1
)

// HasPrimaries says that a masquerade subnet is large enough for primary networks.
func HasPrimaries(masquerade netip.Prefix) bool {
	return masquerade.Addr().BitLen()-masquerade.Bits() >= primaryBits
}

// NetworkAddress stands for all pods of a primary network.
func NetworkAddress(masquerade netip.Prefix, id int) netip.Addr {
	return AddressAt(masquerade.Masked(), masqueradeNetworks+uint64(id))
}

// NetworkAddresses are those of all primary networks.
func NetworkAddresses(masquerade netip.Prefix) netip.Prefix {
	first := AddressAt(masquerade.Masked(), masqueradeNetworks)
	return netip.PrefixFrom(first, first.BitLen()-12)
}

// Link is the link between a node's gateway router and the routers of primary networks. The gateway router has the first
// address, every other router the second.
func Link(masquerade netip.Prefix, node uint32) netip.Prefix {
	first := AddressAt(masquerade.Masked(), masqueradeLinks+2*uint64(node))
	return netip.PrefixFrom(first, first.BitLen()-1)
}

// Links are those of all nodes.
func Links(masquerade netip.Prefix) netip.Prefix {
	first := AddressAt(masquerade.Masked(), masqueradeLinks)
	return netip.PrefixFrom(first, first.BitLen()-14)
}

// TransitAddress is the gateway router's address on a node's link. Its subnet has the links of all nodes and the addresses
// of all networks, and also MasqueradeHosts.
func TransitAddress(link netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(link.Addr(), link.Addr().BitLen()-primaryBits)
}

// MasqueradeHosts are the first addresses of a masquerade subnet, which nodes have between themselves and their gateway
// routers.
func MasqueradeHosts(masquerade netip.Prefix) netip.Prefix {
	first := masquerade.Masked().Addr()
	return netip.PrefixFrom(first, first.BitLen()-12)
}

// AddressAt is the address at an offset from the network address of subnet.
func AddressAt(subnet netip.Prefix, offset uint64) netip.Addr {
	bytes := subnet.Addr().As16()
	low := binary.BigEndian.Uint64(bytes[8:])
	binary.BigEndian.PutUint64(bytes[8:], low+offset)
	addr := netip.AddrFrom16(bytes)
	if subnet.Addr().Is4() {
		return addr.Unmap()
	}
	return addr
}

// PrefixAt is AddressAt with the length of subnet.
func PrefixAt(subnet netip.Prefix, offset uint64) netip.Prefix {
	return netip.PrefixFrom(AddressAt(subnet, offset), subnet.Bits())
}

// MaxNodeID is the largest node id that has an address in a join subnet: the last two addresses are the broadcast
// address of IPv4 and RetransmitAddress.
func MaxNodeID(join netip.Prefix) int { return int(retransmitOffset(join)) - 1 }

// RetransmitAddress is the cluster router's second address in a join subnet. No node has it.
func RetransmitAddress(join netip.Prefix) netip.Addr { return AddressAt(join, retransmitOffset(join)) }

func retransmitOffset(join netip.Prefix) uint64 {
	return 1<<min(31, join.Addr().BitLen()-join.Bits()) - 2
}
