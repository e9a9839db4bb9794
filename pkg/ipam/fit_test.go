package ipam

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestCheckSubnets_OfNodesWithPods: a plan that moves pods which run is refused. One
// that only adds to what nodes have is not, nor is one that moves nodes without pods.
func TestCheckSubnets_OfNodesWithPods(t *testing.T) {
	const single, dual = "10.244.0.0/16/24", "10.244.0.0/16/24,fd00:10:244::/48/64"
	for _, tc := range []struct {
		name, before, after string
		change              func(node *corev1.Node, pod *corev1.Pod)
		refused             string
	}{
		{name: "the same plan", before: single, after: single},
		{name: "longer node prefix", before: single, after: "10.244.0.0/16/25", refused: "10.244.0.0/24"},
		{name: "shorter node prefix", before: single, after: "10.244.0.0/16/23", refused: "10.244.0.0/24"},
		{name: "another range", before: single, after: "10.8.0.0/16/24", refused: "10.244.0.0/24"},
		{name: "a family less", before: dual, after: single, refused: "fd00:10:244::/64"},
		{name: "another node prefix of the second family", before: dual, after: "10.244.0.0/16/24,fd00:10:244::/48/65",
			refused: "fd00:10:244::/64"},
		{name: "a second range", before: single, after: single + ",10.245.0.0/16/24"},
		{name: "a second range before", before: single, after: "10.245.0.0/16/26," + single},
		{name: "a larger range", before: single, after: "10.244.0.0/15/24"},
		{name: "a second family", before: single, after: dual},
		{name: "families in another order", before: dual, after: "fd00:10:244::/48/64," + single},
		{name: "no subnet", before: single, after: "10.244.0.0/16/23",
			change: func(node *corev1.Node, _ *corev1.Pod) { delete(node.Annotations, contract.NodeSubnetsKey) }},
		{name: "annotation that is not JSON", before: single, after: "10.244.0.0/16/23",
			change: func(node *corev1.Node, _ *corev1.Pod) { node.Annotations[contract.NodeSubnetsKey] = "x" }},
		{name: "legacy form", before: single, after: "10.244.0.0/16/23", refused: "10.244.0.0/24",
			change: func(node *corev1.Node, _ *corev1.Pod) {
				node.Annotations[contract.NodeSubnetsKey] = `{"default":"10.244.0.0/24"}`
			}},
		{name: "pod of another node", before: single, after: "10.244.0.0/16/23",
			change: func(_ *corev1.Node, pod *corev1.Pod) { pod.Spec.NodeName = "other" }},
		{name: "pod without an address", before: single, after: "10.244.0.0/16/23",
			change: func(_ *corev1.Node, pod *corev1.Pod) { delete(pod.Annotations, contract.PodNetworksKey) }},
		{name: "pod that has ended", before: single, after: "10.244.0.0/16/23",
			change: func(_ *corev1.Node, pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }},
		{name: "subnet that has no pod", before: single, after: single,
			change: func(node *corev1.Node, _ *corev1.Pod) {
				node.Annotations[contract.NodeSubnetsKey] = `{"default":["10.244.0.0/24","10.9.0.0/24"]}`
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAllocator(t, plan(t, tc.before))
			node, pod := newNode("n", 1), newPod("p", "n", 1)
			decideNode(t, a, node)
			decidePod(t, a, pod, node)
			if tc.change != nil {
				tc.change(node, pod)
			}
			err := plan(t, tc.after).CheckSubnets([]*corev1.Node{newNode("new", 2), node}, []*corev1.Pod{newPod("q", "new", 2), pod})
			if tc.refused == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range []string{"node n ", tc.refused, "ns/p", tc.after, "--renumber-nodes"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %s", err, want)
				}
			}
		})
	}
}
