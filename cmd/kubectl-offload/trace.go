package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// traceOptions are the flags of trace.
type traceOptions struct {
	readOptions
	live, compare, inject, yes bool
	count                      int
}

func traceCommand() *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use: "trace SOURCE TARGET", Args: cobra.ExactArgs(2), Short: "the path of a connection's first packet, and the object that decides at each step",
		Long:    "Trace computes the path with ovn-trace. Without --inject it sends nothing.\nSOURCE is pod/NAME, node/NAME, outside or outside/ADDRESS.\nTARGET is pod/NAME, svc/NAME, node/NAME or an address, with :PORT and /tcp, /udp, /sctp or /icmp after it.\nExit code 1: the packet is dropped or rejected.",
		Example: "  kubectl offload trace pod/web-0 svc/db:5432 -n shop\n  kubectl offload trace pod/web-0 pod/shop/db-0/icmp -n shop\n  kubectl offload trace pod/web-0 192.0.2.7:443\n  kubectl offload trace outside svc/web:80 --at NODE -n shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := o.answer(cmd.Context(), answer.Canonical(args[0]), answer.Canonical(args[1]))
			if err != nil {
				return err
			}
			return o.say(cmd.OutOrStdout(), a)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of names without one; empty: that of the context")
	relayFlags(cmd, &o.clusterOptions)
	f.StringVar(&o.at, "at", "", "with outside: the node that gets the packets of the client")
	f.BoolVar(&o.live, "live", false, "the flows that forward such packets now, on each node, in place of a computed path")
	f.BoolVar(&o.compare, "compare", false, "with --live: compute the path, too, and say where the two differ")
	f.BoolVar(&o.inject, "inject", false, "send a packet in the name of the pod, and say where it came to; needs --yes")
	f.BoolVar(&o.yes, "yes", false, "with --inject: send it; without: say what the receiver would see")
	f.IntVar(&o.count, "count", 1, "with --inject: packets, each the first of a connection")
	return o.flags(cmd)
}

// answer is that of the mode.
func (o *traceOptions) answer(ctx context.Context, source, target string) (answer.Answer, error) {
	if err := cmp.Or(trace.Check(source, target), flags.AtLeast(1, map[string]int{"count": o.count})); err != nil {
		return nil, usage{err}
	}
	switch {
	case o.live && o.inject:
		return nil, usage{errors.New("want --live or --inject, and not both")}
	case o.compare && (!o.live || o.from != ""):
		return nil, usage{errors.New("--compare compares --live with the path that OVN's databases have now")}
	case o.compare:
		return o.compared(ctx, source, target)
	case o.live:
		return o.readOptions.live(ctx, source, target)
	case o.from != "":
		return nil, usage{errors.New("trace reads a cluster's databases, and no archive: only --live does")}
	case o.inject:
		return o.send(ctx, source, target)
	}
	return o.trace(ctx, source, target)
}

// ends finds the ends of a connection among the objects of the cluster.
func (o *readOptions) ends(ctx context.Context, source, target string, more ...snapshot.Resource) (s *snapshot.Snapshot, c trace.Connection, pods []corev1.Pod, err error) {
	if err := o.ensureNamespace(); err != nil {
		return nil, c, nil, err
	}
	if s, err = near(o).Between(ctx, o.namespace, source, target, more...); err != nil {
		return nil, c, nil, err
	}
	ends := trace.Ends{Namespace: o.namespace, At: o.at}
	if ends.Nodes, err = snapshot.Objects[corev1.Node](s, snapshot.Nodes); err != nil {
		return nil, c, nil, err
	}
	if ends.Pods, err = snapshot.Objects[corev1.Pod](s, snapshot.Pods); err != nil {
		return nil, c, nil, err
	}
	if ends.Services, err = snapshot.Objects[corev1.Service](s, snapshot.Services); err != nil {
		return nil, c, nil, err
	}
	c, err = ends.Connection(source, target)
	if absent := trace.ErrNoObject(""); errors.As(err, &absent) {
		if why := cmp.Or(s.Missing[snapshot.Pods], s.Missing[snapshot.Services], s.Missing[snapshot.Nodes]); why != "" {
			return nil, c, nil, fmt.Errorf("there is no %s among what may be listed: %s", string(absent), why)
		}
		return nil, c, nil, answer.ErrNotFound{Object: string(absent)}
	}
	if err != nil {
		return nil, c, nil, usage{err}
	}
	return s, c, ends.Pods, nil
}

// live shows the flows between two ends.
func (o *readOptions) live(ctx context.Context, source, target string) (*answer.Live, error) {
	o, err := within(*o, source, target)
	if err != nil {
		return nil, err
	}
	s, c, _, err := o.ends(ctx, source, target)
	if err != nil {
		return nil, err
	}
	return near(o).Live(ctx, s, c)
}

// within are options that read the namespaces of the ends alone where not all may be read.
func within(o readOptions, source, target string) (*readOptions, error) {
	if err := o.ensureNamespace(); err != nil {
		return nil, err
	}
	o.within = trace.Ends{Namespace: o.namespace}.Namespaces(source, target)
	return &o, nil
}

// compared shows the flows between two ends, and whether the computed path is the same.
func (o *traceOptions) compared(ctx context.Context, source, target string) (answer.Answer, error) {
	narrow, err := within(o.readOptions, source, target)
	if err != nil {
		return nil, err
	}
	of, err := compute(ctx, narrow, source, target)
	if err != nil {
		return nil, err
	}
	l, err := near(narrow).Live(ctx, of.s, of.connection)
	if err == nil {
		l.Compare(of.Steps, of.Verdict)
	}
	return l, err
}

// computed is a path that ovn-trace has computed.
type computed struct {
	*trace.Computed
	s          *snapshot.Snapshot
	connection trace.Connection
	pods       []corev1.Pod
}

func compute(ctx context.Context, o *readOptions, source, target string) (of computed, err error) {
	if of.s, of.connection, of.pods, err = o.ends(ctx, source, target, snapshot.NetworkPolicies); err != nil {
		return of, err
	}
	if err := of.connection.Computable(); err != nil {
		return of, usage{err}
	}
	cluster, err := o.cluster()
	if err != nil {
		return of, err
	}
	of.Computed, err = trace.Compute(ctx, byexec.Databases{Cluster: cluster, Pods: of.pods}.Run, of.connection)
	return of, err
}

func (o *readOptions) trace(ctx context.Context, source, target string) (*answer.Traced, error) {
	of, err := compute(ctx, o, source, target)
	if err != nil {
		return nil, err
	}
	t := answer.NewTraced(of.s, of.connection, of.Steps, of.Verdict)
	return t, t.AddPolicies(of.s, of.connection)
}
