package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func peersOf(n int) (peers []networkingv1.NetworkPolicyPeer) {
	for i := range n {
		peers = append(peers, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}})
	}
	return peers
}

func portsOf(n int, named bool) (ports []networkingv1.NetworkPolicyPort) {
	for i := range n {
		port := intstr.FromInt32(int32(i + 1))
		if named {
			port = intstr.FromString(fmt.Sprint("port-", i))
		}
		ports = append(ports, networkingv1.NetworkPolicyPort{Port: &port})
	}
	return ports
}

func valuesPeer(n int) []networkingv1.NetworkPolicyPeer {
	var values []string
	for i := range n {
		values = append(values, fmt.Sprint("v", i))
	}
	return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: values},
	}}}}
}

// adjacent are exceptions that leave no more than a few networks.
func adjacent(n int) []networkingv1.NetworkPolicyPeer {
	block := &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}
	for i := range n - 1 {
		block.Except = append(block.Except, fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255))
	}
	return []networkingv1.NetworkPolicyPeer{{IPBlock: block}}
}

// TestLimits_RuleBeyondALimitAllowsNothing: with as much as the limit the rule is
// there, with one more it is not. The rules before and after it hold, and so does
// what the policy isolates.
func TestLimits_RuleBeyondALimitAllowsNothing(t *testing.T) {
	type rule = networkingv1.NetworkPolicyIngressRule
	for name, c := range map[string]struct {
		limit int
		rule  func(n int) rule
	}{
		"selectors":   {MaxSelectors - 1, func(n int) rule { return rule{From: peersOf(n)} }},
		"terms":       {MaxTerms - 1, func(n int) rule { return rule{From: valuesPeer(n)} }},
		"networks":    {MaxNetworks, func(n int) rule { return rule{From: adjacent(n)} }},
		"ports":       {MaxPorts - 1, func(n int) rule { return rule{Ports: portsOf(n, false)} }},
		"named ports": {MaxNamed, func(n int) rule { return rule{Ports: portsOf(n, true)} }},
	} {
		for over, n := range map[bool]int{false: c.limit, true: c.limit + 1} {
			np := policyFrom(peersOf(1)[0], portsOf(1, false)...)
			last := rule{From: []networkingv1.NetworkPolicyPeer{}, Ports: nil}
			np.Spec.Ingress = append(np.Spec.Ingress, c.rule(n), last)
			policy := ParseNetworkPolicy(np)
			rules := policy.Ingress.Rules
			_, late := rules[1].Networks.Prefixes()
			if got := errors.Is(errors.Join(policy.Err, late), ErrOverLimit); got != over {
				t.Errorf("%s: %d: over the limit %t, want %t: %v", name, n, got, over, policy.Err)
			}
			empty := !rules[1].AnyPeer && rules[1].Peers == nil && rules[1].Networks == nil && !rules[1].EveryPod
			if empty != over {
				t.Errorf("%s: %d: rule %+v", name, n, rules[1])
			}
			if rules[0].Peers == nil || !rules[2].AnyPeer || policy.Subject.Pods.String() != "app=web" {
				t.Errorf("%s: %d: the other rules or the subject are not what they were: %+v", name, n, policy)
			}
			if over && !strings.Contains(policy.Err.Error(), "spec.ingress[1]") {
				t.Errorf("%s: the error does not name the rule: %v", name, policy.Err)
			}
		}
	}
}

func TestLimits_NetworksThatAreLeft(t *testing.T) {
	for n, ok := range map[int]bool{100: true, 400: false} {
		policy := ParseNetworkPolicy(exceptPolicy(n))
		if policy.Err != nil {
			t.Errorf("%d exceptions: the event's handler has read them: %v", n, policy.Err)
		}
		prefixes, err := policy.Ingress.Rules[0].Networks.Prefixes()
		if (err == nil) != ok || (len(prefixes) > 0) != ok || len(prefixes) > MaxNetworks {
			t.Errorf("%d exceptions: %d networks, %v", n, len(prefixes), err)
		}
	}
}

func TestLimits_RulesOfBothDirections(t *testing.T) {
	np := policyFrom(peersOf(1)[0])
	np.Spec.Egress = make([]networkingv1.NetworkPolicyEgressRule, MaxRules+5)
	policy := ParseNetworkPolicy(np)
	if got := len(policy.Ingress.Rules) + len(policy.Egress.Rules); got != MaxRules || !errors.Is(policy.Err, ErrOverLimit) {
		t.Errorf("%d rules, %v", got, policy.Err)
	}
}

