package policytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ClusterPolicy is a policy for the whole cluster, of any of the three kinds.
type ClusterPolicy struct {
	Kind     string
	Name     string
	Baseline bool
	Priority int // no two of a tier have the same; BaselineAdminNetworkPolicy comes last
	Subject  metav1.LabelSelector
	Ingress  []ClusterRule
	Egress   []ClusterRule
}

// ClusterRule has one peer: the pods of some namespaces, or with To a network.
type ClusterRule struct {
	Action     string // Allow, Deny, Pass
	Namespaces metav1.LabelSelector
	To         string
	Port       int32 // 0: any
	Named      string
}

// judge gives the verdict of a tier for one direction: Allow, Deny, or "" for the next tier.
func (w World) judge(baseline, ingress bool, pod *corev1.Pod, peer Peer, to Target) string {
	policies := slices.Clone(w.Cluster)
	slices.SortFunc(policies, func(a, b ClusterPolicy) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, policy := range policies {
		if policy.Baseline != baseline || !matches(policy.Subject, w.labelsOf(pod.Namespace)) {
			continue
		}
		rules := policy.Egress
		if ingress {
			rules = policy.Ingress
		}
		for _, rule := range rules {
			if !w.applies(rule, peer, to) {
				continue
			}
			if rule.Action == "Pass" {
				return ""
			}
			return rule.Action
		}
	}
	return ""
}

func (w World) applies(rule ClusterRule, peer Peer, to Target) bool {
	switch {
	case rule.To != "":
		if !netip.MustParsePrefix(rule.To).Contains(peer.Addr) {
			return false
		}
	case peer.Pod == nil || !matches(rule.Namespaces, w.labelsOf(peer.Pod.Namespace)):
		return false
	}
	switch {
	case rule.Named != "":
		return to.Pod != nil && numberOf(to.Pod, rule.Named, to.Protocol) == to.Port
	case rule.Port != 0:
		return to.Protocol == corev1.ProtocolTCP && to.Port == rule.Port
	}
	return true
}

// RandomCluster makes a policy; the number makes its name and priority its own.
func RandomCluster(r *rand.Rand, number int) ClusterPolicy {
	p := ClusterPolicy{Kind: pick(r, []string{"AdminNetworkPolicy", "ClusterNetworkPolicy"}), Name: fmt.Sprint("cluster-", number), Priority: 100*r.IntN(10) + number}
	p.Baseline = p.Kind == "ClusterNetworkPolicy" && r.IntN(2) == 0
	if number == 0 {
		p = ClusterPolicy{Kind: "BaselineAdminNetworkPolicy", Name: "default", Baseline: true, Priority: 1001}
	}
	p.Subject = selector(r, "ns", Namespaces())
	for range r.IntN(4) {
		p.Ingress = append(p.Ingress, clusterRule(r, p.Kind, false))
	}
	for range r.IntN(4) {
		p.Egress = append(p.Egress, clusterRule(r, p.Kind, true))
	}
	return p
}

func clusterRule(r *rand.Rand, kind string, egress bool) ClusterRule {
	rule := ClusterRule{Action: pick(r, []string{"Allow", "Deny", "Pass"}), Namespaces: selector(r, "ns", Namespaces())}
	if rule.Action == "Pass" && kind == "BaselineAdminNetworkPolicy" {
		rule.Action = "Deny"
	}
	switch r.IntN(4) {
	case 0:
		rule.Port = int32(80 + r.IntN(2))
	case 1:
		rule.Named = pick(r, []string{"serve", "serve-udp"})
	}
	if egress && rule.Named == "" && r.IntN(3) == 0 {
		rule.To = pick(r, []string{"10.244.0.0/16", "10.244.1.0/24", "203.0.113.0/24"})
	}
	return rule
}

// Object is the policy as the API has it.
func (p ClusterPolicy) Object() *unstructured.Unstructured {
	version := "policy.networking.k8s.io/v1alpha1"
	spec := map[string]any{"subject": map[string]any{"namespaces": p.Subject}}
	if p.Kind != "BaselineAdminNetworkPolicy" {
		spec["priority"] = p.Priority
	}
	if p.Kind == "ClusterNetworkPolicy" {
		version = "policy.networking.k8s.io/v1alpha2"
		spec["tier"] = map[bool]string{true: "Baseline", false: "Admin"}[p.Baseline]
	}
	spec["ingress"], spec["egress"] = p.rules("from", p.Ingress), p.rules("to", p.Egress)
	object := map[string]any{"apiVersion": version, "kind": p.Kind, "metadata": map[string]any{"name": p.Name}, "spec": spec}
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	made := &unstructured.Unstructured{}
	if err := made.UnmarshalJSON(text); err != nil {
		panic(err)
	}
	return made
}

func (p ClusterPolicy) rules(peers string, rules []ClusterRule) []any {
	all := []any{}
	for _, r := range rules {
		peer := map[string]any{"namespaces": r.Namespaces}
		if r.To != "" {
			peer = map[string]any{"networks": []string{r.To}}
		}
		rule := map[string]any{"action": r.Action, peers: []any{peer}}
		old := p.Kind != "ClusterNetworkPolicy"
		if !old && r.Action == "Allow" {
			rule["action"] = "Accept"
		}
		switch {
		case r.Named != "" && old:
			rule["ports"] = []any{map[string]any{"namedPort": r.Named}}
		case r.Named != "":
			rule["protocols"] = []any{map[string]any{"destinationNamedPort": r.Named}}
		case r.Port != 0 && old:
			rule["ports"] = []any{map[string]any{"portNumber": map[string]any{"protocol": "TCP", "port": r.Port}}}
		case r.Port != 0:
			rule["protocols"] = []any{map[string]any{"tcp": map[string]any{"destinationPort": map[string]any{"number": r.Port}}}}
		}
		all = append(all, rule)
	}
	return all
}
