package ovn

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/test/policytest"
)

// grown says other sizes of sets than there are.
type grown struct {
	facts
	sizes map[contract.Owner]int
}

func (g grown) Sizes(set *policy.PodSet) map[int32]int { return map[int32]int{0: g.sizes[set.Owner()]} }

// TestBeyondLimit_RuleAllowsNothing: three rules, the second with more pods than the
// first has left. The first and the third hold, and so does the isolation. With few
// enough, all hold.
func TestBeyondLimit_RuleAllowsNothing(t *testing.T) {
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for i := range 3 {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}
		object.Spec.Ingress = append(object.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{PodSelector: selector}}})
	}
	view := grown{viewOf(t, object), map[contract.Owner]int{}}
	owner := contract.NetworkPolicyOwner("ns", "p")
	sets := view.Policy(owner).Sets()
	view.sizes[sets[0].Owner()], view.sizes[sets[2].Owner()] = policy.MaxMembers-1000, 900
	network := oneNetwork("10.244.0.0/16")
	for size, fits := range map[int]bool{100: true, 199: true, 1100: false} {
		view.sizes[sets[1].Owner()] = size
		rows, err := Build(view, network, owner)
		if (err == nil) != fits || !fits && (!errors.Is(err, policy.ErrOverLimit) || !errors.Is(err, reconcile.ErrInvalid) || !strings.Contains(err.Error(), "spec.ingress[1]")) {
			t.Errorf("%d: %v", size, err)
		}
		var ids []string
		for _, row := range rows {
			if _, ok := row.Model.(*nb.ACL); ok {
				ids = append(ids, row.ID)
			}
		}
		want := "[Ingress Ingress:0 Ingress:2]"
		if fits {
			want = "[Ingress Ingress:0 Ingress:1 Ingress:2]"
		}
		if got := fmt.Sprint(ids); got != want {
			t.Errorf("%d: rules %s, want %s", size, got, want)
		}
		for i, set := range sets {
			if rows, _ := Build(view, network, set.Owner()); (len(rows) > 0) != (fits || i != 1) {
				t.Errorf("%d: set %d has %d rows", size, i, len(rows))
			}
		}
	}
}

// TestBeyondLimit_AdministratorsHaveNone: their rules may deny.
func TestBeyondLimit_AdministratorsHaveNone(t *testing.T) {
	deny := policytest.ClusterPolicy{Kind: contract.KindAdminNetworkPolicy, Name: "deny", Ingress: []policytest.ClusterRule{
		{Action: "Deny", Namespaces: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	}}
	view := grown{viewOf(t, deny.Object()), map[contract.Owner]int{}}
	owner := contract.Owner{Kind: contract.KindAdminNetworkPolicy, Name: "deny"}
	set := view.Policy(owner).Sets()[0].Owner()
	view.sizes[set] = 10 * policy.MaxMembers
	network := oneNetwork("10.244.0.0/16")
	rows, err := Build(view, network, owner)
	if err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if rows, _ := Build(view, network, set); len(rows) == 0 {
		t.Error("the set has no rows")
	}
}

// TestLimit_NetworksOfAllRules: each rule is within the limit, and together they are not.
func TestLimit_NetworksOfAllRules(t *testing.T) {
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for i := range 3 {
		block := &networkingv1.IPBlock{CIDR: fmt.Sprintf("%d.0.0.0/8", 20+i)}
		for j := range 120 {
			block.Except = append(block.Except, fmt.Sprintf("%d.%d.%d.1/32", 20+i, 2*j, j))
		}
		object.Spec.Egress = append(object.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{{IPBlock: block}}})
	}
	view := viewOf(t, object)
	rows, err := Build(view, oneNetwork("10.244.0.0/16"), contract.NetworkPolicyOwner("ns", "p"))
	if !errors.Is(err, policy.ErrOverLimit) || !strings.Contains(err.Error(), "spec.egress[2]") || strings.Contains(err.Error(), "spec.egress[1]") {
		t.Errorf("error %v", err)
	}
	if len(rows) != 5 { // group, ingress and egress denied, two rules
		t.Errorf("%d rows, want 5", len(rows))
	}
}
