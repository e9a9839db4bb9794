//go:build apiserver

package apiserver

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// firewalls is the CRD that OVN-Kubernetes leaves behind, with an open schema.
const firewalls = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: egressfirewalls.k8s.ovn.org}
spec:
  group: k8s.ovn.org
  scope: Namespaced
  names: {kind: EgressFirewall, plural: egressfirewalls, singular: egressfirewall}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// TestNotServed_ObjectsHaveAnEvent: with the rights of the chart, the controller says on an object of a kind that it does not
// serve that the object has no effect. An object that comes later has an Event, too.
func TestNotServed_ObjectsHaveAnEvent(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	kind := schema.GroupVersionResource{Group: "k8s.ovn.org", Version: "v1", Resource: "egressfirewalls"}
	apply(t, crds, firewalls)
	t.Cleanup(func() { // other tests have no such kind
		_ = cluster.dynamic.Resource(crds).Delete(context.Background(), "egressfirewalls.k8s.ovn.org", metav1.DeleteOptions{})
	})
	eventually(t, "the kind is served", func() (bool, string) {
		_, err := objectsOf(kind, ns).List(t.Context(), metav1.ListOptions{})
		return err == nil, fmt.Sprint(err)
	})
	const denyAll = "apiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata: {namespace: %s, name: %s}\n" +
		"spec: {egress: [{type: Deny, to: {cidrSelector: 0.0.0.0/0}}]}\n"
	apply(t, kind, fmt.Sprintf(denyAll, ns, "default"))
	restartController(t) // and so it looks for the kind now
	wantEvent(t, ns, "NotServed", "default", "does not serve the kind EgressFirewall")
	apply(t, kind, fmt.Sprintf(denyAll, ns, "later"))
	wantEvent(t, ns, "NotServed", "later", "Deny rules deny nothing")
}

// TestNotServed_AnnotationsHaveAnEvent: on the pod whose bandwidth is not limited, with what is wrong with a value, and on a
// Namespace. A pod without such an annotation has no such Event.
func TestNotServed_AnnotationsHaveAnEvent(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	for name, value := range map[string]string{"limited": "10M", "wrong": "fast", "plain": ""} {
		pod := podObject(ns, name, nodes[1])
		if value != "" {
			pod.Annotations = map[string]string{"kubernetes.io/egress-bandwidth": value}
		}
		create(t, pod)
	}
	wantEvent(t, ns, "NotServed", "limited", "kubernetes.io/egress-bandwidth has no effect: the bandwidth")
	wantEvent(t, ns, "NotServed", "wrong", `"fast" is not a quantity`)
	const multicast = `{"metadata":{"annotations":{"k8s.ovn.org/multicast-enabled":"true"}}}`
	if _, err := cluster.client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, []byte(multicast), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, metav1.NamespaceDefault, "NotServed", ns, "k8s.ovn.org/multicast-enabled has no effect")
	events, err := cluster.client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=plain,reason=NotServed"})
	if err != nil || len(events.Items) > 0 {
		t.Errorf("Events of a pod without the annotation: %v, %v", events.Items, err)
	}
}
