// Package policytest says by the definition of the API, and by nothing else,
// which traffic network policies allow. Tests compare with it what rules and
// packets do. It shares no code with what it judges: it reads the objects, and is
// as slow and plain as the API's text.
package policytest

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// World is what the API holds.
type World struct {
	Namespaces []*corev1.Namespace
	Pods       []*corev1.Pod
	Policies   []*networkingv1.NetworkPolicy
	Cluster    []ClusterPolicy
}

// Peer is one end of a connection: a pod, or an address that is none's.
type Peer struct {
	Pod  *corev1.Pod
	Addr netip.Addr
}

// Target is what a connection is made to.
type Target struct {
	Peer
	Protocol corev1.Protocol
	Port     int32
}

// Allows says whether from may connect to target.
func (w World) Allows(from Peer, to Target) bool {
	if from.Pod != nil && from.Pod == to.Pod {
		return true
	}
	return w.allowed(networkingv1.PolicyTypeEgress, from.Pod, to.Peer, to) &&
		w.allowed(networkingv1.PolicyTypeIngress, to.Pod, from, to)
}

// allowed judges one direction: pod is the one whose policies count.
func (w World) allowed(direction networkingv1.PolicyType, pod *corev1.Pod, peer Peer, to Target) bool {
	if pod == nil {
		return true
	}
	ingress := direction == networkingv1.PolicyTypeIngress
	if verdict := w.judge(false, ingress, pod, peer, to); verdict != "" {
		return verdict == "Allow"
	}
	isolated := false
	for _, policy := range w.Policies {
		if policy.Namespace != pod.Namespace || !matches(policy.Spec.PodSelector, pod.Labels) || !has(policy, direction) {
			continue
		}
		isolated = true
		if direction == networkingv1.PolicyTypeIngress {
			for _, rule := range policy.Spec.Ingress {
				if w.anyPeer(policy.Namespace, rule.From, peer) && anyPort(rule.Ports, to) {
					return true
				}
			}
			continue
		}
		for _, rule := range policy.Spec.Egress {
			if w.anyPeer(policy.Namespace, rule.To, peer) && anyPort(rule.Ports, to) {
				return true
			}
		}
	}
	return !isolated && w.judge(true, ingress, pod, peer, to) != "Deny"
}

func has(policy *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) bool {
	if policy.Spec.PolicyTypes != nil {
		return slices.Contains(policy.Spec.PolicyTypes, direction)
	}
	return direction == networkingv1.PolicyTypeIngress || policy.Spec.Egress != nil
}

func (w World) anyPeer(namespace string, peers []networkingv1.NetworkPolicyPeer, with Peer) bool {
	if len(peers) == 0 {
		return true
	}
	return slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			return inBlock(p.IPBlock, with.Addr)
		}
		if with.Pod == nil {
			return false
		}
		if p.NamespaceSelector == nil && with.Pod.Namespace != namespace {
			return false
		}
		if p.NamespaceSelector != nil && !matches(*p.NamespaceSelector, w.labelsOf(with.Pod.Namespace)) {
			return false
		}
		return p.PodSelector == nil || matches(*p.PodSelector, with.Pod.Labels)
	})
}

func inBlock(block *networkingv1.IPBlock, addr netip.Addr) bool {
	if !netip.MustParsePrefix(block.CIDR).Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(block.Except, func(e string) bool { return netip.MustParsePrefix(e).Contains(addr) })
}

func anyPort(ports []networkingv1.NetworkPolicyPort, to Target) bool {
	if len(ports) == 0 {
		return true
	}
	return slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		switch {
		case protocol != to.Protocol:
			return false
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			return to.Pod != nil && to.Port == numberOf(to.Pod, p.Port.StrVal, protocol)
		case p.EndPort != nil:
			return p.Port.IntVal <= to.Port && to.Port <= *p.EndPort
		}
		return p.Port.IntVal == to.Port
	})
}

func numberOf(pod *corev1.Pod, name string, protocol corev1.Protocol) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name && (port.Protocol == protocol || port.Protocol == "" && protocol == corev1.ProtocolTCP) {
				return port.ContainerPort
			}
		}
	}
	return -1
}

func (w World) labelsOf(namespace string) map[string]string {
	for _, ns := range w.Namespaces {
		if ns.Name == namespace {
			return ns.Labels
		}
	}
	return nil
}

func matches(selector metav1.LabelSelector, set map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(&selector)
	return err == nil && s.Matches(labels.Set(set))
}
