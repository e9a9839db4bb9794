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

// nad is a NetworkAttachmentDefinition with a configuration, annotations, and the kind of its controller, "": none.
func nad(config, kind string, annotations map[string]any) map[string]any {
	metadata := map[string]any{"namespace": "evil", "name": "net", "annotations": annotations}
	if kind != "" {
		group := map[string]string{"ClusterUserDefinedNetwork": "k8s.ovn.org/v1", "ProviderNetwork": "k8s.plugin.opnfv.org/v1alpha1"}[kind]
		if group == "" {
			group = "operator.example.com/v1"
		}
		metadata["ownerReferences"] = []any{
			map[string]any{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "other"},
			map[string]any{"apiVersion": group, "kind": kind, "name": "net", "uid": "uid", "controller": true},
		}
	}
	return map[string]any{"metadata": metadata, "spec": map[string]any{"config": config}}
}

// TestPolicies_OwnerOfNetwork: only the controller says whose network a NetworkAttachmentDefinition is of, and under which id.
func TestPolicies_OwnerOfNetwork(t *testing.T) {
	all := policies(t)
	type fields = map[string]any
	plain, mine := `{"name":"net"}`, fields{"mine": "x"}
	for _, tc := range []struct {
		name          string
		before, after map[string]any
		want          string // of the refusal, "" for none
	}{
		{"a network", nil, nad(plain, "", mine), ""},
		{"without annotations", nil, fields{"metadata": fields{"name": "n"}, "spec": fields{}}, ""},
		{"an id, made", nil, nad(plain, "", fields{contract.NetworkIDKey: "7"}), contract.NetworkIDKey},
		{"an id, added", nad(plain, "", mine), nad(plain, "", fields{contract.NetworkIDKey: "7"}), contract.NetworkIDKey},
		{"an id, changed", nad(plain, "", fields{contract.NetworkIDKey: "8"}), nad(plain, "", fields{contract.NetworkIDKey: "7"}), contract.NetworkIDKey},
		{"a network's name", nad(plain, "", mine), nad(plain, "", fields{contract.NetworkNameKey: "shop_main"}), contract.NetworkNameKey},
		{"an id, kept", nad(plain, "", fields{contract.NetworkIDKey: "7"}), nad(plain, "", fields{contract.NetworkIDKey: "7", "mine": "x"}), ""},
		{"an id, removed", nad(plain, "", fields{contract.NetworkIDKey: "7"}), nad(plain, "", mine), ""},
		{"an owner, made", nil, nad(plain, "ClusterUserDefinedNetwork", mine), "ownerReferences"},
		{"an owner, added", nad(plain, "", mine), nad(plain, "ProviderNetwork", mine), "ownerReferences"},
		{"an owner of another group", nil, nad(plain, "Network", mine), ""},
		{"an owner, kept", nad(plain, "ProviderNetwork", mine), nad(plain, "ProviderNetwork", fields{"more": "x"}), ""},
		{"the configuration of another object", nad(plain, "ProviderNetwork", mine), nad(`{}`, "ProviderNetwork", mine), "change this object"},
		{"the configuration of one of another group", nad(plain, "Network", mine), nad(`{}`, "Network", mine), ""},
		{"the configuration of no other object", nad(plain, "", mine), nad(`{}`, "", mine), ""},
		{"a reserved name", nil, nad(`{ "name" : "cluster_udn_red"}`, "", mine), "cluster_udn_"},
		{"a reserved name, added", nad(plain, "", mine), nad(`{"name":"cluster_udn_red"}`, "", mine), "cluster_udn_"},
		{"a reserved name from before", nad(`{"name":"cluster_udn_red"}`, "", mine), nad(`{"name":"cluster_udn_red"}`, "", fields{"more": "x"}), ""},
		{"a name that has it within", nil, nad(`{"name":"my_cluster_udn_red"}`, "", mine), ""},
	} {
		operation := "UPDATE"
		if tc.before == nil {
			operation = "CREATE"
		}
		request := write{group: "k8s.cni.cncf.io", resource: "network-attachment-definitions", operation: operation, user: "tenant", before: tc.before, after: tc.after}
		if got := judge(t, all, request); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		request.user = "system:serviceaccount:ovn-kubernetes:ovnkube-master"
		if got := judge(t, all, request); got != "" {
			t.Errorf("%s, by the controller: %q", tc.name, got)
		}
	}
}
