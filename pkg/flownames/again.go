package flownames

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// AddAll is Add for flows that agents gave. Rules change and flows end between the dump, the question for the rules and the reading of
// the databases. So agents are asked once more about flows without names, and what has ended by then is stale. Missing are the nodes that
// did not answer again: their flows are as they were.
func AddAll(ctx context.Context, from Asker, agents flowapi.Sources, flows []*flowapi.Flow) (missing []string, err error) {
	if err := Add(ctx, from, flows); err != nil {
		return nil, err
	}
	doubtful := map[string][]*flowapi.Flow{}
	for _, f := range flows {
		if mayHaveChanged(f) && len(doubtful[f.Node]) < flowapi.MaxIDs {
			doubtful[f.Node] = append(doubtful[f.Node], f)
		}
	}
	answers, missing := flowapi.All(ctx, slices.Sorted(maps.Keys(doubtful)), func(ctx context.Context, node string) (*flowapi.Flows, error) {
		got, err := agents(node).Flows(ctx, flowapi.Query{IDs: joined(doubtful[node]), Why: true, Limit: flowapi.MaxIDs})
		if got != nil {
			got.Node = node // that of a DPU has another name
		}
		return got, err
	})
	if err := Add(ctx, from, flowapi.Each(answers...)); err != nil {
		return nil, err
	}
	for _, got := range answers {
		settle(doubtful[got.Node], got.Flows)
	}
	return missing, nil
}

// mayHaveChanged says that a flow has no name for another reason than that its rules are of no object.
func mayHaveChanged(f *flowapi.Flow) bool {
	if len(f.DecidedBy) > 0 || f.Why == nil || f.Stale || f.Why.Problem == flowapi.NoRules || f.ID == "" {
		return false
	}
	return f.Why.Problem != "" || slices.ContainsFunc(f.Why.Rules, func(r flowapi.Rule) bool { return r.Name != nil && r.Name.Problem != "" })
}

func joined(flows []*flowapi.Flow) string {
	var out []string
	for _, f := range flows {
		out = append(out, f.ID)
	}
	return strings.Join(out, ",")
}

// settle puts flows as they are now in the place of what they were. An agent of a former version does not know the question: its answer
// has others, and counts for nothing.
func settle(flows []*flowapi.Flow, now []flowapi.Flow) {
	left := map[string]*flowapi.Flow{}
	for _, f := range flows {
		left[f.ID] = f
	}
	if slices.ContainsFunc(now, func(f flowapi.Flow) bool { return left[f.ID] == nil }) {
		return
	}
	for _, f := range now {
		was := left[f.ID]
		delete(left, f.ID)
		f.Node = was.Node
		if f.Why != nil {
			f.Why.TC = was.Why.TC
		}
		*was = f
	}
	for _, f := range left {
		f.Stale = true
	}
}
