package web

import (
	"cmp"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web/scene"
)

// newPod draws the part of a node that a pod uses; nil if the node is gone, or not the caller's to see.
func newPod(s *snapshot.Snapshot, pod *answer.PodExplained) *scene.Scene {
	if pod.Node == "" || pod.HostNetwork {
		return nil
	}
	topology, err := answer.NewTopology(s, pod.Node)
	if err != nil {
		return nil
	}
	node := topology.Nodes[0].Of(pod.Pod)
	if len(node.NICs) > 0 {
		return scene.Node(node)
	}
	return scene.OnVeth(node, pod.Pod)
}

// sent is what was measured at the pod whose address a connection comes from.
func sent(s *snapshot.Snapshot, pod string) ([]v1alpha1.PodTraffic, error) {
	e, err := answer.ExplainPod(s, pod)
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(slices.Values(e.Traffic), func(a, b v1alpha1.PodTraffic) int { return cmp.Compare(a.Port, b.Port) }), nil
}
