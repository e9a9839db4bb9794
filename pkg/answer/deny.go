package answer

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// DefaultDeny says that policies select a pod, and no rule of them allows a packet: NetworkPolicies have no rules that deny.
type DefaultDeny struct {
	Pod string `json:"pod"`
	// Direction is ingress or egress.
	Direction string `json:"direction"`
	// Policies are all NetworkPolicies that select the pod in the direction.
	Policies []string `json:"policies"`
	// Allow is a command that would add a rule for such packets to the first of them; "": it is not known which rule.
	Allow string `json:"allow,omitempty"`
}

// defaultDeny finds the policies of the pod whose packets a NetworkPolicy drops; nil: another thing drops them, or the pod is not
// known, such as an endpoint of a service.
func defaultDeny(s *snapshot.Snapshot, c trace.Connection, last trace.Step) (*DefaultDeny, error) {
	direction, ok := strings.CutSuffix(last.What, " policy: drop")
	if !ok || !strings.HasPrefix(last.Object, "NetworkPolicy/") {
		return nil, nil
	}
	d := &DefaultDeny{Pod: c.To, Direction: direction}
	if direction == "egress" {
		d.Pod = c.From
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return "pod/"+p.Namespace+"/"+p.Name == d.Pod })
	if at < 0 {
		return nil, nil
	}
	policies, err := snapshot.Objects[networkingv1.NetworkPolicy](s, snapshot.NetworkPolicies)
	if err != nil {
		return nil, err
	}
	for i := range policies {
		n, err := Selected(&policies[i], pods[at:at+1])
		if err != nil {
			return nil, err
		}
		if n != nil && *n == 1 && judges(&policies[i], direction) {
			d.Policies = append(d.Policies, "netpol/"+policies[i].Namespace+"/"+policies[i].Name)
			if d.Allow == "" {
				d.Allow = d.allow(&policies[i], pods, c)
			}
		}
	}
	if len(d.Policies) == 0 { // they could not be read, or have changed meanwhile
		return nil, nil
	}
	return d, nil
}

// judges says whether a policy is about a direction. One without types is about ingress, and about egress if it has such rules.
func judges(p *networkingv1.NetworkPolicy, direction string) bool {
	if len(p.Spec.PolicyTypes) == 0 {
		return direction == "ingress" || len(p.Spec.Egress) > 0
	}
	return slices.ContainsFunc(p.Spec.PolicyTypes, func(t networkingv1.PolicyType) bool { return strings.EqualFold(string(t), direction) })
}

func (d *DefaultDeny) print(p *Page, indent string) {
	if d == nil {
		return
	}
	verb := "select"
	if len(d.Policies) == 1 {
		verb = "selects"
	}
	p.Line("%sno rule allows it: %s %s %s for %s", indent, strings.Join(d.Policies, ", "), verb, d.Pod, d.Direction)
	if d.Allow != "" {
		p.Line("%sa rule that would allow it: %s", indent, d.Allow)
	}
}

// DeniedIn are the namespaces of the NetworkPolicies at which legs end.
func (l *Live) DeniedIn() (namespaces []string) {
	for _, leg := range l.Legs {
		policy, _ := strings.CutPrefix(leg.denial().Object, "NetworkPolicy/")
		if namespace, _, _ := strings.Cut(policy, "/"); namespace != "" && !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

// AddPolicies adds to the legs that end at a NetworkPolicy all policies without a rule that allows their packets.
func (l *Live) AddPolicies(s *snapshot.Snapshot) (err error) {
	for i := range l.Legs {
		leg := &l.Legs[i]
		between := trace.Connection{From: l.From, To: l.To}
		if leg.Back {
			between.From, between.To = l.To, l.From
		}
		if port, err := strconv.ParseUint(leg.Port, 10, 16); err == nil && !leg.Back && leg.Via == "" { // that of a service is not the pod's
			between.Protocol, between.Target = leg.Protocol, netip.AddrPortFrom(netip.Addr{}, uint16(port))
		}
		between.From, between.To = podAmong(leg.From, between.From), podAmong(leg.Via, leg.To, between.To)
		if leg.Deny, err = defaultDeny(s, between, leg.denial()); err != nil {
			return err
		}
	}
	if why, ok := s.Missing[snapshot.NetworkPolicies]; ok && len(l.DeniedIn()) > 0 {
		if line := fmt.Sprintf("%s: %s", snapshot.NetworkPolicies, why); !slices.Contains(l.Missing, line) {
			l.missed([]string{line})
		}
	}
	return nil
}

// denial is the decision of a NetworkPolicy that ends a leg. It has no words if another thing does, or the leg goes on.
func (l Leg) denial() (last trace.Step) {
	if !l.Drops || len(l.Parts) == 0 {
		return last
	}
	for _, step := range l.Parts[len(l.Parts)-1].Steps {
		by := slices.IndexFunc(step.Objects, func(o string) bool { return strings.HasPrefix(o, "NetworkPolicy/") })
		if flownames.IsDrop(step.What) && by >= 0 {
			last = trace.Step{Where: l.Node, What: step.What, Object: step.Objects[by]}
		}
	}
	return last
}

// podAmong is the first name of a pod. A flow that matches a network has none.
func podAmong(names ...string) string {
	isPod := func(name string) bool { return strings.HasPrefix(name, "pod/") }
	if i := slices.IndexFunc(names, isPod); i >= 0 {
		return names[i]
	}
	return ""
}
