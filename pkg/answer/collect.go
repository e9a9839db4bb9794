package answer

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// NodesToCollect are at most so many nodes for an archive, those with problems among them; nil: all.
func NodesToCollect(s *snapshot.Snapshot, most int) ([]string, error) {
	nodes, err := snapshot.Objects[corev1.Node](s, snapshot.Nodes)
	if err != nil {
		return nil, err
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	var all, troubled []string
	for _, node := range nodes {
		all = append(all, node.Name)
	}
	for _, p := range f.problems() {
		for _, object := range p.Objects {
			if node, ok := strings.CutPrefix(object, "node/"); ok {
				troubled = append(troubled, node)
			}
		}
	}
	slices.Sort(all)
	return sysdump.Sample(all, pods, troubled, most), nil
}
