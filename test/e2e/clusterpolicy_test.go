//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// clusterPolicyCRD is what the API server needs of each kind: its validation is
// not what is tested here.
func clusterPolicyCRD(kind string, resource schema.GroupVersionResource) *unstructured.Unstructured {
	return object(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[2]s.%[3]s
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/network-policy-api"}
spec:
  group: %[3]s
  scope: Cluster
  names: {kind: %[1]s, plural: %[2]s, singular: %[4]s, listKind: %[1]sList}
  versions:
  - name: %[5]s
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items: {type: object, required: [type], properties: {type: {type: string}}, x-kubernetes-preserve-unknown-fields: true}
`, kind, resource.Resource, resource.Group, strings.ToLower(kind), resource.Version))
}

func object(text string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &made.Object); err != nil {
		panic(err)
	}
	return made
}

// clusterPolicies has the kinds, which the first caller installs.
func clusterPolicies(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	for kind, resource := range policy.AdminKinds() {
		if _, err := client.Resource(crds).Create(t.Context(), clusterPolicyCRD(kind, resource), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return client
}

// applyClusterPolicy makes a policy, and waits until it is in force.
func applyClusterPolicy(t *testing.T, client dynamic.Interface, kind, text string) {
	t.Helper()
	made := object(text)
	resource := client.Resource(policy.AdminKinds()[kind])
	world.Eventually(t, world.PodWithin, "the API server knows the kind", func() (bool, string) {
		_, err := resource.Create(t.Context(), made, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
	})
	t.Cleanup(func() { _ = resource.Delete(context.Background(), made.GetName(), metav1.DeleteOptions{}) })
	// The controller looks for kinds that it did not find, half a minute apart at most.
	world.Eventually(t, world.PodWithin, "the policy is in force", func() (bool, string) {
		got, err := resource.Get(t.Context(), made.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		text := fmt.Sprint(conditions)
		return strings.Contains(text, kube.PolicyReadyCondition) && strings.Contains(text, "status:True"), text
	})
}

// TestClusterNetworkPolicy_TiersSurroundNetworkPolicy: the tiers before and after NetworkPolicy. The kinds are
// installed while the controller runs, which found none of them at its start.
func TestClusterNetworkPolicy_TiersSurroundNetworkPolicy(t *testing.T) {
	world.Test(t, world.Policies, world.Core, world.Strict)
	client := clusterPolicies(t)
	ns := world.Namespace(t)
	world.LabelNamespace(t, ns, "team", `"tested"`)
	pods := world.Run(t, world.Pod(ns, "server", nodes[1]), world.Pod(ns, "from", nodes[2]))
	server, from := pods[0], pods[1]
	targets := world.Endpoints(server)
	world.Reaches(t, from, true, targets...)

	apply := func(kind, text string) {
		t.Helper()
		applyClusterPolicy(t, client, kind, text)
	}
	remove := func(kind, name string) {
		t.Helper()
		if err := client.Resource(policy.AdminKinds()[kind]).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	subject := "subject: {namespaces: {matchLabels: {team: tested}}}"
	apply(contract.KindBaselineAdminNetworkPolicy, `
apiVersion: policy.networking.k8s.io/v1alpha1
kind: BaselineAdminNetworkPolicy
metadata: {name: default}
spec: {`+subject+`, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`)
	world.Reaches(t, from, false, targets...)

	// A NetworkPolicy overrides the baseline,
	world.CreatePolicy(t, ns, "open", world.AllowNamespaces("team", "tested"))
	world.Reaches(t, from, true, targets...)
	// the admin's tier overrides that,
	apply(contract.KindAdminNetworkPolicy, `
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: deny}
spec: {priority: 50, `+subject+`, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`)
	world.Reaches(t, from, false, targets...)
	// and in it a policy of a lower number, which passes to the next tier.
	apply(contract.KindClusterNetworkPolicy, `
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: pass}
spec: {tier: Admin, priority: 10, `+subject+`, ingress: [{action: Pass, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: from}}}}]}]}`)
	world.Reaches(t, from, true, targets...)

	remove(contract.KindClusterNetworkPolicy, "pass")
	world.Reaches(t, from, false, targets...)
	remove(contract.KindAdminNetworkPolicy, "deny")
	world.Reaches(t, from, true, targets...)
	world.DeletePolicy(t, ns, "open")
	world.Reaches(t, from, false, targets...)
	remove(contract.KindBaselineAdminNetworkPolicy, "default")
	world.Reaches(t, from, true, targets...)
}
