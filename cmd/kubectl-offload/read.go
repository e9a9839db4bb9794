package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/agents"
	"github.com/ovn-offload/ovn-offload/pkg/nearby"
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
	at           string // of trace: the node that gets packets from outside
	// within are the namespaces whose objects are read where a relay is and those of all may not be listed.
	within []string
	// kept are the lists of a command that looks again and again; nil: it looks once.
	kept *nearby.Kept
}

// clusterFlags say which cluster is read.
func (o *clusterOptions) clusterFlags(cmd *cobra.Command) *cobra.Command {
	o.lookup = &agents.Lookup{Say: func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "kubectl offload:", text) }}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig; empty: as kubectl does")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig; empty: the current one")
	f.StringVar(&o.system, "system-namespace", "ovn-kubernetes", "namespace of ovn-offload's own pods")
	return cmd
}

// answerFlags are those of verbs with an answer.
func (o *readOptions) answerFlags(cmd *cobra.Command) *cobra.Command {
	o.format = formats()[0]
	flags.Choose(o.clusterFlags(cmd).Flags(), &o.format, "output,o", "text, json or yaml", formats())
	return cmd
}

// formats are those of all answers.
func formats() []string { return []string{"text", "json", "yaml"} }

// flags are those of verbs with an answer that an archive has, too.
func (o *readOptions) flags(cmd *cobra.Command) *cobra.Command {
	o.answerFlags(cmd).Flags().StringVar(&o.from, "from", "", "archive of kubectl offload sysdump, in place of a cluster")
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

// clientIn is client, and runs commands in the pods of a namespace.
func (o *clusterOptions) clientIn(namespace string) (dynamic.Interface, *sysdump.Cluster, error) {
	client, err := o.client()
	if err != nil {
		return nil, nil, err
	}
	exec, err := o.execIn(namespace)
	return client, exec, err
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

// wrong makes one of an error, if there is one.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return usage{err}
}

// statusOptions are the flags of status.
type statusOptions struct {
	readOptions
	patience        time.Duration
	watch, problems bool
}

func statusCommand() *cobra.Command { return new(statusOptions).command() }

func (o *statusOptions) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Args: cobra.MaximumNArgs(1), Short: "the whole installation on one screen",
		Long:    "Status says whether the network works, from objects of the API server alone.\nExit code 0: all is well; 1: it works in part; 2: a part is broken; 3: facts are missing.",
		Example: "  kubectl offload status\n  kubectl offload status --problems --watch\n  kubectl offload status --wait 5m",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.readPatience(cmd, args); err != nil {
				return err
			}
			switch {
			case o.watch && o.patience > 0:
				return usage{errors.New("want --watch or --wait")}
			case o.watch:
				return o.follow(cmd)
			}
			return o.wait(cmd)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.patience, "wait", 0, "time to wait for exit code 0; without a time: "+defaultPatience)
	f.Lookup("wait").NoOptDefVal = defaultPatience
	f.BoolVarP(&o.watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	f.BoolVar(&o.problems, "problems", false, "the problems alone, and all of them")
	return o.flags(cmd)
}

// defaultPatience is that of --wait without a time.
const defaultPatience = "5m"

// readPatience takes the time of "--wait 10m" from the arguments: of a flag whose value may be absent it is none.
func (o *statusOptions) readPatience(cmd *cobra.Command, args []string) (err error) {
	if len(args) > 0 {
		if o.patience, err = time.ParseDuration(args[0]); err != nil || !cmd.Flags().Changed("wait") {
			return usage{fmt.Errorf("%q: want no argument, or a time after --wait", args[0])}
		}
	}
	return wrong(flags.AtLeast(0, map[string]time.Duration{"wait": o.patience}))
}

// waitPeriod is the time between two looks of --wait and of --watch.
const waitPeriod = 2 * time.Second

