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

// flows reads the flows of nodes, and names them if the query asks for their rules.
func (a agents) flows(ctx context.Context, nodes []string, q flowapi.Query) (flows []flowapi.Flow, missing []string, err error) {
	answers, missing := byexec.All(ctx, nodes, func(ctx context.Context, node string) (*flowapi.Flows, error) {
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
		flows = append(flows, got.Flows...)
		if left := got.Matched - len(got.Flows) + got.Unseen; left > 0 {
			missing = append(missing, fmt.Sprintf("node/%s: %d flows more, with fewer packets", got.Node, left))
		}
	}
	if !q.Why {
		return flows, missing, nil
	}
	index, err := flownames.Look(ctx, databases{a.Cluster, a.Pods}.run, flows)
	if err != nil {
		return flows, append(missing, "names of flows: "+err.Error()), nil //nolint:nilerr // the flows are an answer without names
	}
	for i := range flows {
		index.Name(&flows[i])
	}
	return flows, missing, nil
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
	flows, missing, err := from.flows(ctx, nodes, flowapi.Query{All: true, Why: true, Limit: archivedFlows})
	if err != nil {
		missing = append(missing, err.Error())
	}
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
