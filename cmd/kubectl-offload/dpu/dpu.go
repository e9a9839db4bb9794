// Package dpu has the verbs about hosts with a DPU.
//
// Place in the data flow:
//
//	kubectl offload dpu join, dpu leave -> Command -> pkg/dpu/join
package dpu

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/pkg/dpu/join"
)

// options are the flags of the verbs.
type options struct {
	restConfig                func(kubeconfig, context string) (*rest.Config, error)
	kubeconfig, context       string // of the hosts' cluster
	dpuKubeconfig, dpuContext string // of the DPU's cluster; empty: the same
	node                      string
	join                      join.Options
}

// Command is the verb dpu. restConfig finds a cluster as kubectl does.
func Command(restConfig func(kubeconfig, context string) (*rest.Config, error)) *cobra.Command {
	o := options{restConfig: restConfig}
	dpu := &cobra.Command{Use: "dpu", Short: "hosts with a DPU, and their DPUs"}
	flags := dpu.PersistentFlags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the hosts' cluster; empty: as kubectl does")
	flags.StringVar(&o.context, "context", "", "context of the hosts' cluster; empty: the current one")
	joinCommand := &cobra.Command{
		Use: "join HOST", Args: cobra.ExactArgs(1),
		Short: "admits the DPU of a host: account, kubeconfig on the DPU, labels of both Nodes",
		Example: `  # the DPU is Node bf3-1 of another cluster
  kubectl offload dpu join worker-1 --context hosts --dpu bf3-1 --dpu-context dpus
  # the DPU is in no cluster: copy the files to ` + join.Dir + ` on the DPU
  kubectl offload dpu join worker-1 --output ./worker-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			pair, err := o.pair(cmd, args[0])
			if err != nil {
				return err
			}
			return pair.Join(cmd.Context(), o.join)
		},
	}
	flags.StringVar(&o.node, "dpu", "", "Node of the DPU")
	flags.StringVar(&o.dpuKubeconfig, "dpu-kubeconfig", "", "kubeconfig of the DPU's cluster; empty: that of the hosts' cluster")
	flags.StringVar(&o.dpuContext, "dpu-context", "", "context of the DPU's cluster; empty: that of the hosts' cluster")
	flags = joinCommand.Flags()
	flags.StringVar(&o.join.Server, "server", "", "URL of the hosts' API server, as the DPU reaches it; empty: as the kubeconfig says")
	flags.StringVar(&o.join.Image, "image", "", "image that writes the files; empty: that of the agents on DPUs")
	flags.StringVar(&o.join.Output, "output", "", "directory of this machine to which the files are written, in place of --dpu")
	flags.DurationVar(&o.join.Timeout, "timeout", 2*time.Minute, "time for the files to be written on the DPU")
	leave := &cobra.Command{
		Use: "leave HOST", Args: cobra.ExactArgs(1), Short: "locks the DPU of a host out, by deleting its account; with --dpu the DPU's Node loses its label",
		RunE: func(cmd *cobra.Command, args []string) error {
			pair, err := o.pair(cmd, args[0])
			if err != nil {
				return err
			}
			return pair.Leave(cmd.Context())
		},
	}
	dpu.AddCommand(joinCommand, leave)
	return dpu
}

// pair is a host and its DPU.
func (o options) pair(cmd *cobra.Command, host string) (p join.Pair, err error) {
	p = join.Pair{Host: host, DPU: o.node, Progress: cmd.OutOrStdout()}
	if p.Hosts, err = o.restConfig(o.kubeconfig, o.context); err == nil && o.node != "" {
		p.DPUs, err = o.restConfig(cmp.Or(o.dpuKubeconfig, o.kubeconfig), cmp.Or(o.dpuContext, o.context))
	}
	return p, err
}
