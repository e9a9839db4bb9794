package acl

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// Families are the address Families in the order of rows.
func Families() []contract.Family { return []contract.Family{contract.IPv4, contract.IPv6} }

// FamilyOf is the family of an address as a match spells it.
func FamilyOf(addr netip.Addr) string { return MatchFamily(contract.FamilyOf(addr)) }

// MatchFamily is a family as a match spells it.
func MatchFamily(family contract.Family) string { return fmt.Sprintf("ip%d", family) }

// Field is the source or the destination address of a packet.
type Field string

// The fields.
const (
	Source      Field = "src"
	Destination Field = "dst"
)

// Of is the field of a family, as a match spells it.
func (f Field) Of(family contract.Family) string { return MatchFamily(family) + "." + string(f) }

// and joins matches; "" is the one of all packets. A match is put together here
// alone: users' text never comes into it, only addresses, numbers, and names that
// are hashes.
func and(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " && " + b
}

// peerMatches is one match for each family, "" for any peer.
func peerMatches(f Field, addresses map[contract.Family][]string, anyPeer bool) []string {
	if anyPeer {
		return []string{""}
	}
	var all []string
	for _, family := range Families() {
		if set := addresses[family]; len(set) > 0 {
			all = append(all, f.Of(family)+" == {"+strings.Join(set, ", ")+"}")
		}
	}
	return all
}

// portMatches is one match for each protocol that has a port with a number, ""
// for any port.
func portMatches(ports []policy.Port, anyPort bool) []string {
	if anyPort {
		return []string{""}
	}
	var all []string
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		if text := protocolMatch(strings.ToLower(string(protocol)), protocol, ports); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// protocolMatch has parentheses where && and || meet, without which OVN refuses it.
func protocolMatch(name string, protocol corev1.Protocol, ports []policy.Port) string {
	var numbers, terms []string
	for _, p := range ports {
		switch {
		case p.Protocol != protocol || p.Named != nil:
		case p.First == 0:
			return name
		case p.First == p.Last:
			numbers = append(numbers, fmt.Sprint(p.First))
		default:
			terms = append(terms, fmt.Sprintf("%d <= %s.dst <= %d", p.First, name, p.Last))
		}
	}
	if len(numbers) > 0 {
		terms = append(terms, fmt.Sprintf("%s.dst == {%s}", name, strings.Join(numbers, ", ")))
	}
	if len(terms) > 1 {
		return "(" + strings.Join(terms, " || ") + ")"
	}
	return strings.Join(terms, "")
}

// everyPod has the addresses that pods may have, by family, in terms of a match: of
// each node's subnet all but the first addresses, which are a router's and the
// node's own. A term has a mask for the same part of all nodes' subnets.
func everyPod(net contract.Network) map[contract.Family][]string {
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
