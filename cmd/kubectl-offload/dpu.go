package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu/join"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// dpuOptions are the flags of the verbs about DPUs.
type dpuOptions struct {
	kubeconfig, context       string // of the hosts' cluster
	dpuKubeconfig, dpuContext string // of the DPU's cluster; empty: the same
	server                    string
	node, image, output       string
	timeout                   time.Duration
}

func dpuCommand() *cobra.Command {
	var o dpuOptions
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
			return o.join(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	flags.StringVar(&o.node, "dpu", "", "Node of the DPU")
	flags.StringVar(&o.dpuKubeconfig, "dpu-kubeconfig", "", "kubeconfig of the DPU's cluster; empty: that of the hosts' cluster")
	flags.StringVar(&o.dpuContext, "dpu-context", "", "context of the DPU's cluster; empty: that of the hosts' cluster")
	flags = joinCommand.Flags()
	flags.StringVar(&o.server, "server", "", "URL of the hosts' API server, as the DPU reaches it; empty: as the kubeconfig says")
	flags.StringVar(&o.image, "image", "", "image that writes the files; empty: that of the agents on DPUs")
	flags.StringVar(&o.output, "output", "", "directory of this machine to which the files are written, in place of --dpu")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "time for the files to be written on the DPU")
	leave := &cobra.Command{
		Use: "leave HOST", Args: cobra.ExactArgs(1), Short: "locks the DPU of a host out, by deleting its account; with --dpu the DPU's Node loses its label",
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.leave(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	dpu.AddCommand(joinCommand, leave)
	return dpu
}

func (o dpuOptions) join(ctx context.Context, out io.Writer, host string) error {
	if (o.node == "") == (o.output == "") {
		return errors.New("want --dpu or --output")
	}
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return err
	}
	hosts, err := api.NewFor(rc)
	if err != nil {
		return err
	}
	ca, err := join.Authority(rc)
	if err != nil {
		return err
	}
	files, err := join.Admit(ctx, hosts, host, cmp.Or(o.server, rc.Host), ca)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "account ovn-dpu/%s is there\n", host)
	if o.output != "" {
		return write(out, o.output, files)
	}
	if err := o.deliver(ctx, out, files); err != nil {
		return err
	}
	if err := join.Label(ctx, hosts, host, contract.DPUHostLabel); err != nil {
		return err
	}
	fmt.Fprintf(out, "Node %s has label %s\nWatch the DPU begin: kubectl -n ovn-kubernetes get lease ovn-dpu-%s --watch\n", host, contract.DPUHostLabel, host)
	return nil
}

func (o dpuOptions) deliver(ctx context.Context, out io.Writer, files join.Files) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	rc, err := o.dpuConfig()
	if err != nil {
		return err
	}
	client, err := api.NewFor(rc)
	if err != nil {
		return err
	}
	if o.image == "" {
		kinds, err := dynamic.NewForConfig(rc)
		if err != nil {
			return err
		}
		if o.image, err = join.Image(ctx, kinds); err != nil {
			return err
		}
	}
	if err := join.Deliver(ctx, client, o.node, o.image, files); err != nil {
		return err
	}
	fmt.Fprintf(out, "Node %s has the files in %s\n", o.node, join.Dir)
	if err := join.Label(ctx, client, o.node, contract.DPULabel); err != nil {
		return err
	}
	fmt.Fprintf(out, "Node %s has label %s\n", o.node, contract.DPULabel)
	return nil
}

func (o dpuOptions) leave(ctx context.Context, out io.Writer, host string) error {
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return err
	}
	client, err := api.NewFor(rc)
	if err != nil {
		return err
	}
	if err := join.Leave(ctx, client, host); err != nil {
		return err
	}
	fmt.Fprintf(out, "account ovn-dpu/%s is deleted: its DPU has no rights any more\n", host)
	if o.node == "" {
		return nil
	}
	if rc, err = o.dpuConfig(); err != nil {
		return err
	}
	if client, err = api.NewFor(rc); err != nil {
		return err
	}
	if err := join.Unlabel(ctx, client, o.node, contract.DPULabel); err != nil {
		return err
	}
	fmt.Fprintf(out, "Node %s has no label %s any more\n", o.node, contract.DPULabel)
	return nil
}

// dpuConfig is that of the DPU's cluster.
func (o dpuOptions) dpuConfig() (*rest.Config, error) {
	return restConfig(cmp.Or(o.dpuKubeconfig, o.kubeconfig), cmp.Or(o.dpuContext, o.context))
}

func write(out io.Writer, dir string, files join.Files) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "copy the files of %s to %s on the DPU, and label the host's Node %s\n", dir, join.Dir, contract.DPUHostLabel)
	return nil
}

// restConfig finds a cluster as kubectl does.
func restConfig(kubeconfig, name string) (*rest.Config, error) {
	rc, err := clientConfig(kubeconfig, name).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	rc.UserAgent, rc.QPS = "kubectl-offload/"+version, -1
	return rc, nil
}

// contextNamespace is the namespace that kubectl uses.
func contextNamespace(kubeconfig, name string) (string, error) {
	namespace, _, err := clientConfig(kubeconfig, name).Namespace()
	return namespace, err
}

func clientConfig(kubeconfig, name string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name})
}
