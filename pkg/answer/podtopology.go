package answer

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// PodTopology is a pod with what it uses of its node: VF, NIC and DPU, or a veth.
type PodTopology struct {
	Header
	Pod   string `json:"pod"`
	Phase string `json:"phase"`
	// HostNetwork: the pod has the node's network.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// Veth: none of the pod's interfaces is a VF.
	Veth     bool           `json:"veth,omitempty"`
	Networks []PodInterface `json:"networks,omitempty"`
	// Node has the pod's VFs alone. It is not set before the pod is scheduled.
	Node *TopologyNode `json:"node,omitempty"`
}

// NewPodTopology computes the tree of the pod "namespace/name".
func NewPodTopology(s *snapshot.Snapshot, name string) (*PodTopology, error) {
	e, err := ExplainPod(s, name)
	if err != nil {
		return nil, err
	}
	t := &PodTopology{Header: header("PodTopology", s), Pod: name, Phase: e.Phase, HostNetwork: e.HostNetwork, Networks: e.Networks}
	t.Veth = slices.ContainsFunc(e.Reasons, func(r Reason) bool { return r.Reason == noVF })
	t.Next = "kubectl offload explain pod/" + name
	if e.Node == "" {
		return t, nil
	}
	all, err := NewTopology(s, e.Node)
	if errors.As(err, new(ErrNotFound)) { // the Node is gone, or may not be read
		t.Node = &TopologyNode{Node: e.Node}
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	node := all.Nodes[0].Of(name)
	t.Node = &node
	return t, nil
}

// Text implements Answer.
func (t *PodTopology) Text(p *Page) {
	p.Line("pod/%s  %s", t.Pod, cmp.Or(strings.ToLower(t.Phase), "unknown"))
	var rows [][]string
	for _, n := range t.Networks {
		rows = append(rows, n.row())
	}
	p.Table(rows)
	if t.Node == nil {
		p.Line("not scheduled")
		return
	}
	lines := t.Node.nics()
	switch {
	case t.HostNetwork:
		lines = []string{"the node's own network (hostNetwork)"}
	case t.Veth:
		lines = []string{"a veth"}
	case len(lines) == 0:
		lines = []string{"a VF that the NodeOffload does not list, or a veth"}
	}
	p.Line("└─ %s", t.Node.title())
	branches(p, "   ", lines)
	p.Line("")
}
