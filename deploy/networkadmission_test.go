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

// TestPolicies_AnnotationOfDefaultNetwork: a pod has the annotation as it was created, or never; all other annotations are
// free.
func TestPolicies_AnnotationOfDefaultNetwork(t *testing.T) {
	all, key := policies(t), contract.DefaultNetworkKey
	bare := map[string]any{"metadata": map[string]any{"name": "n"}}
	for _, tc := range []struct {
		name          string
		before, after map[string]any
		refused       bool
	}{
		{"added", object(), object(key), true},
		{"added to none", bare, object(key), true},
		{"removed", object(key), object(), true},
		{"changed", object(key), object(key + "=x"), true},
		{"kept", object(key), object(key, "more"), false},
		{"never there", object(), object("more"), false},
		{"no annotations", bare, bare, false},
	} {
		for _, resource := range []string{"pods", "pods/status"} {
			got := judge(t, all, write{resource: resource, operation: "UPDATE", user: "kubernetes-admin", before: tc.before, after: tc.after})
			if strings.Contains(got, key) != tc.refused {
				t.Errorf("%s, %s: %q", tc.name, resource, got)
			}
		}
	}
	if got := judge(t, all, write{resource: "pods", operation: "CREATE", user: "kubernetes-admin", after: object(key)}); got != "" {
		t.Errorf("created with the annotation: %q", got)
	}
}
