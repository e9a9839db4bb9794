package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// TestZone_HasTheRowsOfItsOwnNodesOnly: two zones in one process, each with a Northbound database, have the switches of
// their own nodes and the ports of the pods there. Rules know the pods of both. What one zone deletes, and a restart,
// changes nothing of the other's, and no address is given twice.
func TestZone_HasTheRowsOfItsOwnNodesOnly(t *testing.T) {
	policy := denyAll("d", "peers")
	policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
		From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}}
	w := emptyWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}},
		testNode("n1"), testNode("n2"), testPod("a1", "n1"), testPod("a2", "n2"), testPod("b2", "n2"), policy)
	second := ovsdbtest.Start(t, nb.Definition)
	second.Transact(`{"op":"insert","table":"NB_Global","row":{}}`)
	w.local = func(node string) bool { return node == "n1" }
	w.zones = []ZoneConfig{{Name: "second", Northbound: []string{second.Endpoint()}, Local: func(node string) bool { return node == "n2" }}}
	content := func(server *ovsdbtest.Server) string {
		words := func(table, column string) []string { return strings.Fields(server.Dump(table, column)) }
		names := slices.DeleteFunc(append(words("Logical_Switch", "name"), words("Logical_Switch_Port", "name")...), func(name string) bool {
			return name != "n1" && name != "n2" && !strings.HasPrefix(name, "d_")
		})
		return fmt.Sprint(names)
	}
	want := func(what, first, other string) {
		t.Helper()
		w.eventually(what, func() bool { return content(w.server) == first && content(second) == other })
	}
	w.start()
	want("the rows of each zone", "[n1 d_a1]", "[n2 d_a2 d_b2]")
	addresses := func(server *ovsdbtest.Server) string { return server.Dump("Address_Set", "addresses") }
	w.eventually("the pods of both zones in the rules of both", func() bool {
		return strings.Count(addresses(w.server), "10.244.") == 3 && addresses(w.server) == addresses(second)
	})
	before := w.annotation("a1") + w.annotation("b2")
	if err := w.client.CoreV1().Pods("d").Delete(t.Context(), "a2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("a pod goes", "[n1 d_a1]", "[n2 d_b2]")
	w.stop()
	w.start()
	if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), testPod("c1", "n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want("a pod comes after a restart", "[n1 d_a1 d_c1]", "[n2 d_b2]")
	if after := w.annotation("a1") + w.annotation("b2"); after != before || w.annotation("c1") == "" {
		t.Errorf("annotations changed:\n%s\n%s", before, after)
	}
}
