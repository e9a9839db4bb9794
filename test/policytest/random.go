package policytest

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Namespaces of random worlds: three, with three pods in each, as cyclonus has them.
func Namespaces() []string { return []string{"x", "y", "z"} }

// Protocols that policies have ports of.
func Protocols() []corev1.Protocol {
	return []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
}

// PodNames of each namespace.
func PodNames() []string { return []string{"a", "b", "c"} }

// PodsOf makes the nine pods, with labels that several of them share, and port
// names that stand for different numbers.
func PodsOf() (namespaces []*corev1.Namespace, pods []*corev1.Pod) {
	for i, ns := range Namespaces() {
		namespaces = append(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: ns, Labels: map[string]string{"ns": ns, "tier": fmt.Sprint(i % 2)},
		}})
		for j, name := range PodNames() {
			pods = append(pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"pod": name, "odd": fmt.Sprint((i + j) % 2)}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "image", Ports: []corev1.ContainerPort{
						{Name: "serve", ContainerPort: int32(80 + j%2)},
						{Name: "serve-udp", ContainerPort: int32(80 + i%2), Protocol: corev1.ProtocolUDP},
						{Name: "serve-sctp", ContainerPort: int32(80 + (i+j)%2), Protocol: corev1.ProtocolSCTP},
					},
				}}},
			})
		}
	}
	return namespaces, pods
}

// Policy makes one at random; blocks are the CIDRs and exceptions to choose from.
func Policy(r *rand.Rand, name string, blocks []networkingv1.IPBlock) *networkingv1.NetworkPolicy {
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(r, Namespaces()), Name: name},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: selector(r, "pod", PodNames())},
	}
	types := [][]networkingv1.PolicyType{{"Ingress"}, {"Egress"}, {"Ingress", "Egress"}, nil}
	policy.Spec.PolicyTypes = pick(r, types)
	if r.IntN(4) > 0 {
		for range r.IntN(3) {
			policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: peers(r, blocks), Ports: ports(r)})
		}
	}
	if r.IntN(4) > 0 {
		for range r.IntN(3) {
			policy.Spec.Egress = append(policy.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: peers(r, blocks), Ports: ports(r)})
		}
	}
	return policy
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func selector(r *rand.Rand, key string, values []string) metav1.LabelSelector {
	switch r.IntN(4) {
	case 0:
		return metav1.LabelSelector{}
	case 1:
		return metav1.LabelSelector{MatchLabels: map[string]string{key: pick(r, values)}}
	case 2:
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: key, Operator: pick(r, []metav1.LabelSelectorOperator{"In", "NotIn"}), Values: []string{pick(r, values), pick(r, values)}},
		}}
	}
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: pick(r, []string{key, "absent"}), Operator: pick(r, []metav1.LabelSelectorOperator{"Exists", "DoesNotExist"})},
	}}
}

func peers(r *rand.Rand, blocks []networkingv1.IPBlock) (all []networkingv1.NetworkPolicyPeer) {
	for range r.IntN(3) {
		var peer networkingv1.NetworkPolicyPeer
		if kind := r.IntN(4); kind == 3 && len(blocks) > 0 {
			block := pick(r, blocks)
			peer.IPBlock = &block
		} else {
			if kind != 0 {
				s := selector(r, "ns", Namespaces())
				peer.NamespaceSelector = &s
			}
			if kind != 1 {
				s := selector(r, "pod", PodNames())
				peer.PodSelector = &s
			}
		}
		all = append(all, peer)
	}
	return all
}

func ports(r *rand.Rand) (all []networkingv1.NetworkPolicyPort) {
	for range r.IntN(3) {
		port := networkingv1.NetworkPolicyPort{}
		if r.IntN(3) > 0 {
			protocol := pick(r, Protocols())
			port.Protocol = &protocol
		}
		switch r.IntN(4) {
		case 0:
			number := intstr.FromInt32(int32(80 + r.IntN(2)))
			port.Port = &number
		case 1:
			number, end := intstr.FromInt32(int32(79+r.IntN(2))), int32(80+r.IntN(2))
			port.Port, port.EndPort = &number, &end
		case 2:
			name := intstr.FromString(pick(r, []string{"serve", "serve-udp", "serve-sctp", "nowhere"}))
			port.Port = &name
		}
		all = append(all, port)
	}
	return all
}
