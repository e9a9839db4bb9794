package ipam

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestBlock_PartsAreThoseOfTheLists: an address is one that pods may have, or get without asking, unless a part of the lists
// has it, and the number of such addresses is right. Lists have parts in others, parts twice, and parts that are larger
// than the subnet or outside.
func TestBlock_PartsAreThoseOfTheLists(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		subnet := netip.MustParsePrefix([]string{"10.1.2.0/24", "fd00::/120"}[seed%2])
		list := func() (all []netip.Prefix) {
			for range r.IntN(6) {
				addr := subnet.Addr().AsSlice()
				addr[len(addr)-1] = byte(r.IntN(256))
				addr[len(addr)-2] += byte(r.IntN(8) / 7)
				at, _ := netip.AddrFromSlice(addr)
				all = append(all, netip.PrefixFrom(at, at.BitLen()-r.IntN(6)))
			}
			if r.IntN(20) == 0 {
				all = append(all, netip.PrefixFrom(subnet.Addr(), subnet.Bits()-3))
			}
			return all
		}
		excluded, reserved := list(), list()
		b := &block{prefix: subnet, first: 1, macs: map[[6]byte]int{}}
		b.exclude(excluded, reserved)
		inside := func(addr netip.Addr, lists ...[]netip.Prefix) bool {
			return slices.ContainsFunc(slices.Concat(lists...), func(part netip.Prefix) bool { return part.Contains(addr) })
		}
		size, free := 0, map[netip.Addr]bool{}
		for offset := b.first; offset <= b.last(); offset++ {
			addr := contract.AddressAt(subnet, offset)
			if b.allows(addr) == inside(addr, excluded) {
				t.Fatalf("seed %d: %s is allowed: %t, excluded %v", seed, addr, b.allows(addr), excluded)
			}
			if !inside(addr, excluded) {
				size++
			}
			if !inside(addr, excluded, reserved) {
				free[addr] = true
			}
		}
		if b.size() != float64(size) {
			t.Fatalf("seed %d: size %.0f, want %d, excluded %v", seed, b.size(), size, excluded)
		}
		want := len(free)
		for range want {
			addr, ok := b.next(func(addr netip.Addr) bool { return !free[addr] })
			if !ok {
				t.Fatalf("seed %d: %d addresses are not found", seed, len(free))
			}
			delete(free, addr)
		}
		if addr, ok := b.next(func(addr netip.Addr) bool { return !free[addr] }); ok {
			t.Fatalf("seed %d: %s is no free address", seed, addr)
		}
	}
}

// TestBlock_LongListsAreNotRead: 2,000 looks at an address and at the size take less time than 2,000 reads of the list.
func TestBlock_LongListsAreNotRead(t *testing.T) {
	subnet := netip.MustParsePrefix("10.0.0.0/8")
	var list []netip.Prefix
	for i := range uint64(30_000) {
		list = append(list, netip.PrefixFrom(contract.AddressAt(subnet, 2*i+1), 32))
	}
	b := &block{prefix: subnet, first: 1, macs: map[[6]byte]int{}}
	b.exclude(list, nil)
	isLast := func(part netip.Prefix) bool { return part == list[len(list)-1] }
	begin := time.Now()
	for range 2000 {
		if slices.IndexFunc(list, isLast) < 0 {
			t.Fatal("the list lacks its last part")
		}
	}
	witness := time.Since(begin)
	begin = time.Now()
	for i := range uint64(2000) {
		if at := 29 * i; b.allows(contract.AddressAt(subnet, at+1)) != (at%2 == 1) || b.size() != 1<<24-2-30_000 {
			t.Fatalf("offset %d, size %.0f", at+1, b.size())
		}
	}
	if took := time.Since(begin); took > witness {
		t.Errorf("%s, the witness %s", took, witness)
	}
}
