package ipam

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// block is a node's subnet of one family. It outlives its node.
type block struct {
	prefix netip.Prefix
	// node had the subnet last; "" where only rows were seen.
	node string
	// held counts the addresses that pods hold.
	held uint64
	// cursor is the offset of the address handed out last.
	cursor uint64
	// macs counts the pods whose MAC follows from an address of the block.
	macs map[[6]byte]int
	// routes are the same for all pods of the block: shared, never changed.
	routes []contract.Route
}

// last is the largest offset that a pod may have. The all-ones address of an
// IPv4 subnet is its broadcast address. A search never goes beyond 32 bits.
func (b *block) last() uint64 {
	hostBits := min(b.prefix.Addr().BitLen()-b.prefix.Bits(), 32)
	if b.prefix.Addr().Is4() {
		return 1<<hostBits - 2
	}
	return 1<<hostBits - 1
}

// next is the free address after the one handed out last, around the end.
func (b *block) next(taken func(netip.Addr) bool) (netip.Addr, bool) {
	size := b.last() - contract.FirstPodOffset + 1
	if b.held >= size {
		return netip.Addr{}, false
	}
	start := max(b.cursor, contract.FirstPodOffset-1)
	for i := uint64(1); i <= size; i++ {
		offset := contract.FirstPodOffset + (start-contract.FirstPodOffset+i)%size
		if addr := contract.AddressAt(b.prefix, offset); !taken(addr) {
			b.cursor = offset
			return addr, true
		}
	}
	return netip.Addr{}, false
}

func macOf(addr netip.Addr) [6]byte { return [6]byte(contract.MACFromAddress(addr)) }

// hasMAC says that a pod, the gateway or the node's interface has the MAC.
func (b *block) hasMAC(mac [6]byte) bool {
	return b.macs[mac] > 0 || mac == macOf(contract.AddressAt(b.prefix, contract.RouterOffset)) || mac == macOf(contract.AddressAt(b.prefix, contract.ManagementOffset))
}

func (b *block) forgetMAC(addr netip.Addr) {
	mac := macOf(addr)
	if b.macs[mac]--; b.macs[mac] == 0 {
		delete(b.macs, mac)
	}
}

// blocks are a node's subnets, one for each family.
type blocks []*block

// hasMAC says that the MAC of a pod whose first address is addr is another one's on
// the node's switch. Two IPv6 addresses can have one MAC.
func (s blocks) hasMAC(addr netip.Addr) bool {
	return slices.ContainsFunc(s, func(b *block) bool { return b.hasMAC(macOf(addr)) })
}

func (s blocks) subnets() []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i, b := range s {
		out[i] = b.prefix
	}
	return out
}

// forPods says that addr is one that a pod of the subnet may have.
func forPods(subnet netip.Prefix, addr netip.Addr) bool {
	if !subnet.Contains(addr) {
		return false
	}
	b := block{prefix: subnet}
	offset, small := offsetOf(subnet, addr)
	return !small || offset >= contract.FirstPodOffset && (addr.Is6() || offset <= b.last())
}

// after is the next prefix of the same length; past the last address of all, it
// is invalid and in no subnet.
func after(prefix netip.Prefix) netip.Prefix {
	bytes := prefix.Addr().AsSlice()
	carry := 1 << ((8 - prefix.Bits()%8) % 8)
	for i := (prefix.Bits() - 1) / 8; i >= 0 && carry > 0; i-- {
		carry += int(bytes[i])
		bytes[i] = byte(carry)
		carry >>= 8
	}
	if carry > 0 {
		return netip.Prefix{}
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, prefix.Bits())
}

// offsetOf undoes contract.AddressAt for an address of the subnet; small is false where
// the offset has over 64 bits.
func offsetOf(subnet netip.Prefix, addr netip.Addr) (offset uint64, small bool) {
	first, at := subnet.Addr().As16(), addr.As16()
	if [8]byte(first[:8]) != [8]byte(at[:8]) {
		return 0, false
	}
	return binary.BigEndian.Uint64(at[8:]) - binary.BigEndian.Uint64(first[8:]), true
}