// TestLimits_LongSubjectSelectsTheNamespace: what isolates is never dropped, so the
// policy isolates more, and allows nothing there.
func TestLimits_LongSubjectSelectsTheNamespace(t *testing.T) {
	np := policyFrom(peersOf(1)[0])
	np.Spec.PodSelector = *valuesPeer(MaxTerms + 1)[0].PodSelector
	policy := ParseNetworkPolicy(np)
	if policy.Ingress == nil || len(policy.Ingress.Rules) > 0 || !isEverything(policy.Subject.Pods) || policy.Subject.Namespace != "ns" || !errors.Is(policy.Err, ErrOverLimit) {
		t.Errorf("%+v", policy)
	}
	np.Spec.PodSelector = *valuesPeer(MaxTerms)[0].PodSelector
	if policy := ParseNetworkPolicy(np); isEverything(policy.Subject.Pods) || len(policy.Ingress.Rules) != 1 || policy.Err != nil {
		t.Errorf("at the limit: %+v", policy)
	}
}

// TestRule_PeersAreOneSet: the peers of a rule are one set. A rule for every pod has no set.
func TestRule_PeersAreOneSet(t *testing.T) {
	everyPod := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}
	np := policyFrom(networkingv1.NetworkPolicyPeer{})
	np.Spec.Ingress[0].From = append(peersOf(3), peersOf(2)...)
	policy := ParseNetworkPolicy(np)
	if sets := policy.Sets(); len(sets) != 1 || len(sets[0].Of) != 3 {
		t.Errorf("sets %v", sets)
	}
	reversed := np.DeepCopy()
	slices.Reverse(reversed.Spec.Ingress[0].From)
	if a, b := policy.Sets()[0].Owner(), ParseNetworkPolicy(reversed).Sets()[0].Owner(); a != b {
		t.Error("the order of peers makes another set")
	}
	np.Spec.Ingress[0].From = append(np.Spec.Ingress[0].From, everyPod)
	if rule := ParseNetworkPolicy(np).Ingress.Rules[0]; !rule.EveryPod || rule.Peers != nil {
		t.Errorf("a rule with a peer that selects every pod is %+v", rule)
	}
	own := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}} // of its namespace
	np.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{own}
	if rule := ParseNetworkPolicy(np).Ingress.Rules[0]; rule.EveryPod || rule.Peers == nil {
		t.Errorf("the policy's namespace is %+v", rule)
	}
}

// TestIndex_EventTestsOnlyCandidates counts the selections that a pod's event looks at
// among 4,000: by its labels, its namespace, its namespace's labels, and without any.
func TestIndex_EventTestsOnlyCandidates(t *testing.T) {
	index := newPolicies()
	for i := range 1000 {
		np := policyFrom(peersOf(1)[0])
		np.Name = fmt.Sprint("policy-", i)
		labelled := metav1.LabelSelector{MatchLabels: map[string]string{"team": fmt.Sprint(i)}}
		within := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}}}}
		np.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{
			{NamespaceSelector: &labelled},
			{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &within},
			{NamespaceSelector: &labelled, PodSelector: &within},
		}
		if i < 3 {
			negative := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprint(i)}}}}
			np.Spec.Ingress[0].From = append(np.Spec.Ingress[0].From, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &negative})
		}
		policy := ParseNetworkPolicy(np)
		index.put(policy.Owner, policy)
	}
	pod := labelled("pod", "app", "b7")
	candidates := 0
	for _, bucket := range bucketsOf(pod, labels.Set{"team": "9"}) {
		candidates += len(index.members[bucket])
	}
	if want := 1 + 2 + 3; candidates != want { // team 9, two with b7, three without a label
		t.Errorf("%d candidates, want %d", candidates, want)
	}
	if got := len(index.with(pod, labels.Set{"team": "9"}, false)); got != 5 { // policies 0, 1, 2, 7, 9
		t.Errorf("%d sets have the pod, want 5", got)
	}
	for i := range 1000 {
		index.put(contract.NetworkPolicyOwner("ns", fmt.Sprint("policy-", i)), nil)
	}
	if left := len(index.members) + len(index.bySubject) + len(index.selectors) + len(index.sets); left > 0 {
		t.Errorf("%d entries are left", left)
	}
}
