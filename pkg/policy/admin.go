package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// AdminKinds are the kinds of policies for the whole cluster, with their resources.
func AdminKinds() map[string]schema.GroupVersionResource {
	const group = "policy.networking.k8s.io"
	return map[string]schema.GroupVersionResource{
		contract.KindAdminNetworkPolicy:         {Group: group, Version: "v1alpha1", Resource: "adminnetworkpolicies"},
		contract.KindBaselineAdminNetworkPolicy: {Group: group, Version: "v1alpha1", Resource: "baselineadminnetworkpolicies"},
		contract.KindClusterNetworkPolicy:       {Group: group, Version: "v1alpha2", Resource: "clusternetworkpolicies"},
	}
}

// Tier says before or after which other policies a policy counts.
type Tier int

// The tiers, in their order. Of NetworkPolicies the rules have no order.
const (
	TierAdmin Tier = iota
	TierNetworkPolicy
	TierBaseline
)

// Action is what a rule does with what it matches.
type Action int

// The actions; a NetworkPolicy's rules allow.
const (
	Allow Action = iota
	Deny
	Pass
)

// MaxPriority is the last priority of a policy; BaselineDefault comes after it.
const (
	MaxPriority     = 1000
	BaselineDefault = MaxPriority + 1
)

// maxSteps is how often the action may change from one rule of a direction to the
// next: rules between two changes have no order among themselves, and share one
// of the priorities that OVN has for the policy.
const maxSteps = 32

// adminSpec has the fields of all three kinds.
type adminSpec struct {
	Tier     string      `json:"tier"`
	Priority int32       `json:"priority"`
	Subject  adminPeer   `json:"subject"`
	Ingress  []adminRule `json:"ingress"`
	Egress   []adminRule `json:"egress"`
}

type adminRule struct {
	Action    string          `json:"action"`
	From      []adminPeer     `json:"from"`
	To        []adminPeer     `json:"to"`
	Ports     []adminPort     `json:"ports"`     // v1alpha1
	Protocols []adminProtocol `json:"protocols"` // v1alpha2
}

type adminPeer struct {
	Namespaces *metav1.LabelSelector `json:"namespaces"`
	Pods       *struct {
		NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
		PodSelector       metav1.LabelSelector `json:"podSelector"`
	} `json:"pods"`
	Nodes       *metav1.LabelSelector `json:"nodes"`
	Networks    []string              `json:"networks"`
	DomainNames []string              `json:"domainNames"`
}

type adminPort struct {
	PortNumber *struct {
		Protocol corev1.Protocol `json:"protocol"`
		Port     int32           `json:"port"`
	} `json:"portNumber"`
	NamedPort *string `json:"namedPort"`
	PortRange *struct {
		Protocol corev1.Protocol `json:"protocol"`
		Start    int32           `json:"start"`
		End      int32           `json:"end"`
	} `json:"portRange"`
}

type adminProtocol struct {
	TCP                  *adminDestination `json:"tcp"`
	UDP                  *adminDestination `json:"udp"`
	SCTP                 *adminDestination `json:"sctp"`
	DestinationNamedPort string            `json:"destinationNamedPort"`
}

type adminDestination struct {
	DestinationPort *struct {
		Number int32 `json:"number"`
		Range  *struct {
			Start int32 `json:"start"`
			End   int32 `json:"end"`
		} `json:"range"`
	} `json:"destinationPort"`
}

// ParseAdmin never fails as a whole. As the API wants it, a part that is not
// understood makes a rule that allows allow nothing, and a rule that denies or
// passes deny everything.
func ParseAdmin(kind string, object *unstructured.Unstructured) *Policy {
	policy := &Policy{Owner: contract.Owner{Kind: kind, Name: object.GetName()}, Tier: TierAdmin, Logging: object.GetAnnotations()[contract.ACLLoggingKey]}
	var whole struct {
		Spec adminSpec `json:"spec"`
	}
	p := &parser{path: "spec"}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &whole); err != nil {
		p.fail("%w", err)
	}
	spec := whole.Spec
	if kind == contract.KindBaselineAdminNetworkPolicy {
		policy.Tier, spec.Priority = TierBaseline, BaselineDefault
	} else if spec.Tier == "Baseline" {
		policy.Tier = TierBaseline
	}
	if spec.Priority < 0 || spec.Priority > BaselineDefault {
		p.fail("priority %d is not 0 to %d", spec.Priority, MaxPriority)
		spec.Priority = MaxPriority
	}
	policy.Priority = int(spec.Priority)
	policy.Subject = p.adminSubject(spec.Subject)
	policy.Ingress = p.adminDirection("ingress", spec.Ingress, newPodSet([]Selection{policy.Subject}, PortName{}, nil))
	policy.Egress = p.adminDirection("egress", spec.Egress, nil)
	policy.Err = errors.Join(p.errs...)
	policy.collect()
	return policy
}

func (p *parser) adminSubject(subject adminPeer) Selection {
	if selection := p.adminPods(subject); selection != nil {
		return *selection
	}
	p.fail("subject has neither namespaces nor pods")
	return Selection{Namespaces: labels.Nothing(), Pods: labels.Nothing()}
}

