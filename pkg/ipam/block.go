package ipam

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// block is a subnet that gives addresses to pods: a node's part of a network, or all of a network's subnet. It outlives
// its node.
type block struct {
	prefix netip.Prefix
	// first is the offset of the first address that a pod may have.
	first uint64
	// excluded are parts that no pod gets; skipped are these and those whose addresses pods get on request only.
	excluded, skipped parts
	// out is how many addresses are excluded of those that pods could have.
	out float64
	// node had the subnet last; "" where only rows were seen, or where nodes share it.
	node string
	// subnet is the name of the NamespaceSubnet that it is of, "" for any other.
	subnet string
	// held counts the addresses that pods hold.
	held uint64
	// cursor is the offset of the address handed out last.
	cursor uint64
	// macs counts the pods with each MAC. Blocks of a shared network have one map.
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

// size is how many addresses pods may have.
func (b *block) size() float64 {
	if b.last() < b.first {
		return 0
	}
	return float64(b.last()-b.first+1) - b.out
}

// exclude sets what pods do not get, and what they get on request only.
func (b *block) exclude(excluded, reserved []netip.Prefix) {
	b.excluded, b.skipped, b.out = partsOf(b.prefix, excluded), partsOf(b.prefix, excluded, reserved), 0
	for _, part := range b.excluded {
		if first, last := b.offsets(part); first <= last {
			b.out += float64(last-first) + 1
		}
	}
}

// parts are subnets without overlaps, in the order of their addresses: the one that has an address is found without a look
// at all.
type parts []netip.Prefix

// partsOf are the parts in lists that overlap a subnet, without those that are in others.
func partsOf(subnet netip.Prefix, lists ...[]netip.Prefix) (out parts) {
	var all []netip.Prefix
	for _, part := range slices.Concat(lists...) {
		if part.Overlaps(subnet) {
			all = append(all, part.Masked())
		}
	}
	slices.SortFunc(all, func(x, y netip.Prefix) int {
		return cmp.Or(x.Addr().Compare(y.Addr()), cmp.Compare(x.Bits(), y.Bits()))
	})
	for _, part := range all {
		if n := len(out); n == 0 || !out[n-1].Overlaps(part) { // the larger part is before those in it
			out = append(out, part)
		}
	}
	return out
}

// of is the part that has an address.
func (p parts) of(addr netip.Addr) (part netip.Prefix, ok bool) {
	at, found := slices.BinarySearchFunc(p, addr, func(part netip.Prefix, addr netip.Addr) int { return part.Addr().Compare(addr) })
	if !found {
		at--
	}
	if at < 0 || !p[at].Contains(addr) {
		return netip.Prefix{}, false
	}
	return p[at], true
}

// offsets are those of the addresses of a part of the subnet that pods may have, first > last: there are none.
func (b *block) offsets(part netip.Prefix) (first, last uint64) {
	if part.Bits() <= b.prefix.Bits() {
		return b.first, b.last()
	}
	first, small := offsetOf(b.prefix, part.Addr())
	if !small {
		return 1, 0
	}
	last = first + 1<<min(63, part.Addr().BitLen()-part.Bits()) - 1
	return max(first, b.first), min(last, b.last())
}

// next is the free address after the one handed out last, around the end.
func (b *block) next(taken func(netip.Addr) bool) (netip.Addr, bool) {
	if b.last() < b.first || b.held > b.last()-b.first {
		return netip.Addr{}, false
	}
	size := b.last() - b.first + 1
	start := max(b.cursor+1, b.first)
	for i := uint64(0); i < size; i++ {
		offset := b.first + (start-b.first+i)%size
		addr := contract.AddressAt(b.prefix, offset)
		if part, is := b.skipped.of(addr); is {
			i += min(b.lastOf(part)-offset, size)
			continue
		}
		if !taken(addr) {
			b.cursor = offset
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// lastOf is the offset of the last address of a part.
func (b *block) lastOf(part netip.Prefix) uint64 {
	first, _ := offsetOf(b.prefix, part.Addr())
	return first + 1<<min(63, part.Addr().BitLen()-part.Bits()) - 1
}

// allows says that addr is one that a pod may have.
func (b *block) allows(addr netip.Addr) bool {
	if !b.prefix.Contains(addr) {
		return false
	}
	if _, excluded := b.excluded.of(addr); excluded {
		return false
	}
	offset, small := offsetOf(b.prefix, addr)
	return !small || offset >= b.first && (addr.Is6() || offset <= b.last())
}

func macOf(addr netip.Addr) [6]byte { return [6]byte(contract.MACFromAddress(addr)) }

// hasMAC says that a pod has the MAC, or in a node's part the gateway or the node's interface.
func (b *block) hasMAC(mac [6]byte) bool {
	return b.macs[mac] > 0 || b.hasRouter(mac)
}

// hasRouter says that the MAC is that of the gateway or of the node's interface in a node's part.
func (b *block) hasRouter(mac [6]byte) bool {
	return b.first > contract.ManagementOffset &&
		(mac == macOf(contract.AddressAt(b.prefix, contract.RouterOffset)) || mac == macOf(contract.AddressAt(b.prefix, contract.ManagementOffset)))
}

// forget removes one from the pods that have a MAC.
func forget[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// blocks are the subnets of a pod's switch, in the order of the plan.
type blocks []*block

// hasMAC says that the MAC is another one's on the switch. Two IPv6 addresses can have one MAC.
func (s blocks) hasMAC(mac [6]byte) bool {
	return slices.ContainsFunc(s, func(b *block) bool { return b.hasMAC(mac) })
}

// of is the block that has addr, nil when none has.
func (s blocks) of(addr netip.Addr) *block {
	for _, b := range s {
		if b.prefix.Contains(addr) {
			return b
		}
	}
	return nil
}

// next is a free address of the first block that has one.
func (s blocks) next(taken func(netip.Addr) bool) (netip.Addr, bool) {
	for _, b := range s {
		if addr, ok := b.next(taken); ok {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// families are the blocks of each family, in the order of the first of each.
func (s blocks) families() []blocks {
	var out []blocks
	at := map[contract.Family]int{}
	for _, b := range s {
		family := contract.FamilyOf(b.prefix.Addr())
		if _, ok := at[family]; !ok {
			at[family] = len(out)
			out = append(out, nil)
		}
		out[at[family]] = append(out[at[family]], b)
	}
	return out
}

func (s blocks) subnets() []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i, b := range s {
		out[i] = b.prefix
	}
	return out
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
