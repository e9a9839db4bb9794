package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/nodecheck"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// preflightOptions are the flags of preflight.
type preflightOptions struct {
	readOptions
	nodes []string
	image string
}

func preflightCommand() *cobra.Command {
	var o preflightOptions
	cmd := &cobra.Command{
		Use: "preflight [-- FLAG...]", Short: "are the nodes fit for the network, before it is installed",
		Long: "Preflight runs the agent's preflight in a privileged pod on each node, in the namespace " + nodecheck.Namespace + ", and deletes it.\n" +
			"What follows -- are flags of ovn-offload-agent preflight.\nExit code 1: warnings; 2: a node is not fit; 3: a node has not answered.",
		Example: "  kubectl offload preflight --image registry.example.com/ovn-offload:v0.2.0\n" +
			"  kubectl offload preflight --nodes worker-1,worker-2 -- --gateway-interface=ens1f0np0 --datapath=system",
		RunE: func(cmd *cobra.Command, args []string) error {
			reports, err := o.reports(cmd.Context(), args)
			if err != nil {
				return err
			}
			return o.say(cmd.OutOrStdout(), answer.NewPreflighted(reports, time.Now()))
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.nodes, "nodes", nil, "nodes to check; empty: all")
	f.StringVar(&o.image, "image", "", "image of the pods; empty: that of the agents, where they are installed")
	f.StringVarP(&o.format, "output", "o", "text", "text, json or yaml")
	return o.clusterFlags(cmd)
}

func (o *preflightOptions) reports(ctx context.Context, args []string) ([]nodecheck.Report, error) {
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	exec, err := sysdump.NewCluster(rc, nodecheck.Namespace)
	if err != nil {
		return nil, err
	}
	s := snapshot.Read(ctx, client, o.system, snapshot.Nodes)
	if missing := s.Missing[snapshot.Nodes]; missing != "" {
		return nil, errors.New(missing)
	}
	all, err := snapshot.Objects[corev1.Node](s, snapshot.Nodes)
	if err != nil {
		return nil, err
	}
	nodes, err := nodecheck.Nodes(all, o.nodes)
	if err != nil {
		return nil, usage{err}
	}
	agents, err := conncheck.DaemonSets(ctx, client, o.system)
	if err != nil {
		return nil, err
	}
	image := cmp.Or(o.image, conncheck.Image(agents))
	if image == "" {
		return nil, usage{fmt.Errorf("namespace %s has no agents whose image is known: want --image", o.system)}
	}
	return nodecheck.Cluster{Client: client, Exec: exec, Image: image, Args: args}.Run(ctx, nodes)
}
