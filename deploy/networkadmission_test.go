package deploy

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestPolicies_LabelOfPrimaryNetwork: a namespace has the label from its creation on, or never; its value and all other
// labels are free.
func TestPolicies_LabelOfPrimaryNetwork(t *testing.T) {
	all, label := policies(t), "label "+contract.PrimaryNetworkLabel
	for _, tc := range []struct {
		name          string
		before, after map[string]any
		refused       bool
	}{
		{"added", object(), object(label), true},
		{"removed", object(label), object(), true},
		{"kept", object(label), object(label, "label other"), false},
		{"never there", object(), object("label other"), false},
		{"another value", object(label), object(label + "=x"), false},
		{"no labels before", map[string]any{"metadata": map[string]any{"name": "n"}}, object(label), true},
		{"no labels at all", map[string]any{"metadata": map[string]any{"name": "n"}}, map[string]any{"metadata": map[string]any{"name": "n"}}, false},
	} {
		got := judge(t, all, write{resource: "namespaces", operation: "UPDATE", user: "kubernetes-admin", before: tc.before, after: tc.after})
		if strings.Contains(got, contract.PrimaryNetworkLabel) != tc.refused {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
	if got := judge(t, all, write{resource: "namespaces", operation: "CREATE", user: "kubernetes-admin", after: object(label)}); got != "" {
		t.Errorf("created with the label: %q", got)
	}
}
