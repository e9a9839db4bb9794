//go:build e2e

package world

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyWithin bounds how long a change of a policy takes to reach all nodes. The latency is measured elsewhere.
const PolicyWithin = Soon

// CreatePolicy makes a NetworkPolicy.
func CreatePolicy(t *testing.T, ns, name string, spec networkingv1.NetworkPolicySpec) {
	t.Helper()
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: spec}
	if _, err := cluster.Client.NetworkingV1().NetworkPolicies(ns).Create(t.Context(), object,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// DeletePolicy deletes a NetworkPolicy.
func DeletePolicy(t *testing.T, ns, name string) {
	t.Helper()
	if err := cluster.Client.NetworkingV1().NetworkPolicies(ns).Delete(t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// AllowNamespaces selects all pods of the policy's namespace, and lets in the pods of namespaces with a label.
func AllowNamespaces(key, value string) networkingv1.NetworkPolicySpec {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	from := networkingv1.NetworkPolicyPeer{NamespaceSelector: selector}
	return networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{from}},
	}}
}

// AllowPods selects the pods with a label app, and lets in those with one of other labels app.
func AllowPods(app string, from ...string) networkingv1.NetworkPolicySpec {
	spec := networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
	}
	for _, name := range from {
		spec.Ingress = append(spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{
			{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
		}})
	}
	return spec
}

// Reaches waits until a pod reaches all targets by TCP and UDP, or none of them, and then looks once more: a state that
// holds for a moment is none. What is not reached must stay so. A busy machine may lose a packet to a target that is
// reached, and then both looks are repeated.
func Reaches(t *testing.T, from *corev1.Pod, want bool, targets ...netip.AddrPort) {
	t.Helper()
	var words []string
	for _, target := range targets {
		words = append(words, "tcp:"+target.String(), "udp:"+target.String())
	}
	look := func() (ok bool, answers int, seen string) {
		got, err := FromPod(from).Reached(words...)
		return err == nil && len(got) == map[bool]int{true: len(words)}[want], len(got),
			fmt.Sprintf("%s/%s on %s reaches %q: %v", from.Namespace, from.Name, from.Spec.NodeName, got, err)
	}
	Eventually(t, PolicyWithin, fmt.Sprintf("reachable: %t", want), func() (bool, string) {
		ok, _, seen := look()
		if ok && !want { // a busy machine, too, answers nothing for a second
			ok, _, seen = look()
		}
		if !ok {
			return false, seen
		}
		ok, answers, seen := look()
		if !want && answers > 0 {
			t.Errorf("it changed again: %s", seen)
		}
		return ok, seen
	})
}
