package kube

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
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

// manyPeers are n peers in so many rules, each of which selects nearly all pods of the cluster.
func manyPeers(n, rules int) *networkingv1.NetworkPolicy {
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-0", Name: "many"}}
	policy.Spec.Ingress = make([]networkingv1.NetworkPolicyIngressRule, rules)
	for i := range n {
		peer := networkingv1.NetworkPolicyPeer{
			NamespaceSelector: &metav1.LabelSelector{},
			PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprint("x-", i)}},
			}},
		}
		rule := &policy.Spec.Ingress[i%rules]
		rule.From = append(rule.From, peer)
	}
	return policy
}

func manyPods(n int) (objects []runtime.Object) {
	for i := range 100 {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ns-", i)}})
	}
	for i := range n {
		pod := labelled(newPod(fmt.Sprint("pod-", i), "n"), "app", fmt.Sprint("app-", i%50))
		pod.Namespace = fmt.Sprint("ns-", i%100)
		objects = append(objects, pod)
	}
	return objects
}

// BenchmarkNetworkPolicy_Peers is what a policy with many peers costs among 20,000
// pods: each event of a pod, and all sets of the policy once.
func BenchmarkNetworkPolicy_Peers(b *testing.B) {
	const pods = 20000
	client := fake.NewClientset(manyPods(pods)...)
	view, err := NewView(apitest.Client(client), "")
	if err != nil {
		b.Fatal(err)
	}
	if err := view.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	pod := view.Pods()[0]
	for _, c := range []struct{ peers, rules int }{{5000, 1}, {200, 1}, {200, 200}} {
		policy := ParseNetworkPolicy(manyPeers(c.peers, c.rules))
		view.policyIndex.put(policy.Owner, policy)
		name := fmt.Sprintf("%d-in-%d-rules", c.peers, c.rules)
		b.Run("event/"+name, func(b *testing.B) {
			for b.Loop() {
				view.podPolicyOwners(nil, pod)
			}
		})
		b.Run("sets/"+name, func(b *testing.B) {
			members := 0
			for b.Loop() {
				members = 0
				for _, owner := range view.PodSetOwners() {
					members += len(view.Members(view.PodSet(owner)))
				}
			}
			b.ReportMetric(float64(len(view.PodSetOwners())), "sets")
			b.ReportMetric(float64(members), "members")
		})
		view.policyIndex.put(policy.Owner, nil)
	}
}
