package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/nodecheck"
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
			"It lists NetworkAttachmentDefinitions, pods and Services whose network is another owner's: new ones like them would not get it.\n" +
			"It counts objects of kinds that are not served, such as EgressFirewalls: they would have no effect.\n" +
			"What follows -- are flags of ovn-offload-agent preflight.\nExit code 1: warnings; 2: a node is not fit; 3: a node has not answered.",
		Example: "  kubectl offload preflight --image registry.example.com/ovn-offload:v0.2.0\n" +
			"  kubectl offload preflight --nodes worker-1,worker-2 -- --gateway-interface=ens1f0np0 --datapath=system",
		RunE: func(cmd *cobra.Command, args []string) error {
			reports, err := o.reports(cmd.Context(), args)
			if err != nil {
				return err
			}
			client, _, err := o.clientIn(nodecheck.Namespace)
			if err != nil {
				return err
			}
			a := answer.NewPreflighted(reports, time.Now())
			return o.say(cmd.OutOrStdout(), a.WithNetworks(nodecheck.Networks(cmd.Context(), client)).WithUnserved(nodecheck.UnservedObjects(cmd.Context(), client)))
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.nodes, "nodes", nil, "nodes to check; empty: all")
	f.StringVar(&o.image, "image", "", "image of the pods; empty: that of the agents, where they are installed")
	return o.answerFlags(cmd)
}

func (o *preflightOptions) reports(ctx context.Context, args []string) ([]nodecheck.Report, error) {
	client, exec, err := o.clientIn(nodecheck.Namespace)
	if err != nil {
		return nil, err
	}
	all, err := o.readNodes(ctx)
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
