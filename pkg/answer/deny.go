package answer

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

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

func (d *DefaultDeny) print(p *Page) {
	if d == nil {
		return
	}
	verb := "select"
	if len(d.Policies) == 1 {
		verb = "selects"
	}
	p.Line("no rule allows it: %s %s %s for %s", strings.Join(d.Policies, ", "), verb, d.Pod, d.Direction)
}
