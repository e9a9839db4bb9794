package controller

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// TestPortMirror_FollowsItsPodsAndNamespaces: the port of a pod refers to the mirror while the labels of the pod and of its
// namespace are right. Nothing is left of a deleted PortMirror.
func TestPortMirror_FollowsItsPodsAndNamespaces(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"))
	w.startAndLead()
	pods := w.client.CoreV1().Pods("d")
	pod := testPod("web", "n1")
	pod.Labels = map[string]string{"app": "web"}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mirrors := w.policies.Resource(v1alpha1.PortMirrors())
	selects := func(app string) map[string]any {
		return map[string]any{
			"namespaceSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": "no", "operator": "DoesNotExist"}}},
			"podSelector":       map[string]any{"matchLabels": map[string]any{"app": app}},
		}
	}
	mirror := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.Version, "kind": contract.KindPortMirror, "metadata": map[string]any{"name": "m", "uid": "m"},
		"spec": map[string]any{"sources": selects("web"), "collector": map[string]any{"tunnel": map[string]any{"protocol": "GRE", "address": "192.0.2.1"}}},
	}}
	if _, err := mirrors.Create(t.Context(), mirror, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := func(when string, row, mirrored bool) {
		t.Helper()
		w.eventually(when, func() bool {
			has := strings.Contains(w.server.Dump("Mirror", "name"), "m")
			refers := strings.Contains(w.server.Dump("Logical_Switch_Port", "mirror_rules"), "-")
			return has == row && refers == mirrored && strings.Contains(w.server.Dump("Logical_Switch_Port", "name"), "d_web")
		})
	}
	want("a selected pod", true, true)
	label := func(label string) {
		t.Helper()
		if _, err := w.client.CoreV1().Namespaces().Patch(t.Context(), "d", types.MergePatchType, []byte(`{"metadata":{"labels":{"no":`+label+`}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`"x"`)
	want("a namespace that is not selected", true, false)
	label("null")
	want("the namespace again", true, true)
	if _, err := pods.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"other"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	want("a pod that is not selected", true, false)
	if _, err := pods.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"web"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	want("the pod again", true, true)
	if err := mirrors.Delete(t.Context(), "m", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("no mirror", false, false)
}
