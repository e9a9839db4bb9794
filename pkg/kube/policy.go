package kube

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Policy is a network policy of any API, parsed. Its rules are in the order in
// which they count.
type Policy struct {
	Owner   Owner
	Subject *PodSet
	Tier    Tier
	// Priority is 0 (first) to BaselineDefault; a NetworkPolicy has none.
	Priority int
	// Logging is the value of ACLLoggingKey on the object; a NetworkPolicy's is on
	// its namespace.
	Logging string
	// Ingress and Egress are nil where the policy says nothing of a direction.
	Ingress, Egress *Direction
	// Err says what is wrong with the object. What is wrong selects nothing.
	Err error
}

// Direction is one direction of a policy: that a NetworkPolicy has it isolates its pods.
type Direction struct{ Rules []Rule }

// Rule is about traffic of the subject with its peers on its ports.
type Rule struct {
	Action Action
	// Step counts the changes of the action before this rule of its direction.
	Step int
	// AnyPeer makes Peers and Networks meaningless.
	AnyPeer  bool
	Peers    []*PodSet
	Networks []netip.Prefix
	Nodes    []labels.Selector
	// AnyPort makes Ports meaningless.
	AnyPort bool
	Ports   []Port
}

// Port is a range of port numbers, or the pods with a named port.
type Port struct {
	Protocol    corev1.Protocol
	First, Last uint16
	Named       []*PodSet
}

// Sets are the sets of pods that the policy's rules need.
func (p *Policy) Sets() []*PodSet {
	var sets []*PodSet
	for _, direction := range []*Direction{p.Ingress, p.Egress} {
		if direction == nil {
			continue
		}
		for _, rule := range direction.Rules {
			sets = append(sets, rule.Peers...)
			for _, port := range rule.Ports {
				sets = append(sets, port.Named...)
			}
		}
	}
	return sets
}

// ParseNetworkPolicy never fails as a whole: a policy with a bad rule still
// isolates, and allows what its other rules say.
func ParseNetworkPolicy(np *networkingv1.NetworkPolicy) *Policy {
	p := &parser{namespace: np.Namespace}
	policy := &Policy{Owner: NetworkPolicyOwner(np.Namespace, np.Name), Tier: TierNetworkPolicy}
	policy.Subject = newPodSet(PodSet{Namespace: np.Namespace, Pods: p.selector("spec.podSelector", &np.Spec.PodSelector)})
	ingress, egress := directions(np)
	if ingress {
		policy.Ingress = &Direction{}
		for i, r := range np.Spec.Ingress {
			p.path = fmt.Sprintf("spec.ingress[%d]", i)
			policy.Ingress.Rules = append(policy.Ingress.Rules, p.rule(r.From, r.Ports, policy.Subject))
		}
	}
	if egress {
		policy.Egress = &Direction{}
		for i, r := range np.Spec.Egress {
			p.path = fmt.Sprintf("spec.egress[%d]", i)
			policy.Egress.Rules = append(policy.Egress.Rules, p.rule(r.To, r.Ports, nil))
		}
	}
	policy.Err = errors.Join(p.errs...)
	return policy
}

