package namespaces

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func object(name, team string, accepted bool, subnets ...any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": team}}, "subnets": subnets, "snat": name != "routed",
	}}}
	if accepted {
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Accepted", "status": "True"}}}
	}
	u.SetName(name)
	u.SetFinalizers([]string{contract.NamespaceSubnetFinalizer})
	return u
}

// TestJudge_RefusesWhatOverlaps: each text says with what. Of two NamespaceSubnets the older one stays, and a node does not take
// a subnet that is in force.
func TestJudge_RefusesWhatOverlaps(t *testing.T) {
	taken := Taken{
		Plan:     map[string][]netip.Prefix{"cluster": {netip.MustParsePrefix("10.244.0.0/16")}, "join": {netip.MustParsePrefix("100.64.0.0/16")}},
		Services: []netip.Prefix{netip.MustParsePrefix("10.97.0.0/24")},
		Nodes:    []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Address: "192.0.2.7"}}}}},
		Networks: []contract.Network{
			{Name: "red", Role: contract.RolePrimary, Subnets: []contract.Subnet{{Prefix: netip.MustParsePrefix("10.12.0.0/16")}}},
			{Name: "side", Role: contract.RoleSecondary, Subnets: []contract.Subnet{{Prefix: netip.MustParsePrefix("10.13.0.0/16")}}},
		},
	}
	first := object("a", "red", false, "10.9.0.0/24")
	for _, c := range []struct {
		object *unstructured.Unstructured
		want   string
	}{
		{object("routed", "red", false, "10.10.0.0/29"), ""},
		{object("b", "red", false, "10.9.0.128/25"), "subnet 10.9.0.128/25 overlaps 10.9.0.0/24 of NamespaceSubnet a"},
		{object("b", "red", false, "10.244.7.0/24"), "overlaps the cluster subnet 10.244.0.0/16"},
		{object("b", "red", false, "10.97.0.0/16"), "overlaps the service subnet 10.97.0.0/24"},
		{object("b", "red", false, "100.0.0.0/8"), "overlaps the join subnet 100.64.0.0/16"},
		{object("b", "red", false, "192.0.2.0/24"), "has the address 192.0.2.7 of node n1"},
		{object("b", "red", true, "192.0.2.0/24"), ""},
		{object("b", "red", false, "10.12.7.0/24"), "subnet 10.12.7.0/24 overlaps 10.12.0.0/16 of network red"},
		{object("b", "red", true, "10.12.7.0/24"), ""},
		{object("b", "red", false, "10.13.7.0/24"), ""},
		{object("b", "red", false, "10.11.0.1/24"), `"10.11.0.1/24" is not a network address with a length`},
		{object("b", "red", false, "10.11.0.0/30"), "has no room for pods"},
		{object("b", "red", false, "fd09::/64"), "no subnet has the address family of the cluster's subnet 10.244.0.0/16"},
		{object("b", "red", false, "10.11.0.0/24", "fd09::/64"), "are not one of each address family"},
	} {
		j := Judge([]*unstructured.Unstructured{c.object, first}, taken)
		got := ""
		if err := j.Problem(c.object.GetName()); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || c.want == "" && got != "" || j.Problem("a") != nil {
			t.Errorf("%v: problem %q, want %q", c.object.Object["spec"], got, c.want)
		}
		if got := len(j.InForce()); got == 2 != (c.want == "") {
			t.Errorf("%v: %d are in force", c.object.Object["spec"], got)
		}
	}
}

// TestJudge_FindsTheSubnetOfANamespace: the oldest that selects it and that does not end. One without the finalizer is none.
func TestJudge_FindsTheSubnetOfANamespace(t *testing.T) {
	now := metav1.Now()
	ends, bare := object("ends", "red", true, "10.9.0.0/24"), object("bare", "red", false, "10.8.0.0/24")
	ends.SetDeletionTimestamp(&now)
	bare.SetFinalizers(nil)
	j := Judge([]*unstructured.Unstructured{bare, object("routed", "red", false, "10.10.0.0/24"), ends, object("blue", "blue", false, "10.11.0.0/24")},
		Taken{Plan: map[string][]netip.Prefix{"cluster": {netip.MustParsePrefix("10.244.0.0/16")}}})
	of := func(team string) string {
		found := j.Of(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": team}}})
		if found == nil {
			return ""
		}
		return found.Name
	}
	if of("red") != "routed" || of("blue") != "blue" || of("green") != "" || j.Of(nil) != nil || (*Judgement)(nil).Of(&corev1.Namespace{}) != nil {
		t.Errorf("red %s, blue %s, green %s", of("red"), of("blue"), of("green"))
	}
	var all []string
	for _, s := range j.InForce() {
		all = append(all, s.Name)
		if s.Routed != (s.Name == "routed") {
			t.Errorf("%s: routed %t", s.Name, s.Routed)
		}
	}
	if !slices.Equal(all, []string{"blue", "ends", "routed"}) {
		t.Errorf("in force: %v", all)
	}
}
