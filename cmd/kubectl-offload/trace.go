package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

func traceCommand() *cobra.Command {
	var o readOptions
	cmd := &cobra.Command{
		Use: "trace pod/NAME TARGET", Args: cobra.ExactArgs(2), Short: "the path of a connection's first packet, and the object that decides at each step",
		Long: "Trace computes the path with ovn-trace. It sends nothing.\nTARGET is pod/NAME, svc/NAME or an address, with :PORT and /tcp, /udp, /sctp or /icmp after it.\n" +
			"Exit code 1: the packet is dropped or rejected.",
		Example: "  kubectl offload trace pod/web-0 svc/db:5432 -n shop\n  kubectl offload trace pod/web-0 pod/shop/db-0/icmp -n shop\n  kubectl offload trace pod/web-0 192.0.2.7:443",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.from != "" {
				return usage{errors.New("trace reads a cluster's databases, and no archive")}
			}
			t, err := o.trace(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return o.say(cmd.OutOrStdout(), t)
		},
	}
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of names without one; empty: that of the context")
	return o.flags(cmd)
}

func (o *readOptions) trace(ctx context.Context, source, target string) (*answer.Traced, error) {
	if o.namespace == "" {
		var err error
		if o.namespace, err = contextNamespace(o.kubeconfig, o.context); err != nil {
			return nil, err
		}
	}
	s, err := o.snapshot(ctx, snapshot.Pods, snapshot.Services)
	if err != nil {
		return nil, err
	}
	ends := trace.Ends{Namespace: o.namespace}
	if ends.Pods, err = snapshot.Objects[corev1.Pod](s, snapshot.Pods); err != nil {
		return nil, err
	}
	if ends.Services, err = snapshot.Objects[corev1.Service](s, snapshot.Services); err != nil {
		return nil, err
	}
	connection, err := ends.Connection(source, target)
	if err != nil {
		return nil, usage{err}
	}
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	db := databases{cluster, ends.Pods}
	printed, err := db.run(ctx, "sb", connection.Command())
	if err != nil {
		return nil, err
	}
	path := trace.Parse(string(printed))
	if len(path.Flows) == 0 {
		return nil, fmt.Errorf("ovn-trace found no path: %s", printed)
	}
	steps, verdict, err := db.name(ctx, path)
	if err != nil {
		return nil, err
	}
	return answer.NewTraced(s, connection, steps, verdict), nil
}

// databases runs OVN's programs beside its databases.
type databases struct {
	cluster *sysdump.Cluster
	pods    []corev1.Pod
}

func (d databases) run(ctx context.Context, database string, command []string) ([]byte, error) {
	container, err := d.cluster.Find(d.pods, "ovnkube-db", database+"-ovsdb", "")
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	if err := d.cluster.Exec(ctx, container, command, &out, &errs); err != nil {
		return nil, fmt.Errorf("running %s: %w: %s", command[0], err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}

// name finds the rows and their owners that a path was made from.
func (d databases) name(ctx context.Context, path trace.Path) ([]trace.Step, trace.Verdict, error) {
	text, err := d.run(ctx, "sb", append([]string{"ovn-sbctl", "--no-leader-only"}, trace.HintsCommand(path)...))
	if err != nil {
		return nil, "", err
	}
	hints, err := trace.Hints(text)
	if err != nil {
		return nil, "", err
	}
	rows := map[string]trace.Row{}
	for _, table := range slices.Sorted(maps.Keys(trace.Tables())) {
		text, err := d.run(ctx, "nb", append([]string{"ovn-nbctl", "--no-leader-only"}, trace.RowsCommand(table, hints)...))
		if err != nil {
			return nil, "", err
		}
		if err := trace.AddRows(rows, table, text); err != nil {
			return nil, "", err
		}
	}
	steps, verdict := trace.Steps(path, hints, rows)
	return steps, verdict, nil
}
