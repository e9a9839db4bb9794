package ovn

import (
	"math/bits"
	"net/netip"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// everyPod has the addresses that pods may have, by family, in terms of a match: of
// each node's subnet all but the first addresses, which are a router's and the
// node's own. A term has a mask for the same part of all nodes' subnets.
func everyPod(net scope) map[contract.Family][]string {
	terms := map[contract.Family][]string{}
	for _, subnet := range net.Subnets {
		family := contract.FamilyOf(subnet.Addr())
		length := subnet.Addr().BitLen()
		for bit := bits.TrailingZeros(contract.FirstPodOffset); bit < length-subnet.NodeBits; bit++ {
			mask := make([]byte, length/8)
			addr := subnet.Masked().Addr().AsSlice()
			for at := range length { // from the left
				if right := length - 1 - at; at < subnet.Bits() || right >= bit && right < length-subnet.NodeBits {
					mask[at/8] |= 0x80 >> (at % 8)
				}
			}
			at := length - 1 - bit
			addr[at/8] |= 0x80 >> (at % 8)
			first, _ := netip.AddrFromSlice(addr)
			masked, _ := netip.AddrFromSlice(mask)
			terms[family] = append(terms[family], first.String()+"/"+masked.String())
		}
	}
	return terms
}

func prefixStrings(prefixes []netip.Prefix) []string {
	out := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		out[i] = prefix.String()
	}
	return out
}

// portAddress is OVN's notation for what a port answers to: "MAC IP IP6".
func portAddress(mac contract.MAC, addrs []netip.Prefix) string {
	var b strings.Builder
	b.WriteString(mac.String())
	for _, addr := range addrs {
		b.WriteByte(' ')
		b.WriteString(addr.Addr().String())
	}
	return b.String()
}
