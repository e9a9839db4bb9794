package agents

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// Asker asks agents: through the relay, or directly.
type Asker interface {
	// WithFlows are the nodes with flows of a namespace, or of any for "".
	WithFlows(ctx context.Context, namespace string) (nodes, missing []string, err error)
	// Asked are the agents of nodes, for summaries with the pods of a namespace, or of all for "".
	Asked(namespace string) flowapi.Sources
	// Named are the answers of nodes, with names of the flows if the query asks for the rules.
	Named(ctx context.Context, nodes []string, q flowapi.Query) (answers []*flowapi.Flows, missing []string)
	// AddRules adds the rules of flows, with their names.
	AddRules(ctx context.Context, flows []*flowapi.Flow) error
}

// archivedFlows bounds the flows of a node in an archive: each has some fifty rules.
const archivedFlows = 500

// Collect reads the flows of nodes for an archive, as far as their agents answer. The snapshot says which do not.
func Collect(ctx context.Context, places func() ([]Place, error), s *snapshot.Snapshot, only []string, progress io.Writer) map[string]snapshot.NodeFlows {
	from, err := Find(ctx, s, "", places)
	if err != nil {
		s.Unread = &snapshot.Unread{Flows: []string{"flows: " + err.Error()}, Summaries: []string{"flows: " + err.Error()}}
		return nil
	}
	nodes, left := sysdump.Nodes(from.Nodes(), only)
	answers, missing := from.Named(ctx, nodes, flowapi.Query{All: true, Why: true, TC: true, Limit: archivedFlows})
	flows := flowapi.Joined(answers)
	summaries, unread := flowapi.All(ctx, nodes, func(ctx context.Context, node string) (*flowapi.Summary, error) {
		return from.Of(node).Summary(ctx, true)
	})
	out := map[string]snapshot.NodeFlows{}
	for _, summary := range summaries {
		of := snapshot.NodeFlows{Summary: summary, DPU: from.DPU(summary.Node)}
		for _, f := range flows {
			if f.Node == summary.Node {
				of.Flows = append(of.Flows, f)
			}
		}
		out[summary.Node] = of
	}
	for _, problem := range slices.Concat(from.Unknown, missing, unread) {
		fmt.Fprintln(progress, "flows:", problem)
	}
	s.Unread = &snapshot.Unread{Flows: slices.Concat(from.Unknown, missing, left), Summaries: slices.Concat(from.Unknown, unread, left)}
	return out
}
