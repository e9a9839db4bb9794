package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi/agents"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// agentsOf are those of a node, or of all for "". s has the pods and nodes of the cluster, where there is no relay.
func (o *clusterOptions) agentsOf(ctx context.Context, s *snapshot.Snapshot, node string) (agents.Asker, error) {
	if relay, err := o.relay(ctx); relay != nil || err != nil {
		return relay, err
	}
	return agents.Find(ctx, s, node, o.places)
}

// relay is nil where the cluster has none, or the user wants none.
func (o *clusterOptions) relay(ctx context.Context) (*agents.Relay, error) {
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil || o.direct {
		return nil, err
	}
	return o.lookup.Relay(ctx, rc, o.system)
}

// relayFlags let a user do without the relay.
func relayFlags(cmd *cobra.Command, o *clusterOptions) {
	cmd.Flags().BoolVar(&o.direct, "direct", false, "ask the agents of nodes by pods/exec, also where a relay is")
	dpuFlags(cmd, o)
}

// places are the cluster, and that of the flags for DPUs.
func (o *clusterOptions) places() (places []agents.Place, err error) {
	clusters := []clusterOptions{*o}
	if o.dpuKubeconfig != "" || o.dpuContext != "" {
		clusters = append(clusters, clusterOptions{kubeconfig: cmp.Or(o.dpuKubeconfig, o.kubeconfig), context: o.dpuContext, system: o.system})
	}
	for _, c := range clusters {
		var place agents.Place
		if place.Cluster, err = c.cluster(); err != nil {
			return nil, err
		}
		if place.From, err = c.lister(); err != nil {
			return nil, err
		}
		places = append(places, place)
	}
	return places, nil
}

// dpuFlags say where DPUs are.
func dpuFlags(cmd *cobra.Command, o *clusterOptions) {
	cmd.Flags().StringVar(&o.dpuKubeconfig, "dpu-kubeconfig", "", "kubeconfig of the cluster with the Nodes of DPUs; empty: that of the hosts")
	cmd.Flags().StringVar(&o.dpuContext, "dpu-context", "", "context of the cluster with the Nodes of DPUs; empty: the current one of --dpu-kubeconfig")
}
