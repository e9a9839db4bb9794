package agents

import (
	"context"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// FlowOf names a flow of a node. All rights of some users are in one namespace; "": all flows are read.
type FlowOf struct{ Node, ID, Namespace string }

// WithRules reads the flows of the node of a flow, with the rules of all that are on its way, and says what is missing.
func WithRules(ctx context.Context, from Asker, s *snapshot.Snapshot, of FlowOf) (flows []flowapi.Flow, missing []string) {
	q := flowapi.Query{All: true, Limit: flowapi.MaxLimit}
	if of.Namespace != "" {
		q = flowapi.Query{Namespace: of.Namespace, Why: true}
	}
	answers, missing := from.Named(ctx, []string{of.Node}, q)
	s.Measure(answers)
	flows = flowapi.Joined(answers)
	if !q.Why {
		if err := from.AddRules(ctx, answer.WayOf(flows, of.ID)); err != nil {
			missing = append(missing, err.Error())
		}
	}
	return flows, missing
}
