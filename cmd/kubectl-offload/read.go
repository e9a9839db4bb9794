package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/agents"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
	"github.com/ovn-offload/ovn-offload/pkg/web/scene"
)

// clusterOptions say which cluster, and which namespaces there.
type clusterOptions struct {
	kubeconfig, context, namespace, system string
	// dpuKubeconfig and dpuContext say where the Nodes of DPUs are, if in another cluster.
	dpuKubeconfig, dpuContext string
	direct                    bool // agents are asked by pods/exec, also where a relay is
	lookup                    *agents.Lookup
}

// readOptions are the flags of the verbs that read.
type readOptions struct {
	clusterOptions
	format, from string
	// within are the namespaces whose objects are read where a relay is and those of all may not be listed.
	within []string
}

// clusterFlags say which cluster is read.
func (o *clusterOptions) clusterFlags(cmd *cobra.Command) *cobra.Command {
	o.lookup = &agents.Lookup{}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig; empty: as kubectl does")
	flags.StringVar(&o.context, "context", "", "context of the kubeconfig; empty: the current one")
	flags.StringVar(&o.system, "system-namespace", "ovn-kubernetes", "namespace of ovn-offload's own pods")
	return cmd
}

// answerFlags are those of verbs with an answer.
func (o *readOptions) answerFlags(cmd *cobra.Command) *cobra.Command {
	o.clusterFlags(cmd).Flags().StringVarP(&o.format, "output", "o", "text", "text, json or yaml")
	return cmd
}

// flags are those of verbs with an answer that an archive has, too.
func (o *readOptions) flags(cmd *cobra.Command) *cobra.Command {
	flags := o.answerFlags(cmd).Flags()
	flags.StringVar(&o.from, "from", "", "archive of kubectl offload sysdump, in place of a cluster")
	return cmd
}

// readTimeout bounds one answer of the API server.
const readTimeout = 30 * time.Second

// snapshot reads the resources of a verb.
func (o *readOptions) snapshot(ctx context.Context, resources ...snapshot.Resource) (*snapshot.Snapshot, error) {
	lists := map[snapshot.Resource][]snapshot.Selected{}
	for _, r := range resources {
		lists[r] = r.Lists(o.system)
	}
	return o.lists(ctx, lists)
}

// lists reads lists of the API server. An archive has all that it has.
func (o *readOptions) lists(ctx context.Context, lists map[snapshot.Resource][]snapshot.Selected) (*snapshot.Snapshot, error) {
	if o.from != "" {
		return openArchive(o.from)
	}
	client, err := o.lister()
	if err != nil {
		return nil, err
	}
	if len(o.within) > 0 && o.within[0] != "" {
		if relay, err := o.relay(ctx); relay != nil || err != nil {
			return snapshot.ReadLists(ctx, snapshot.Within{Lister: client, Namespaces: o.within, System: o.system}, o.system, lists), err
		}
	}
	return snapshot.ReadLists(ctx, client, o.system, lists), nil
}

// lister reads from the API server.
func (o *clusterOptions) lister() (*snapshot.Client, error) {
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	rc.Timeout = readTimeout
	return snapshot.NewClient(rc)
}

// ensureNamespace takes the namespace of the context where none is given.
func (o *clusterOptions) ensureNamespace() (err error) {
	if o.namespace == "" {
		o.namespace, err = contextNamespace(o.kubeconfig, o.context)
	}
	return err
}

// client is for all objects of the cluster.
func (o *clusterOptions) client() (dynamic.Interface, error) {
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	return dynamic.NewForConfig(rc)
}

// readNodes are those of the cluster; unlike a snapshot, they must be readable.
func (o *readOptions) readNodes(ctx context.Context) ([]corev1.Node, error) {
	s, err := o.snapshot(ctx, snapshot.Nodes)
	if err != nil {
		return nil, err
	}
	if missing := s.Missing[snapshot.Nodes]; missing != "" {
		return nil, errors.New(missing)
	}
	return snapshot.Objects[corev1.Node](s, snapshot.Nodes)
}

// cluster reaches into the network's own pods.
func (o *clusterOptions) cluster() (*sysdump.Cluster, error) { return o.execIn(o.system) }

// execIn runs commands in the pods of a namespace.
func (o *clusterOptions) execIn(namespace string) (*sysdump.Cluster, error) {
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	return sysdump.NewCluster(rc, namespace)
}

func openArchive(path string) (*snapshot.Snapshot, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, usage{err}
	}
	defer file.Close()
	s, err := snapshot.Open(file)
	if err != nil {
		return nil, usage{fmt.Errorf("reading %s: %w", path, err)}
	}
	return s, nil
}

// exit is an exit code that is no mistake of the user.
type exit answer.Code

// Error implements error.
func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// say writes an answer, and makes an error of its exit code.
func (o *readOptions) say(w io.Writer, a answer.Answer) error {
	if err := answer.Write(w, a, o.format, time.Now()); err != nil {
		return usage{err}
	}
	if code := a.Head().Code; code != answer.Good {
		return exit(code)
	}
	return nil
}

// usage is a wrong command.
type usage struct{ error }

func statusCommand() *cobra.Command {
	var o readOptions
	var patience time.Duration
	cmd := &cobra.Command{
		Use: "status", Args: cobra.NoArgs, Short: "the whole installation on one screen",
		Long: "Status says whether the network works, from objects of the API server alone.\nExit code 0: all is well; 1: it works in part; 2: a part is broken; 3: facts are missing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for end := time.Now().Add(patience); ; {
				st, err := o.status(cmd.Context())
				if err != nil {
					return err
				}
				if st.Code == answer.Good || time.Now().After(end) {
					return o.say(cmd.OutOrStdout(), st)
				}
				select {
				case <-cmd.Context().Done():
					return cmd.Context().Err()
				case <-time.After(waitPeriod):
				}
			}
		},
	}
	cmd.Flags().DurationVar(&patience, "wait", 0, "time to wait for exit code 0")
	return o.flags(cmd)
}

// waitPeriod is the time between two looks of --wait.
const waitPeriod = 2 * time.Second

func (o *readOptions) status(ctx context.Context) (*answer.Status, error) {
	s, err := o.snapshot(ctx, answer.StatusResources()...)
	if err != nil {
		return nil, err
	}
	return answer.NewStatus(s)
}

func topologyCommand() *cobra.Command {
	var o readOptions
	cmd := &cobra.Command{
		Use: "topology [node/NAME]", Args: cobra.MaximumNArgs(1), Short: "the tree of nodes, NICs, VFs and pods",
		RunE: func(cmd *cobra.Command, args []string) error {
			only := ""
			if len(args) == 1 {
				var isNode bool
				if only, isNode = strings.CutPrefix(args[0], "node/"); !isNode || only == "" {
					return usage{fmt.Errorf("%q: want node/NAME", args[0])}
				}
			}
			s, err := o.snapshot(cmd.Context(), answer.TopologyResources()...)
			if err != nil {
				return err
			}
			t, err := answer.NewTopology(s, only)
			if err != nil {
				return err
			}
			switch o.format {
			case "dot":
				_, err := io.WriteString(cmd.OutOrStdout(), t.DOT())
				return err
			case "svg":
				if only == "" {
					return usage{errors.New("want node/NAME: a drawing is of one node")}
				}
				_, err := io.WriteString(cmd.OutOrStdout(), scene.NodeSVG(t.Nodes[0]))
				return err
			}
			return o.say(cmd.OutOrStdout(), t)
		},
	}
	o.flags(cmd)
	cmd.Flags().Lookup("output").Usage = "text, json, yaml, dot (Graphviz), or svg of one node"
	return cmd
}
