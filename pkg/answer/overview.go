package answer

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Overview is the status with a word about each node.
type Overview struct {
	*Status
	EachNode []NodeState `json:"eachNode"`
}

// NodeState is a node in one glance.
type NodeState struct {
	Node string `json:"node"`
	// Zone is the node's label topology.kubernetes.io/zone.
	Zone            string                `json:"zone,omitempty"`
	Offload         v1alpha1.OffloadState `json:"offload,omitempty"`
	HardwarePercent *int                  `json:"hardwarePercent,omitempty"`
	// Severity is that of its worst problem.
	Severity Severity `json:"severity,omitempty"`
}

// NewOverview computes it, from what NewStatus reads.
func NewOverview(s *snapshot.Snapshot) (*Overview, error) {
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	o := &Overview{Status: newStatus(f, s)}
	offloads := map[string]v1alpha1.NodeOffloadStatus{}
	for _, n := range f.offloads {
		offloads[n.Name] = n.Status
	}
	severities := ofNodes(f.problems())
	for _, n := range f.nodes {
		status := offloads[n.Name]
		o.EachNode = append(o.EachNode, NodeState{n.Name, n.Labels[corev1.LabelTopologyZone], status.Offload, status.HardwarePercent, severities[n.Name]})
	}
	return o, nil
}
