package controller

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

func (w *world) putSubnet(name, subnet string) {
	w.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.Version, "kind": contract.KindNamespaceSubnet,
		"metadata": map[string]any{"name": name, "uid": name, "finalizers": []any{contract.NamespaceSubnetFinalizer}}, // the fake patches nothing
		"spec":     map[string]any{"namespaceSelector": map[string]any{}, "subnets": []any{subnet, "fd09::" + name + ":0/112"}},
	}}
	if _, err := w.policies.Resource(v1alpha1.NamespaceSubnets()).Create(w.t.Context(), object, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// TestNamespaceSubnets_NewPodsAndNodesHaveThem: rows of new pods and of gateways, and the annotation for agents, come with a
// NamespaceSubnet and stay over a restart; a pod that was there keeps its address. One that overlaps is refused in an Event.
func TestNamespaceSubnets_NewPodsAndNodesHaveThem(t *testing.T) {
	w := wholeWorld(t, nil, testNode("n1"), testPod("early", "n1"))
	w.startAndLead()
	w.eventually("the early pod's port", func() bool { return slices.Equal(w.ports(), []string{"d_early"}) })
	w.putSubnet("a", "10.9.0.0/24")
	annotation := func() string {
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node.Annotations[contract.NodeNamespaceSubnetsKey]
	}
	w.eventually("the annotation of the node", func() bool {
		return annotation() == `[{"name":"a","subnets":["10.9.0.0/24","fd09::a:0/112"]}]`
	})
	create := func(pod *corev1.Pod) {
		t.Helper()
		if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(testPod("late", "n1"))
	rows := func(text string) bool {
		return strings.Contains(w.server.Dump("Logical_Router_Static_Route", "ip_prefix")+w.server.Dump("Static_MAC_Binding", "ip"), text)
	}
	neighbor := func(addr string) bool { return strings.Contains(w.server.Dump("Static_MAC_Binding", "ip"), addr) }
	w.eventually("the way to the late pod", func() bool {
		return rows("10.9.0.4/32") && rows("fd09::a:4/128") && neighbor("10.9.0.4") && neighbor("fd09::a:4")
	})
	w.putSubnet("b", "10.9.0.128/25")
	w.eventually("an Event", func() bool {
		events, err := w.client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Reason == "SubnetRefused" && strings.Contains(e.Note, "overlaps 10.9.0.0/24 of NamespaceSubnet a")
		})
	})
	dump := func() string {
		return w.server.Dump("Logical_Switch_Port", "_uuid", "name", "addresses") + w.server.Dump("Logical_Router_Static_Route", "_uuid", "ip_prefix") +
			w.server.Dump("Static_MAC_Binding", "_uuid", "ip", "logical_port")
	}
	before := dump()
	w.stop()
	w.startAndLead()
	w.eventually("the resync", func() bool { return dirtyKeys(t, w.registry) == 0 })
	if after := dump(); after != before {
		t.Errorf("a restart changes rows:\n%s\n%s", before, after)
	}
	if early := w.annotation("early"); !strings.Contains(early, "10.244.0.4/24") {
		t.Errorf("the early pod has %s", early)
	}
	if err := w.client.CoreV1().Pods("d").Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("nothing that leads to the pod that is gone", func() bool { return !rows("10.9.0.4") && !rows("fd09::a:4") })
	for _, name := range []string{"a", "b"} {
		if err := w.policies.Resource(v1alpha1.NamespaceSubnets()).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("nodes without subnets of namespaces", func() bool { return annotation() == "" && !rows("0.0.0.0/0") })
}