// follow shows the status again and again.
func (o *statusOptions) follow(cmd *cobra.Command) error {
	if err := checkWatch(o.readOptions, "text"); err != nil {
		return err
	}
	return again(cmd.Context(), waitPeriod, func(ctx context.Context) error {
		a, err := o.status(ctx)
		if err != nil || ctx.Err() != nil { // an interrupted answer is none
			return err
		}
		answer.ClearScreen(cmd.OutOrStdout())
		return answer.Write(cmd.OutOrStdout(), a, o.format, time.Now())
	})
}

// wait looks until all is well, as long as the user wants to wait.
func (o *statusOptions) wait(cmd *cobra.Command) error {
	for end := time.Now().Add(o.patience); ; {
		a, err := o.status(cmd.Context())
		if err != nil {
			return err
		}
		if a.Head().Code == answer.Good || time.Now().After(end) {
			return o.say(cmd.OutOrStdout(), a)
		}
		select {
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case <-time.After(waitPeriod):
		}
	}
}

func (o *statusOptions) status(ctx context.Context) (answer.Answer, error) {
	s, err := o.snapshot(ctx, answer.StatusResources()...)
	if err != nil {
		return nil, err
	}
	if err := near(&o.readOptions).AddRegarded(ctx, s); err != nil {
		return nil, err
	}
	st, err := answer.NewStatus(s)
	if err != nil || !o.problems {
		return st, err
	}
	return answer.OnlyProblems{Status: st}, nil
}

func topologyCommand() *cobra.Command {
	var o readOptions
	cmd := &cobra.Command{
		Use: "topology [node/NAME|pod/NAME]", Args: cobra.MaximumNArgs(1), Short: "the tree of nodes, NICs, VFs and pods",
		Example: "  kubectl offload topology\n  kubectl offload topology node/worker-1 -o svg\n  kubectl offload topology pod/web-0 -n shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, isNamed := strings.Cut(answer.Canonical(strings.Join(args, "")), "/")
			switch {
			case len(args) == 0:
			case !isNamed || name == "" || kind != "node" && kind != "pod":
				return usage{fmt.Errorf("%q: want node/NAME or pod/NAME", args[0])}
			case kind == "pod" && slices.Contains(formats(), o.format):
				return podTopology(cmd, &o, name)
			case kind == "pod":
				return usage{fmt.Errorf("-o %s is of nodes: want one of %s of a pod", o.format, strings.Join(formats(), ", "))}
			}
			if o.format == "svg" && name == "" {
				return usage{errors.New("want node/NAME: a drawing is of one node")}
			}
			s, err := o.snapshot(cmd.Context(), answer.TopologyResources()...)
			if err != nil {
				return err
			}
			t, err := answer.NewTopology(s, name)
			if err != nil {
				return err
			}
			switch o.format {
			case "dot":
				_, err := io.WriteString(cmd.OutOrStdout(), t.DOT())
				return err
			case "svg":
				_, err := io.WriteString(cmd.OutOrStdout(), scene.NodeSVG(t.Nodes[0]))
				return err
			}
			return o.say(cmd.OutOrStdout(), t)
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the pod; empty: that of the context")
	flags.More(cmd.Flags().Lookup("output"), "text, json, yaml, dot (Graphviz), or svg of one node", "dot", "svg")
	return cmd
}

// podTopology draws what a pod uses of its node.
func podTopology(cmd *cobra.Command, o *readOptions, name string) error {
	name, err := o.qualified(name)
	if err != nil {
		return err
	}
	s, err := o.aboutPod(cmd.Context(), name)
	if err != nil {
		return err
	}
	t, err := answer.NewPodTopology(s, name)
	if err != nil {
		return err
	}
	return o.say(cmd.OutOrStdout(), t)
}

// aboutPod reads what is known of the pod "namespace/name".
func (o *readOptions) aboutPod(ctx context.Context, name string) (*snapshot.Snapshot, error) {
	if o.from != "" {
		return openArchive(o.from)
	}
	client, err := o.lister()
	if err != nil {
		return nil, err
	}
	return snapshot.ReadPod(ctx, client, o.system, name)
}
