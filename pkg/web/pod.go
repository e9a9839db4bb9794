package web

import (
	"cmp"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// newPod draws the part of a node that a pod uses; nil if the node is gone, or not the caller's to see.
func newPod(s *snapshot.Snapshot, pod *answer.PodExplained) *Scene {
	if pod.Node == "" || pod.HostNetwork {
		return nil
	}
	topology, err := answer.NewTopology(s, pod.Node)
	if err != nil {
		return nil
	}
	node := topology.Nodes[0]
	var nics []answer.TopologyNIC
	for _, nic := range node.NICs {
		nic.Pods = slices.DeleteFunc(slices.Clone(nic.Pods), func(vf answer.TopologyVF) bool { return vf.Pod != pod.Pod })
		if len(nic.Pods) > 0 {
			nics = append(nics, nic)
		}
	}
	node.NICs, node.OtherPods = nics, nil
	if len(nics) > 0 {
		return newNode(node)
	}
	return onVeth(node, pod)
}

// onVeth draws a pod without a VF.
func onVeth(n answer.TopologyNode, pod *answer.PodExplained) *Scene {
	s := &Scene{Width: sceneW}
	software := softwareBand(n)
	box := Box{ID: "pod", Kind: KindPod, X: podX, Y: software.Y + boxHeight, W: podW, H: boxHeight, Title: pod.Pod, Text: []string{"on a veth"}}
	s.add(software, box)
	s.way(PlaceSoftware, 100, pod.Pod+": all packets in software", box.right(), [2]int{software.X + software.W, box.right()[1]})
	s.Height = software.Y + software.H + 2*margin
	s.frame(n)
	return s
}

// sent is what was measured at the pod whose address a connection comes from.
func sent(s *snapshot.Snapshot, pod string) ([]v1alpha1.PodTraffic, error) {
	e, err := answer.ExplainPod(s, pod)
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(slices.Values(e.Traffic), func(a, b v1alpha1.PodTraffic) int { return cmp.Compare(a.Port, b.Port) }), nil
}
