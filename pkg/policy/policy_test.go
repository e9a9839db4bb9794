package policy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func policyFrom(peer networkingv1.NetworkPolicyPeer, ports ...networkingv1.NetworkPolicyPort) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "policy"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}, Ports: ports}},
		},
	}
}

func labelled(name, key, value string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{key: value}}, Spec: corev1.PodSpec{NodeName: "n"},
	}
}

// TestPodSet_SelectorOfNothingIsNotThatOfAll: both print as "".
func TestPodSet_SelectorOfNothingIsNotThatOfAll(t *testing.T) {
	set := func(pods labels.Selector) *PodSet {
		return newPodSet([]Selection{{Namespaces: labels.Everything(), Pods: pods}}, PortName{}, nil)
	}
	all, none := set(labels.Everything()), set(labels.Nothing())
	if all.Owner() == none.Owner() {
		t.Error("they are one set")
	}
	if again := set(labels.Everything()); all.Owner() != again.Owner() {
		t.Error("equal sets are two")
	}
}

func TestUnmatched_NamesSelectorWithoutNamespace(t *testing.T) {
	policy := ParseNetworkPolicy(policyFrom(networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"trusted": "yes"}},
	}))
	for present, want := range map[bool]string{true: "", false: "trusted=yes"} {
		if got := policy.Unmatched(func(labels.Selector) bool { return present }); got != want {
			t.Errorf("namespaces there %t: %q, want %q", present, got, want)
		}
	}
}

// FuzzParseNetworkPolicy: whatever a user writes, parsing ends, and what is not
// right opens nothing.
func FuzzParseNetworkPolicy(f *testing.F) {
	f.Add("10.0.0.0/8", "10.1.0.0/16", "TCP", 80, 90, "http")
	f.Add("10.0.0.0/8 || 1", "", "tcp", -1, 70000, `"`)
	f.Fuzz(func(t *testing.T, cidr, except, protocol string, first, last int, name string) {
		port, end, named, p := intstr.FromInt32(int32(first)), int32(last), intstr.FromString(name), corev1.Protocol(protocol)
		policy := ParseNetworkPolicy(policyFrom(
			networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: []string{except}}},
			networkingv1.NetworkPolicyPort{Protocol: &p, Port: &port, EndPort: &end}, networkingv1.NetworkPolicyPort{Protocol: &p, Port: &named},
		))
		rule := policy.Ingress.Rules[0]
		if rule.AnyPeer || rule.AnyPort {
			t.Error("a bad rule allows all peers or all ports")
		}
		for _, port := range rule.Ports {
			if port.Named == nil && (port.First == 0 || port.First > port.Last) {
				t.Errorf("ports %d to %d", port.First, port.Last)
			}
		}
		if networks, _ := rule.Networks.Prefixes(); len(networks) > 0 && strings.ContainsAny(cidr, " |&\"") {
			t.Errorf("network %q is %v", cidr, networks)
		}
	})
}
