package ovn

import (
	"math/bits"
	"net/netip"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// Where in a node's or the join subnet the router and the node itself stand.
const (
	routerOffset     = 1
	managementOffset = 2
)

// Who stands where in a masquerade subnet: ownNodeOffset is the node as its
// gateway router sees it; hairpinOffset is the source of what a load balancer
// sends back to the pod that it came from.
const (
	ownNodeOffset = 2
	hairpinOffset = 5
)

// everyPod has the addresses that pods may have, by family, in terms of a match: of
// each node's subnet all but the first addresses, which are a router's and the
// node's own. A term has a mask for the same part of all nodes' subnets.
func everyPod(cfg Config) map[bool][]string {
	terms := map[bool][]string{}
	for i, subnet := range cfg.ClusterSubnets {
		four := subnet.Addr().Is4()
		length := subnet.Addr().BitLen()
		for bit := bits.TrailingZeros(ipam.FirstPodOffset); bit < length-cfg.nodeBits(i); bit++ {
			mask := make([]byte, length/8)
			addr := subnet.Masked().Addr().AsSlice()
			for at := range length { // from the left
				if right := length - 1 - at; at < subnet.Bits() || right >= bit && right < length-cfg.nodeBits(i) {
					mask[at/8] |= 0x80 >> (at % 8)
				}
			}
			at := length - 1 - bit
			addr[at/8] |= 0x80 >> (at % 8)
			first, _ := netip.AddrFromSlice(addr)
			masked, _ := netip.AddrFromSlice(mask)
			terms[four] = append(terms[four], first.String()+"/"+masked.String())
		}
	}
	return terms
}

// hostPrefix is the address at an offset in a subnet, with the subnet's length.
func hostPrefix(subnet netip.Prefix, offset uint64) netip.Prefix {
	return netip.PrefixFrom(ipam.AddressAt(subnet, offset), subnet.Bits())
}

// sameFamily is the first of prefixes in the family of addr.
func sameFamily(prefixes []netip.Prefix, addr netip.Addr) (netip.Prefix, bool) {
	for _, prefix := range prefixes {
		if prefix.Addr().Is4() == addr.Is4() {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

func prefixStrings(prefixes []netip.Prefix) []string {
	out := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		out[i] = prefix.String()
	}
	return out
}

// portAddress is OVN's notation for what a port answers to: "MAC IP IP6".
func portAddress(mac kube.MAC, addrs []netip.Prefix) string {
	var b strings.Builder
	b.WriteString(mac.String())
	for _, addr := range addrs {
		b.WriteByte(' ')
		b.WriteString(addr.Addr().String())
	}
	return b.String()
}