// directions follows the API's default: ingress always, egress where it has rules.
func directions(np *networkingv1.NetworkPolicy) (ingress, egress bool) {
	if len(np.Spec.PolicyTypes) == 0 {
		return true, len(np.Spec.Egress) > 0
	}
	return slices.Contains(np.Spec.PolicyTypes, networkingv1.PolicyTypeIngress),
		slices.Contains(np.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

// parser collects what is wrong in one policy.
type parser struct {
	namespace, path string
	errs            []error
}

func (p *parser) fail(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: "+format, append([]any{p.path}, args...)...))
}

func (p *parser) selector(field string, s *metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		p.fail("%s: %w", field, err)
		return labels.Nothing()
	}
	return selector
}

// rule reads one rule; destination is the subject of an ingress rule: the pods
// for which a named port is looked up. In an egress rule these are the peers.
func (p *parser) rule(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, destination *PodSet) Rule {
	rule := Rule{AnyPeer: len(peers) == 0, AnyPort: len(ports) == 0}
	for _, peer := range peers {
		if peer.IPBlock != nil {
			rule.Networks = append(rule.Networks, p.block(peer.IPBlock)...)
		} else {
			rule.Peers = append(rule.Peers, p.peer(peer))
		}
	}
	for _, port := range ports {
		rule.Ports = append(rule.Ports, p.port(port, rule, destination)...)
	}
	return rule
}

func (p *parser) peer(peer networkingv1.NetworkPolicyPeer) *PodSet {
	set := PodSet{Namespace: p.namespace, Pods: labels.Everything()}
	if peer.NamespaceSelector != nil {
		set.Namespace, set.Namespaces = "", p.selector("namespaceSelector", peer.NamespaceSelector)
	}
	if peer.PodSelector != nil {
		set.Pods = p.selector("podSelector", peer.PodSelector)
	}
	return newPodSet(set)
}

func (p *parser) block(block *networkingv1.IPBlock) []netip.Prefix {
	cidr, err := netip.ParsePrefix(block.CIDR)
	if err != nil {
		p.fail("ipBlock: %w", err)
		return nil
	}
	rest := []netip.Prefix{cidr.Masked()}
	for _, text := range block.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil { // an exception that is lost would open what it closes
			p.fail("ipBlock.except: %w", err)
			return nil
		}
		var left []netip.Prefix
		for _, prefix := range rest {
			left = append(left, subtract(prefix, except.Masked())...)
		}
		rest = left
	}
	return rest
}

// subtract gives the prefixes that make up from without what.
func subtract(from, what netip.Prefix) []netip.Prefix {
	if !from.Overlaps(what) {
		return []netip.Prefix{from}
	}
	var rest []netip.Prefix
	for bits := from.Bits() + 1; bits <= what.Bits(); bits++ {
		inside := netip.PrefixFrom(what.Addr(), bits).Masked()
		rest = append(rest, sibling(inside))
	}
	return rest
}

// sibling is the other half of the prefix that is one bit shorter.
func sibling(p netip.Prefix) netip.Prefix {
	bytes := p.Addr().AsSlice()
	last := p.Bits() - 1
	bytes[last/8] ^= 0x80 >> (last % 8)
	addr, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, p.Bits())
}

func (p *parser) port(port networkingv1.NetworkPolicyPort, rule Rule, destination *PodSet) []Port {
	protocol := corev1.ProtocolTCP
	if port.Protocol != nil {
		protocol = *port.Protocol
	}
	if !slices.Contains(protocols(), protocol) {
		p.fail("protocol %q", protocol)
		return nil
	}
	switch {
	case port.Port == nil:
		return []Port{{Protocol: protocol, First: 0, Last: 65535}}
	case port.Port.Type == intstr.String:
		return []Port{{Protocol: protocol, Named: named(PortName{protocol, port.Port.StrVal}, rule, destination)}}
	}
	first, last := port.Port.IntVal, port.Port.IntVal
	if port.EndPort != nil {
		last = *port.EndPort
	}
	return p.numbered(protocol, first, last)
}

func (p *parser) numbered(protocol corev1.Protocol, first, last int32) []Port {
	if !slices.Contains(protocols(), protocol) {
		p.fail("protocol %q", protocol)
		return nil
	}
	if first < 1 || last > 65535 || last < first {
		p.fail("ports %d to %d", first, last)
		return nil
	}
	return []Port{{Protocol: protocol, First: uint16(first), Last: uint16(last)}}
}

// named are the pods for which a named port is looked up.
func named(port PortName, rule Rule, destination *PodSet) []*PodSet {
	if destination != nil {
		return []*PodSet{destination.withPort(port, nil)}
	}
	everyone := newPodSet(PodSet{Pods: labels.Everything()})
	if rule.AnyPeer {
		return []*PodSet{everyone.withPort(port, nil)}
	}
	var sets []*PodSet
	for _, peer := range rule.Peers {
		sets = append(sets, peer.withPort(port, nil))
	}
	if len(rule.Networks) > 0 {
		sets = append(sets, everyone.withPort(port, rule.Networks))
	}
	return sets
}

// Unmatched names the namespace selectors of the policy that select no namespace
// now: most often a label that was forgotten.
func (p *Policy) Unmatched(selectsAny func(labels.Selector) bool) string {
	var texts []string
	for _, set := range p.Sets() {
		text := selectorKey(set.Namespaces)
		if set.Namespace == "" && set.Port.Name == "" && !slices.Contains(texts, text) && !selectsAny(set.Namespaces) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}
