//go:build apiserver

package apiserver

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func createPolicy(t *testing.T, ns, name string, spec networkingv1.NetworkPolicySpec) {
	t.Helper()
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: spec}
	if _, err := cluster.client.NetworkingV1().NetworkPolicies(ns).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func fromNamespaces(key, value string) networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}},
	}}}}
}

// TestNetworkPolicy_WarnsOfUnmatchedSelector: of a namespace selector that selects nothing, and not of
// one that selects something.
func TestNetworkPolicy_WarnsOfUnmatchedSelector(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	createPolicy(t, ns, "right", fromNamespaces("kubernetes.io/metadata.name", ns))
	createPolicy(t, ns, "forgotten", fromNamespaces("no-namespace", "has-this-label"))
	wantEvent(t, ns, "NoNamespaceSelected", "forgotten", "no-namespace=has-this-label")
	events, err := cluster.client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=right"})
	if err != nil || len(events.Items) > 0 {
		t.Errorf("Events of a policy that is right: %v, %v", events.Items, err)
	}
}
