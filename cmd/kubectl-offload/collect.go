package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/docs"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/agents"
	"github.com/ovn-offload/ovn-offload/pkg/redact"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

func sysdumpCommand() *cobra.Command {
	var o readOptions
	var to string
	var nodes []string
	var most int
	var maxSize int64
	var redacted bool
	var since time.Duration
	cmd := &cobra.Command{
		Use: "sysdump", Args: cobra.NoArgs, Short: "collects objects, logs and flows into one archive, without secrets",
		Long: "Sysdump writes an archive for bug reports. Other verbs read it with --from.\nIt has no Secrets, ConfigMaps, environment variables or arguments of pods.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(flags.AtLeast(time.Second, map[string]time.Duration{"since": since}),
				flags.AtLeast(1, map[string]int{"max-nodes": most}), flags.AtLeast(1, map[string]int64{"max-size": maxSize}), flags.IsNew(to)); err != nil {
				return usage{err}
			}
			s, err := o.snapshot(cmd.Context(), snapshot.All()...)
			if err != nil {
				return err
			}
			cluster, err := o.cluster()
			if err != nil {
				return err
			}
			if len(nodes) == 0 {
				if nodes, err = answer.NodesToCollect(s, most); err != nil {
					return err
				}
			}
			var through snapshot.Through
			if redacted {
				names, err := redact.New(s, redact.Words(docs.Texts()...))
				if err != nil {
					return err
				}
				through = names.File
			}
			to = cmp.Or(to, "ovn-offload-"+s.Taken.Format("20060102-150405")+".tgz")
			file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			options := sysdump.Options{Nodes: nodes, Since: since, MaxSize: maxSize << 20, Through: through, Flows: agents.Collect(cmd.Context(), o.places, s, nodes, cmd.ErrOrStderr()), Progress: cmd.ErrOrStderr()}
			if err := errors.Join(sysdump.Collect(cmd.Context(), cluster, s, file, options), file.Close()); err != nil {
				return fmt.Errorf("writing %s: %w", to, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\nnext: kubectl offload status --from %s\n", to, to)
			return nil
		},
	}
	cmd.Flags().StringVarP(&to, "file", "f", "", "file to write; empty: ovn-offload-TIME.tgz in this directory")
	cmd.Flags().StringSliceVar(&nodes, "nodes", nil, "nodes whose logs and flows are collected; empty: all, or of more than --max-nodes those of controllers and databases, with problems, and a sample")
	cmd.Flags().IntVar(&most, "max-nodes", 50, "nodes whose logs and flows are collected")
	cmd.Flags().DurationVar(&since, "since", 2*time.Hour, "time before now of which logs are collected")
	cmd.Flags().Int64Var(&maxSize, "max-size", 200, "MiB after which no more nodes are collected")
	cmd.Flags().BoolVar(&redacted, "redact", false, "pseudonyms in place of names and addresses, without logs and databases")
	return o.clusterFlags(cmd)
}

// raw is a verb that runs a program of OVN or Open vSwitch where it is.
type raw struct {
	verb, app, container string
	// program has the arguments that come before those of the user; empty: the user names a node and the program.
	program []string
	short   string
}

func rawVerbs() []raw {
	return []raw{
		{"nb", "ovnkube-db", "nb-ovsdb", contract.AtMember("ovn-nbctl"), "runs ovn-nbctl on the Northbound database"},
		{"sb", "ovnkube-db", "sb-ovsdb", contract.AtMember("ovn-sbctl"), "runs ovn-sbctl on the Southbound database"},
		{"ovs", "ovs-node", "ovs-daemons", nil, "runs a program of Open vSwitch on a node"},
	}
}

func rawCommands() (commands []*cobra.Command) {
	for _, r := range rawVerbs() {
		commands = append(commands, r.command())
	}
	return commands
}

func (r raw) command() *cobra.Command {
	var o readOptions
	use, args := r.verb+" -- ARGUMENT...", cobra.MinimumNArgs(1)
	if r.program == nil {
		use, args = r.verb+" NODE -- PROGRAM ARGUMENT...", cobra.MinimumNArgs(2)
	}
	cmd := &cobra.Command{
		Use: use, Args: args, Short: r.short,
		RunE: func(cmd *cobra.Command, args []string) error {
			node, command := r.run(args)
			return o.run(cmd.Context(), r, node, command, cmd)
		},
	}
	return o.clusterFlags(cmd)
}

// run is the command of a user's arguments, and the node on which it runs; "": on any.
func (r raw) run(args []string) (node string, command []string) {
	if r.program == nil {
		return strings.TrimPrefix(args[0], "node/"), args[1:]
	}
	return "", slices.Concat(r.program, args)
}

func (o *readOptions) run(ctx context.Context, r raw, node string, command []string, cmd *cobra.Command) error {
	s, err := o.snapshot(ctx, snapshot.Pods)
	if err != nil {
		return err
	}
	if missing := s.Missing[snapshot.Pods]; missing != "" {
		return errors.New(missing)
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return err
	}
	cluster, err := o.cluster()
	if err != nil {
		return err
	}
	container, err := cluster.Find(pods, r.app, r.container, node)
	if err != nil {
		return err
	}
	err = cluster.Exec(ctx, container, command, cmd.OutOrStdout(), cmd.ErrOrStderr())
	if failed := (utilexec.CodeExitError{}); errors.As(err, &failed) {
		return exit(failed.Code)
	}
	return err
}

// helpCommand prints pages of the documentation, for machines without internet.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [VERB|PAGE]", Short: "explains a verb, an Event or an alert, such as DPUNotReady", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return root.Help()
			}
			if verb, _, err := root.Find(args); err == nil && verb != root {
				return verb.Help()
			}
			text, ok := docs.Find(args[0])
			if !ok {
				return usage{fmt.Errorf("no verb or page %q; pages: %s", args[0], strings.Join(docs.Names(), ", "))}
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
}
