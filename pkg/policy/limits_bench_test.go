package policy

import (
	"fmt"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// exceptions are n single addresses all over IPv4.
func exceptions(n int) []string {
	all := make([]string, n)
	for i := range all {
		v := uint32(i) * 2654435761 // Knuth's multiplier spreads them
		all[i] = netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}).String() + "/32"
	}
	return all
}

func exceptPolicy(n int) *networkingv1.NetworkPolicy {
	return policyFrom(networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: exceptions(n)}})
}

// BenchmarkNetworkPolicy_Exceptions is what a policy with many exceptions costs: in
// the event's handler, and in the loop of rows.
func BenchmarkNetworkPolicy_Exceptions(b *testing.B) {
	for _, n := range []int{100, 500, 1000, 2000, 4000, 80000} {
		np := exceptPolicy(n)
		b.Run(fmt.Sprint("event/", n), func(b *testing.B) {
			for b.Loop() {
				ParseNetworkPolicy(np)
			}
		})
		b.Run(fmt.Sprint("rows/", n), func(b *testing.B) {
			left := 0
			for b.Loop() {
				prefixes, _ := ParseNetworkPolicy(np).Ingress.Rules[0].Networks.Prefixes()
				left = len(prefixes)
			}
			b.ReportMetric(float64(left), "prefixes")
		})
		b.Run(fmt.Sprint("unlimited/", n), func(b *testing.B) {
			left := 0
			for b.Loop() {
				var except []span
				for _, text := range np.Spec.Ingress[0].From[0].IPBlock.Except {
					except = append(except, spanOf(netip.MustParsePrefix(text)))
				}
				left = len(prefixesOf(without(spanOf(netip.MustParsePrefix("0.0.0.0/0")), except), 1<<30))
			}
			b.ReportMetric(float64(left), "prefixes")
		})
	}
}