// adminPods is nil for another kind of peer, and for a selector that is wrong.
func (p *parser) adminPods(peer adminPeer) *Selection {
	before := len(p.errs)
	s := Selection{Pods: labels.Everything()}
	switch {
	case peer.Namespaces != nil:
		s.Namespaces = p.selector("namespaces", peer.Namespaces)
	case peer.Pods != nil:
		s.Namespaces = p.selector("pods.namespaceSelector", &peer.Pods.NamespaceSelector)
		s.Pods = p.selector("pods.podSelector", &peer.Pods.PodSelector)
	default:
		return nil
	}
	if len(p.errs) > before {
		return nil
	}
	return &s
}

func (p *parser) adminDirection(name string, rules []adminRule, destination *PodSet) *Direction {
	if len(rules) == 0 {
		return nil
	}
	direction := &Direction{}
	step := 0
	for i, r := range rules {
		p.path = fmt.Sprintf("spec.%s[%d]", name, i)
		rule := p.adminRule(r, destination)
		if i > 0 && rule.Action != direction.Rules[i-1].Action {
			step++
		}
		if step == maxSteps-1 && i < len(rules)-1 {
			p.fail("the action changes for the %dth time: from here on everything is denied", step)
			rule = Rule{Action: Deny, AnyPeer: true, AnyPort: true}
		}
		rule.Step = step
		direction.Rules = append(direction.Rules, rule)
		if step == maxSteps-1 {
			break
		}
	}
	return direction
}

func (p *parser) adminRule(r adminRule, destination *PodSet) Rule {
	before := len(p.errs)
	rule := Rule{AnyPort: len(r.Ports)+len(r.Protocols) == 0}
	switch r.Action {
	case "Allow", "Accept":
		rule.Action = Allow
	case "Pass":
		rule.Action = Pass
	case "Deny":
		rule.Action = Deny
	default:
		p.fail("action %q", r.Action)
		rule.Action = Deny // it may be one that forbids
	}
	var peers adminPeers
	for _, peer := range slices.Concat(r.From, r.To) {
		p.adminPeer(peer, &peers)
	}
	rule.Nodes = peers.nodes
	rule.selectPods(peers.pods)
	if len(peers.networks) > 0 {
		rule.Networks = listedNetworks(peers.networks)
	}
	for _, port := range r.Ports {
		rule.Ports = append(rule.Ports, p.adminPort(port, rule, destination)...)
	}
	for _, protocol := range r.Protocols {
		rule.Ports = append(rule.Ports, p.adminProtocol(protocol, rule, destination)...)
	}
	if len(p.errs) > before && rule.Action != Allow {
		return Rule{Action: Deny, AnyPeer: true, AnyPort: true}
	}
	return rule
}

// adminPeers are the peers of a rule by their kind.
type adminPeers struct {
	pods     []Selection
	nodes    []labels.Selector
	networks []netip.Prefix
}

func (p *parser) adminPeer(peer adminPeer, to *adminPeers) {
	before := len(p.errs)
	if selection := p.adminPods(peer); selection != nil {
		to.pods = append(to.pods, *selection)
		return
	}
	switch {
	case len(p.errs) > before:
	case peer.Nodes != nil:
		to.nodes = append(to.nodes, p.selector("nodes", peer.Nodes))
	case len(peer.Networks) > 0:
		for _, text := range peer.Networks {
			network, err := parseNetwork(text)
			if err != nil {
				p.fail("networks: %w", err)
				continue
			}
			to.networks = append(to.networks, network)
		}
	case len(peer.DomainNames) > 0:
		p.fail("domainNames are not supported")
	default:
		p.fail("a peer of a kind that is not known")
	}
}

func (p *parser) adminPort(port adminPort, rule Rule, destination *PodSet) []Port {
	switch {
	case port.PortNumber != nil:
		return p.numbered(port.PortNumber.Protocol, port.PortNumber.Port, port.PortNumber.Port)
	case port.PortRange != nil:
		return p.numbered(port.PortRange.Protocol, port.PortRange.Start, port.PortRange.End)
	case port.NamedPort != nil:
		return anyNamed(*port.NamedPort, rule, destination)
	}
	p.fail("a port of a kind that is not known")
	return nil
}

func (p *parser) adminProtocol(protocol adminProtocol, rule Rule, destination *PodSet) []Port {
	for name, to := range map[corev1.Protocol]*adminDestination{
		corev1.ProtocolTCP: protocol.TCP, corev1.ProtocolUDP: protocol.UDP, corev1.ProtocolSCTP: protocol.SCTP,
	} {
		switch {
		case to == nil:
		case to.DestinationPort == nil:
			return []Port{{Protocol: name, First: 0, Last: 65535}}
		case to.DestinationPort.Range != nil:
			return p.numbered(name, to.DestinationPort.Range.Start, to.DestinationPort.Range.End)
		default:
			return p.numbered(name, to.DestinationPort.Number, to.DestinationPort.Number)
		}
	}
	if protocol.DestinationNamedPort != "" {
		return anyNamed(protocol.DestinationNamedPort, rule, destination)
	}
	p.fail("a protocol of a kind that is not known")
	return nil
}

// anyNamed looks a port up by its name alone: its protocol is the container's.
func anyNamed(name string, rule Rule, destination *PodSet) (all []Port) {
	for _, protocol := range protocols() {
		all = append(all, Port{Protocol: protocol, Named: named(PortName{protocol, name}, rule, destination)})
	}
	return all
}

func protocols() []corev1.Protocol {
	return []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
}
