package controller

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// putMirror makes a PortMirror of the pods with the label app=web, whose interfaces are on a network, "" for the default network.
func (w *world) putMirror(name, network string, collector map[string]any) {
	w.t.Helper()
	spec := map[string]any{
		"sources":   map[string]any{"namespaceSelector": map[string]any{}, "podSelector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
		"collector": collector,
	}
	if network != "" {
		spec["network"] = network
	}
	mirror := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.Version, "kind": contract.KindPortMirror, "metadata": map[string]any{"name": name, "uid": name}, "spec": spec,
	}}
	if _, err := w.policies.Resource(v1alpha1.PortMirrors()).Create(w.t.Context(), mirror, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// TestPortMirror_FollowsTheCollectorOfANode: copies go to the first pod by name of those on the node of the source. The pods
// come after the mirror, lose their labels and go; without one, the port of the source refers to no mirror.
func TestPortMirror_FollowsTheCollectorOfANode(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"), testNode("n2"))
	w.startAndLead()
	w.putNAD("blue", `"name":"blue","topology":"layer2","subnets":"10.7.0.0/24"`)
	w.putMirror("m", "", map[string]any{"pods": map[string]any{
		"namespace": "d", "network": "d/blue", "podSelector": map[string]any{"matchLabels": map[string]any{"app": "recorder"}},
	}})
	pods := w.client.CoreV1().Pods("d")
	create := func(pod *corev1.Pod, app string) {
		t.Helper()
		pod.Labels = map[string]string{"app": app}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, mirrors string, mirrored bool) {
		t.Helper()
		w.eventually(when, func() bool {
			refers := strings.Contains(w.server.Dump("Logical_Switch_Port", "mirror_rules"), "-")
			return strings.ReplaceAll(strings.TrimSpace(w.server.Dump("Mirror", "name", "sink", "type")), `"`, "") == mirrors && refers == mirrored && strings.Contains(w.server.Dump("Logical_Switch_Port", "name"), "d_web")
		})
	}
	create(testPod("web", "n1"), "web")
	want("no collector", "", false)
	create(asking("b", "n1", "blue"), "recorder")
	want("a collector", "m/n1,d.blue_d_b,local", true)
	create(asking("c", "n1", "blue"), "recorder")
	create(asking("z", "n1", ""), "recorder")
	create(asking("far", "n2", "blue"), "recorder")
	want("one on another node", "m/n1,d.blue_d_b,local\nm/n2,d.blue_d_far,local", true)
	if err := pods.Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("the second one", "m/n1,d.blue_d_c,local\nm/n2,d.blue_d_far,local", true)
	w.stop()
	w.startAndLead()
	w.eventually("the resync", func() bool { return dirtyKeys(t, w.registry) == 0 })
	want("a restart", "m/n1,d.blue_d_c,local\nm/n2,d.blue_d_far,local", true)
	if _, err := pods.Patch(t.Context(), "c", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"other"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	want("none on the node of the source", "m/n2,d.blue_d_far,local", false)
	if err := w.policies.Resource(v1alpha1.PortMirrors()).Delete(t.Context(), "m", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("no mirror", "", false)
}

// TestPortMirror_WithoutDefaultNetwork: where the default network is another's, the port of a pod on a further network waits for
// no mirror that is not made.
func TestPortMirror_WithoutDefaultNetwork(t *testing.T) {
	web := asking("web", "n1", "blue")
	web.Labels = map[string]string{"app": "web"}
	w := wholeWorld(t, nil, testNode("n1"), web)
	w.secondaryOnly = true
	w.startAndLead()
	w.putMirror("m", "d/blue", map[string]any{"tunnel": map[string]any{"protocol": "GRE", "address": "192.0.2.1"}})
	w.putNAD("blue", `"name":"blue","topology":"layer2","subnets":"10.7.0.0/24"`)
	w.eventually("a port with its mirror", func() bool {
		return strings.Contains(w.server.Dump("Logical_Switch_Port", "name"), "d.blue_d_web") && strings.Contains(w.server.Dump("Logical_Switch_Port", "mirror_rules"), "-")
	})
}
