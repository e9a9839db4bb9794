package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// agents are those of a cluster and of the DPUs of its hosts.
type agents struct{ byexec.Agents }

// agentsOf are those of the pods of a snapshot, and of DPUs if node, or any node for "", may have one.
func agentsOf(ctx context.Context, o *clusterOptions, s *snapshot.Snapshot, node string) (of agents, missing []string, err error) {
	if of.Pods, err = snapshot.Objects[corev1.Pod](s, snapshot.Pods); err != nil {
		return of, nil, err
	}
	if of.Cluster, err = o.cluster(); err != nil || node != "" && of.Has(node) {
		return of, nil, err
	}
	if missing, err = of.addDPUs(ctx, o); err != nil {
		return of, nil, err
	}
	nodes, err := snapshot.Objects[corev1.Node](s, snapshot.Nodes)
	for _, n := range nodes {
		switch dpu := of.DPU(n.Name); {
		case dpu != "":
			s.SetDPU(n.Name, dpu)
		case contract.IsDPUHost(&n) && node == "":
			missing = append(missing, fmt.Sprintf("node/%s: %s", n.Name, withDPU))
		}
	}
	return of, missing, err
}

// withDPU is why a host has no flows.
const withDPU = "no agent with its flows is known: where its DPU is a Node of another cluster, give --dpu-context or --dpu-kubeconfig"

// addDPUs finds DPUs in the cluster and in that of the flags.
func (a *agents) addDPUs(ctx context.Context, o *clusterOptions) (missing []string, err error) {
	clusters := []clusterOptions{*o}
	if o.dpuKubeconfig != "" || o.dpuContext != "" {
		clusters = append(clusters, clusterOptions{kubeconfig: cmp.Or(o.dpuKubeconfig, o.kubeconfig), context: o.dpuContext, system: o.system})
	}
	for _, c := range clusters {
		client, err := c.lister()
		if err != nil {
			return nil, err
		}
		found := snapshot.ReadLists(ctx, client, c.system, map[snapshot.Resource][]snapshot.Selected{snapshot.Pods: {{Namespace: c.system, Labels: "app=" + byexec.DPUApp}}})
		if why := found.Missing[snapshot.Pods]; why != "" {
			missing = append(missing, "pods of DPUs: "+why)
			continue
		}
		of := byexec.Agents{}
		if of.Pods, err = snapshot.Objects[corev1.Pod](found, snapshot.Pods); err != nil {
			return nil, err
		}
		if of.Cluster, err = c.cluster(); err != nil {
			return nil, err
		}
		missing = append(missing, a.AddDPUs(ctx, of)...)
	}
	return missing, nil
}

// dpuFlags say where DPUs are.
func dpuFlags(cmd *cobra.Command, o *clusterOptions) {
	cmd.Flags().StringVar(&o.dpuKubeconfig, "dpu-kubeconfig", "", "kubeconfig of the cluster with the Nodes of DPUs; empty: that of the hosts")
	cmd.Flags().StringVar(&o.dpuContext, "dpu-context", "", "context of the cluster with the Nodes of DPUs; empty: the current one of --dpu-kubeconfig")
}

// archivedFlows bounds the flows of a node in an archive: each has some fifty rules.
const archivedFlows = 500

// collectFlows reads the flows of nodes for an archive, as far as their agents answer. The snapshot says which do not.
func collectFlows(ctx context.Context, o *clusterOptions, s *snapshot.Snapshot, only []string, progress io.Writer) map[string]snapshot.NodeFlows {
	from, unknown, err := agentsOf(ctx, o, s, "")
	if err != nil {
		s.Unread = &snapshot.Unread{Flows: []string{"flows: " + err.Error()}, Summaries: []string{"flows: " + err.Error()}}
		return nil
	}
	nodes, left := sysdump.Nodes(from.Nodes(), only)
	answers, missing := from.Named(ctx, nodes, flowapi.Query{All: true, Why: true, TC: true, Limit: archivedFlows})
	flows := byexec.Joined(answers)
	summaries, unread := byexec.All(ctx, nodes, func(ctx context.Context, node string) (*flowapi.Summary, error) {
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
	for _, problem := range slices.Concat(unknown, missing, unread) {
		fmt.Fprintln(progress, "flows:", problem)
	}
	s.Unread = &snapshot.Unread{Flows: slices.Concat(unknown, missing, left), Summaries: slices.Concat(unknown, unread, left)}
	return out
}
