package web

import (
	"slices"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// TestWithPods_AreTheNodesOfTheNamespace: agents of other nodes have none of its flows and are not asked.
func TestWithPods_AreTheNodesOfTheNamespace(t *testing.T) {
	s := snapshot.New(taken, "ovn-kubernetes")
	add := func(namespace, name, node, phase string, host bool) {
		s.Add(snapshot.Pods, map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": map[string]any{"nodeName": node, "hostNetwork": host}, "status": map[string]any{"phase": phase},
		})
	}
	add("shop", "a", "w1", "Running", false)
	add("shop", "b", "w1", "Running", false)
	add("shop", "host", "w2", "Running", true)
	add("shop", "ended", "w3", "Succeeded", false)
	add("shop", "no-agent", "w9", "Running", false)
	add("bank", "c", "w4", "Running", false)
	nodes := []string{"w1", "w2", "w3", "w4"}
	for namespace, want := range map[string][]string{"shop": {"w1"}, "bank": {"w4"}, "none": {}, "": nodes} {
		if got, err := WithPods(s, nodes, namespace); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", namespace, got, err, want)
		}
	}
	if !slices.Equal(nodes, []string{"w1", "w2", "w3", "w4"}) {
		t.Errorf("the nodes have changed: %q", nodes)
	}
}
