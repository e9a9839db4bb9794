package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Policy is a network policy of any API, parsed. Its rules are in the order in
// which they count.
type Policy struct {
	Owner   contract.Owner
	Subject Selection
	Tier    Tier
	// Priority is 0 (first) to BaselineDefault; a NetworkPolicy has none.
	Priority int
	// Logging is the value of ACLLoggingKey on the object; a NetworkPolicy's is on
	// its namespace.
	Logging string
	// Ingress and Egress are nil where the policy says nothing of a direction.
	Ingress, Egress *Direction
	// Err says what is wrong with the object. What is wrong selects nothing. What is
	// wrong with networks, Networks.Prefixes says.
	Err error

	sets []*PodSet
}

// Direction is one direction of a policy: that a NetworkPolicy has it isolates its pods.
type Direction struct{ Rules []Rule }

// Rule is about traffic of the subject with its peers on its ports.
type Rule struct {
	Action Action
	// Step counts the changes of the action before this rule of its direction.
	Step int
	// AnyPeer makes the other peers meaningless.
	AnyPeer bool
	// EveryPod says that all pods of the cluster are peers; then Peers is nil.
	EveryPod bool
	// Peers are the pods of all peers with labels, nil where there are none.
	Peers    *PodSet
	Networks *Networks
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

// Sets are the sets of pods that the policy's rules need, in the order of the rules.
func (p *Policy) Sets() []*PodSet { return p.sets }

// collect notes the sets, each once.
func (p *Policy) collect() {
	seen := map[contract.Owner]bool{}
	add := func(set *PodSet) {
		if set != nil && !seen[set.Owner()] {
			seen[set.Owner()] = true
			p.sets = append(p.sets, set)
		}
	}
	for _, direction := range []*Direction{p.Ingress, p.Egress} {
		if direction == nil {
			continue
		}
		for _, rule := range direction.Rules {
			add(rule.Peers)
			for _, port := range rule.Ports {
				for _, set := range port.Named {
					add(set)
				}
			}
		}
	}
}

// ParseNetworkPolicy never fails as a whole: a policy with a bad rule still
// isolates, and allows what its other rules say.
func ParseNetworkPolicy(np *networkingv1.NetworkPolicy) *Policy {
	return parse(contract.NetworkPolicyOwner(np.Namespace, np.Name), np)
}

// ParseOn is ParseNetworkPolicy for a policy on a network beside the default one.
func ParseOn(network string, np *networkingv1.NetworkPolicy) *Policy {
	return parse(contract.NetworkPolicyOwner(np.Namespace, np.Name).On(network), np)
}

// parse reads a NetworkPolicy, or another object of the same form.
func parse(owner contract.Owner, np *networkingv1.NetworkPolicy) *Policy {
	p := &parser{namespace: np.Namespace, path: "spec"}
	policy := &Policy{Owner: owner, Tier: TierNetworkPolicy}
	policy.Subject = Selection{Namespace: np.Namespace, Pods: labels.Everything()}
	ingress, egress := directions(np)
	if ingress {
		policy.Ingress = &Direction{}
	}
	if egress {
		policy.Egress = &Direction{}
	}
	if n := terms(&np.Spec.PodSelector); n > MaxTerms {
		p.fail("podSelector: %w: %d values of %d: the policy selects every pod of the namespace and allows nothing", ErrOverLimit, n, MaxTerms)
		policy.Err = errors.Join(p.errs...)
		return policy
	}
	policy.Subject.Pods = p.selector("spec.podSelector", &np.Spec.PodSelector)
	subject := newPodSet([]Selection{policy.Subject}, PortName{}, nil)
	for i := range np.Spec.Ingress {
		r := &np.Spec.Ingress[i]
		if ingress && p.begin("spec.ingress", i) {
			policy.Ingress.Rules = append(policy.Ingress.Rules, p.rule(r.From, r.Ports, subject))
		}
	}
	for i := range np.Spec.Egress {
		r := &np.Spec.Egress[i]
		if egress && p.begin("spec.egress", i) {
			policy.Egress.Rules = append(policy.Egress.Rules, p.rule(r.To, r.Ports, nil))
		}
	}
	policy.Err = errors.Join(p.errs...)
	if owner.Network != "" {
		policy.onFurther()
	}
	policy.collect()
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
	// Of the rules of a NetworkPolicy so far.
	rules int
	used  usage
}

// begin goes on to a rule, unless that is one too many.
func (p *parser) begin(direction string, i int) bool {
	p.path = fmt.Sprintf("%s[%d]", direction, i)
	if p.rules++; p.rules == MaxRules+1 {
		p.fail("%w: a policy may have %d rules: this and those that follow allow nothing", ErrOverLimit, MaxRules)
	}
	return p.rules <= MaxRules
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

// rule reads one rule. Named ports are looked up in the destination: for an ingress rule this is the subject, for an
// egress rule the peers.
func (p *parser) rule(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, destination *PodSet) Rule {
	if err := p.used.add(peers, ports); err != nil {
		p.fail("%w", err)
		return Rule{}
	}
	rule := Rule{AnyPeer: len(peers) == 0, AnyPort: len(ports) == 0}
	var blocks []networkingv1.IPBlock
	var selections []Selection
	for _, peer := range peers {
		if peer.IPBlock != nil {
			blocks = append(blocks, *peer.IPBlock)
		} else {
			selections = append(selections, p.peer(peer))
		}
	}
	rule.selectPods(selections)
	if len(blocks) > 0 {
		rule.Networks = newNetworks(p.path, blocks)
	}
	for _, port := range ports {
		rule.Ports = append(rule.Ports, p.port(port, rule, destination)...)
	}
	return rule
}

// selectPods makes one set of all selections, or none if one of them selects every pod.
func (r *Rule) selectPods(selections []Selection) {
	r.EveryPod = slices.ContainsFunc(selections, Selection.isEveryPod)
	if !r.EveryPod && len(selections) > 0 {
		r.Peers = newPodSet(selections, PortName{}, nil)
	}
}

func (p *parser) peer(peer networkingv1.NetworkPolicyPeer) Selection {
	s := Selection{Namespace: p.namespace, Pods: labels.Everything()}
	if peer.NamespaceSelector != nil {
		s.Namespace, s.Namespaces = "", p.selector("namespaceSelector", peer.NamespaceSelector)
	}
	if peer.PodSelector != nil {
		s.Pods = p.selector("podSelector", peer.PodSelector)
	}
	return s
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
		return []*PodSet{newPodSet(destination.Of, port, nil)}
	}
	everyPod := []Selection{everyPod()}
	if rule.AnyPeer || rule.EveryPod {
		return []*PodSet{newPodSet(everyPod, port, nil)}
	}
	var sets []*PodSet
	if rule.Peers != nil {
		sets = append(sets, newPodSet(rule.Peers.Of, port, nil))
	}
	if rule.Networks != nil {
		sets = append(sets, newPodSet(everyPod, port, rule.Networks))
	}
	return sets
}

// Unmatched names the namespace selectors of the policy that select no namespace
// now: most often a label that was forgotten.
func (p *Policy) Unmatched(selectsAny func(labels.Selector) bool) string {
	var texts []string
	for _, set := range p.Sets() {
		if set.Port.Name != "" {
			continue
		}
		for _, s := range set.Of {
			if s.Namespace != "" {
				continue
			}
			text := selectorKey(s.Namespaces)
			if !slices.Contains(texts, text) && !selectsAny(s.Namespaces) {
				texts = append(texts, text)
			}
		}
	}
	return strings.Join(texts, "; ")
}
