package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// Policies are those of some namespaces, with the packets that they decide about now.
type Policies struct {
	Namespaces []string `json:"namespaces"`
	// Named: it is known which policy decides about which packets. Without it, the numbers of each are not known.
	Named    bool     `json:"named"`
	Policies []Policy `json:"policies"`
}

// Policy is one of them.
type Policy struct {
	// Policy is the name as kubectl has it, such as netpol/shop/deny.
	Policy string `json:"policy"`
	// Types are Ingress and Egress.
	Types []string `json:"types,omitempty"`
	// Pods are those that it selects; absent if that is not known.
	Pods    *int   `json:"pods,omitempty"`
	Streams int    `json:"streams"`
	Packets uint64 `json:"packets"`
	Dropped uint64 `json:"dropped"`
	// Hardware is the share of the packets that are not dropped in hardware, in percent.
	Hardware *int `json:"hardware,omitempty"`
	// Nothing: it decides about no packet now.
	Nothing bool `json:"nothing,omitempty"`
	// Command gives its streams.
	Command string `json:"command,omitempty"`
}

func policiesView(ctx context.Context, f Facts, q url.Values) (*View, error) {
	t, err := readTraffic(ctx, f, q, snapshot.Pods, snapshot.NetworkPolicies)
	if err != nil {
		return nil, err
	}
	p, err := newPolicies(t.objects, t.streams, t.namespaces)
	if err != nil {
		return nil, err
	}
	return t.view(p), nil
}

// newPolicies has the NetworkPolicies of the namespaces, and others that decide about their packets.
func newPolicies(s *snapshot.Snapshot, list *StreamList, namespaces []string) (*Policies, error) {
	all, err := snapshot.Objects[networkingv1.NetworkPolicy](s, snapshot.NetworkPolicies)
	if err != nil {
		return nil, err
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	out := &Policies{Namespaces: namespaces, Named: list.Named, Policies: []Policy{}}
	for i := range all {
		policy := &all[i]
		if !slices.Contains(namespaces, policy.Namespace) {
			continue
		}
		p := Policy{Policy: "netpol/" + policy.Namespace + "/" + policy.Name, Command: fmt.Sprintf("kubectl offload explain netpol/%s -n %s", policy.Name, policy.Namespace)}
		for _, t := range policy.Spec.PolicyTypes {
			p.Types = append(p.Types, string(t))
		}
		if p.Pods, err = answer.Selected(policy, pods); err != nil {
			return nil, err
		}
		out.Policies = append(out.Policies, p)
	}
	out.decide(list.Streams)
	for i := range out.Policies {
		out.Policies[i].Nothing = list.Named && out.Policies[i].Streams == 0
	}
	slices.SortFunc(out.Policies, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(b.Dropped, a.Dropped), cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Policy, b.Policy))
	})
	return out, nil
}

// decide adds what each policy decides about.
func (p *Policies) decide(list []streams.Stream) {
	of := map[string][]streams.Stream{}
	for _, s := range list {
		for _, owner := range s.DecidedBy {
			if kind, _, _ := strings.Cut(owner, "/"); selected.IsPolicy(kind) {
				of[answer.Object(owner)] = append(of[answer.Object(owner)], s)
			}
		}
	}
	for name := range of {
		if !slices.ContainsFunc(p.Policies, func(known Policy) bool { return known.Policy == name }) {
			p.Policies = append(p.Policies, Policy{Policy: name})
		}
	}
	for i := range p.Policies {
		policy := &p.Policies[i]
		var passed []streams.Stream
		for _, s := range of[policy.Policy] {
			policy.Streams++
			if s.Drops {
				policy.Dropped += s.Packets
			} else {
				passed = append(passed, s)
			}
		}
		share := streams.Share(passed)
		policy.Packets = share.Sum().Packets + policy.Dropped
		policy.Hardware = percentOf(share)
	}
}
