//go:build apiserver

package apiserver

import (
	"context"
	"fmt"
	"strings"
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
	createPolicy(t, ns, "forgotten", fromNamespaces("no-namespace", "has-this-label"))
	createPolicy(t, ns, "right", fromNamespaces("kubernetes.io/metadata.name", ns))
	warnings := func(name string) (notes []string) {
		events, err := cluster.client.CoreV1().Events(ns).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events.Items {
			if event.InvolvedObject.Name == name && event.Reason == "NoNamespaceSelected" {
				notes = append(notes, event.Message)
			}
		}
		return notes
	}
	eventually(t, "a warning", func() (bool, string) {
		notes := warnings("forgotten")
		return len(notes) == 1 && strings.Contains(notes[0], "no-namespace=has-this-label"), fmt.Sprint(notes)
	})
	if notes := warnings("right"); len(notes) > 0 {
		t.Errorf("warned of a policy that is right: %v", notes)
	}
}
