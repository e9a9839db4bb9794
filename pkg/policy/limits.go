package policy

import (
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What one NetworkPolicy may have; docs/limits.md says what that costs. Rules count
// in their order. A rule that is beyond a limit allows nothing. Policies for the
// whole cluster have no limits, since only administrators write them.
const (
	MaxRules = 500
	// MaxSelectors is for peers with labels, MaxTerms for the values in their selectors.
	MaxSelectors = 200
	MaxTerms     = 1000
	// MaxNetworks is for networks and exceptions as the policy names them, and
	// for the networks that are left of these.
	MaxNetworks = 5000
	MaxPorts    = 2000
	MaxNamed    = 50
	// MaxMembers is for the pods that rules refer to, counted again in each rule.
	MaxMembers = 200_000
)

// ErrOverLimit is wrapped by the error of a rule that is beyond a limit.
var ErrOverLimit = errors.New("over the limit")

// usage is what rules of a policy have of what is limited.
type usage struct{ selectors, terms, networks, ports, named int }

// add refuses a rule that is too much, and counts the others. It looks at
// numbers only, so that a rule that is refused costs nothing.
func (u *usage) add(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) error {
	sum := *u
	for _, peer := range peers {
		if peer.IPBlock != nil {
			sum.networks += 1 + len(peer.IPBlock.Except)
			continue
		}
		sum.selectors++
		sum.terms += terms(peer.NamespaceSelector) + terms(peer.PodSelector)
	}
	sum.ports += len(ports)
	for _, port := range ports {
		if port.Port != nil && port.Port.StrVal != "" {
			sum.named++
		}
	}
	for _, l := range []struct {
		what      string
		have, max int
	}{
		{"peers with labels", sum.selectors, MaxSelectors}, {"values in selectors", sum.terms, MaxTerms},
		{"networks and exceptions", sum.networks, MaxNetworks}, {"ports", sum.ports, MaxPorts}, {"named ports", sum.named, MaxNamed},
	} {
		if l.have > l.max {
			return fmt.Errorf("%w: %d %s up to this rule, and a policy may have %d: the rule allows nothing", ErrOverLimit, l.have, l.what, l.max)
		}
	}
	*u = sum
	return nil
}

// terms counts what a selector compares with.
func terms(selector *metav1.LabelSelector) int {
	if selector == nil {
		return 0
	}
	n := len(selector.MatchLabels)
	for _, expression := range selector.MatchExpressions {
		n += max(1, len(expression.Values))
	}
	return n
}
