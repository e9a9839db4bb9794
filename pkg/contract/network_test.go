package contract

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// apart is a network of random subnets of 10.0.0.0/8 and fd00::/16 that do not overlap each other.
func apart(random *rand.Rand, n int) (network Network) {
	for range n {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(random.IntN(256)), byte(random.IntN(256)), 0}), 12+random.IntN(13)).Masked()
		if random.IntN(4) == 0 {
			prefix = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, byte(random.IntN(256))}), 18+random.IntN(30)).Masked()
		}
		if !slices.ContainsFunc(network.Subnets, func(s Subnet) bool { return s.Overlaps(prefix) }) {
			network.Subnets = append(network.Subnets, Subnet{Prefix: prefix})
		}
	}
	return network
}

// TestOverlap_IsThatOfPairs: the answer is that of all pairs, in any order of the subnets.
func TestOverlap_IsThatOfPairs(t *testing.T) {
	random, counts := rand.New(rand.NewPCG(1, 2)), map[bool]int{}
	for round := range 3000 {
		a, b, want := apart(random, random.IntN(7)), apart(random, random.IntN(7)), false
		for _, x := range a.Subnets {
			want = want || slices.ContainsFunc(b.Subnets, func(y Subnet) bool { return x.Overlaps(y.Prefix) })
		}
		if got := Overlap(a, b); got != want {
			t.Fatalf("round %d: %v and %v: %v, want %v", round, a.Prefixes(), b.Prefixes(), got, want)
		}
		counts[want]++
	}
	if min(counts[true], counts[false]) < 200 {
		t.Errorf("the rounds are one-sided: %v", counts)
	}
}
