package policy

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func clusterPolicy(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": contract.KindClusterNetworkPolicy, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// TestParseAdminPolicy_UnknownActionDenies: a rule of a later API whose action we do not know may
// be one that forbids.
func TestParseAdminPolicy_UnknownActionDenies(t *testing.T) {
	policy := ParseAdmin(contract.KindClusterNetworkPolicy, clusterPolicy("p", map[string]any{
		"tier": "Admin", "priority": int64(1), "subject": map[string]any{"namespaces": map[string]any{}},
		"ingress": []any{map[string]any{"action": "Quarantine", "from": []any{map[string]any{"namespaces": map[string]any{}}}}},
	}))
	if rule := policy.Ingress.Rules[0]; rule.Action != Deny || !rule.AnyPeer || !rule.AnyPort {
		t.Errorf("rule %+v", rule)
	}
	if policy.Err == nil {
		t.Error("the policy has no error for its author")
	}
}

// FuzzParseAdminPolicy: whatever comes, parsing ends, and a rule that denies is
// never narrower than what could be understood.
func FuzzParseAdminPolicy(f *testing.F) {
	f.Add(`{"spec":{"priority":5,"subject":{"namespaces":{}},"ingress":[{"action":"Deny","from":[{"unknown":{}}]}]}}`)
	f.Add(`{"spec":{"tier":"Baseline","priority":-1,"subject":{},"egress":[{"action":"Accept","to":[{"networks":["x || 1"]}]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil || object == nil {
			return
		}
		policy := ParseAdmin(contract.KindClusterNetworkPolicy, &unstructured.Unstructured{Object: object})
		for _, direction := range []*Direction{policy.Ingress, policy.Egress} {
			if direction == nil {
				continue
			}
			for _, rule := range direction.Rules {
				if rule.Action == Allow && rule.AnyPeer {
					t.Errorf("%s allows all peers", text)
				}
			}
		}
	})
}
