package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// agents are asked for flows, and the databases for the names of these.
type agents struct{ byexec.Agents }

// answers are those of the agents of nodes, with names for their flows if the query asks for the rules.
func (a agents) answers(ctx context.Context, nodes []string, q flowapi.Query) (answers []*flowapi.Flows, missing []string) {
	answers, missing = byexec.All(ctx, nodes, func(ctx context.Context, node string) (*flowapi.Flows, error) {
		got, err := a.Of(node).Flows(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range got.Flows {
			got.Flows[i].Node = node
		}
		return got, nil
	})
	for _, got := range answers {
		if left := got.Matched - len(got.Flows) + got.Unseen; left > 0 {
			missing = append(missing, fmt.Sprintf("node/%s: %d flows more, with fewer packets", got.Node, left))
		}
	}
	if !q.Why {
		return answers, missing
	}
	index, err := flownames.Look(ctx, databases{a.Cluster, a.Pods}.run, joined(answers))
	if err != nil { // the flows are an answer without names
		return answers, append(missing, "names of flows: "+err.Error())
	}
	for _, got := range answers {
		for i := range got.Flows {
			index.Name(&got.Flows[i])
		}
	}
	return answers, missing
}

func joined(answers []*flowapi.Flows) (flows []flowapi.Flow) {
	for _, got := range answers {
		flows = append(flows, got.Flows...)
	}
	return flows
}

// flows are those of all answers.
func (a agents) flows(ctx context.Context, nodes []string, q flowapi.Query) (flows []flowapi.Flow, missing []string) {
	answers, missing := a.answers(ctx, nodes, q)
	return joined(answers), missing
}

// archivedFlows bounds the flows of a node in an archive: each has some fifty rules.
const archivedFlows = 500

// collectFlows reads the flows of nodes for an archive, as far as their agents answer.
func collectFlows(ctx context.Context, cluster *sysdump.Cluster, s *snapshot.Snapshot, only []string, progress io.Writer) map[string]snapshot.NodeFlows {
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil
	}
	from := agents{byexec.Agents{Cluster: cluster, Pods: pods}}
	nodes := slices.DeleteFunc(from.Nodes(), func(node string) bool { return len(only) > 0 && !slices.Contains(only, node) })
	flows, missing := from.flows(ctx, nodes, flowapi.Query{All: true, Why: true, Limit: archivedFlows})
	summaries, unread := byexec.All(ctx, nodes, func(ctx context.Context, node string) (*flowapi.Summary, error) {
		return from.Of(node).Summary(ctx, true)
	})
	out := map[string]snapshot.NodeFlows{}
	for _, summary := range summaries {
		of := snapshot.NodeFlows{Summary: summary}
		for _, f := range flows {
			if f.Node == summary.Node {
				of.Flows = append(of.Flows, f)
			}
		}
		out[summary.Node] = of
	}
	for _, problem := range append(missing, unread...) {
		fmt.Fprintln(progress, "flows:", problem)
	}
	return out
}
