package kube

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

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
	view, err := NewClusterView(apitest.Client(client))
	if err != nil {
		b.Fatal(err)
	}
	if err := view.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	pod := view.Pods()[0]
	for _, c := range []struct{ peers, rules int }{{5000, 1}, {200, 1}, {200, 200}} {
		parsed := policy.ParseNetworkPolicy(manyPeers(c.peers, c.rules))
		view.PolicyChanged(parsed.Owner, parsed)
		name := fmt.Sprintf("%d-in-%d-rules", c.peers, c.rules)
		b.Run("event/"+name, func(b *testing.B) {
			for b.Loop() {
				view.PodChanged(nil, pod)
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
		view.PolicyChanged(parsed.Owner, nil)
	}
}
