package network

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestPrimaryNetworks_TheOldestOfOverlappingOnesIsRouted, whatever came, went and changed before, and each network that is
// routed from now on, or no longer, is among those that changed.
func TestPrimaryNetworks_TheOldestOfOverlappingOnesIsRouted(t *testing.T) {
	subnets := []string{"10.1.0.0/16", "10.1.2.0/24", "10.1.3.0/24", "10.0.0.0/8", "192.168.0.0/16", "10.1.2.0/24,fd00:1::/64", "fd00::/16"}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		x := newTestDefinitions()
		unrouted := 0
		for step := range 60 {
			before := routed(x)
			key := fmt.Sprintf("ns%d/net", r.IntN(12))
			var nad *NAD
			if r.IntN(4) > 0 {
				role := []string{"primary", "primary", "primary", "secondary"}[r.IntN(4)]
				nad = define(t, key, r.IntN(30), fmt.Sprintf(`"name":"net-%d","topology":"layer2","role":%q,"subnets":%q`, r.IntN(8), role, subnets[r.IntN(len(subnets))]))
				if r.IntN(5) > 0 {
					nad.Annotations = map[string]string{contract.NetworkIDKey: fmt.Sprint(1 + r.IntN(9))}
				}
			}
			changed := x.NADChanged(key, nad)
			after := routed(x)
			if diff := cmp.Diff(wantRouted(x), after); diff != "" {
				t.Fatalf("seed %d, step %d (-want +got):\n%s", seed, step, diff)
			}
			for name, is := range after {
				if was, existed := before[name]; (!existed || was != is) && !slices.Contains(changed, name) {
					t.Fatalf("seed %d, step %d: network %s is routed: %t, before %t, and only %v changed", seed, step, name, is, was, changed)
				}
				if !is {
					unrouted++
				}
			}
		}
		if unrouted == 0 {
			t.Errorf("seed %d: each network was routed", seed)
		}
	}
}

func routed(x *Definitions) map[string]bool {
	out := map[string]bool{}
	for _, network := range x.NetworksWithGateway() {
		out[network.Name] = x.IsRouted(network.Name)
	}
	return out
}

// wantRouted is the definition: in the order of their ages.
func wantRouted(x *Definitions) map[string]bool {
	out := map[string]bool{}
	var before []contract.Network
	first := x.firsts
	all := x.NetworksWithGateway()
	slices.SortFunc(all, func(a, b contract.Network) int { return older(first[a.Name], first[b.Name]) })
	for _, network := range all {
		out[network.Name] = !slices.ContainsFunc(before, func(other contract.Network) bool { return contract.Overlap(other, network) })
		before = append(before, network)
	}
	return out
}

// BenchmarkDefinitions_NetworkComes: one more network beside a thousand, of which all have one subnet, or each its own.
func BenchmarkDefinitions_NetworkComes(b *testing.B) {
	for _, subnet := range []string{"10.%d.%d.0/24", "10.1.0.0/16"} {
		b.Run(subnet, func(b *testing.B) {
			x := newTestDefinitions()
			add := func(i int) {
				text := subnet
				if text != "10.1.0.0/16" {
					text = fmt.Sprintf(subnet, i/250+1, i%250)
				}
				nad := define(b, fmt.Sprintf("ns%d/net", i), i, fmt.Sprintf(`"name":"net%d","topology":"layer2","role":"primary","subnets":%q`, i, text))
				nad.Annotations = map[string]string{contract.NetworkIDKey: fmt.Sprint(i + 1)}
				x.NADChanged(nad.Key, nad)
			}
			for i := range 1000 {
				add(i)
			}
			for b.Loop() {
				add(1000)
				x.NADChanged("ns1000/net", nil)
			}
		})
	}
}
