package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// traceOptions are the flags of trace.
type traceOptions struct {
	readOptions
	live, inject, yes bool
	count             int
}

func traceCommand() *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use: "trace pod/NAME TARGET", Args: cobra.ExactArgs(2), Short: "the path of a connection's first packet, and the object that decides at each step",
		Long:    "Trace computes the path with ovn-trace. Without --inject it sends nothing.\nTARGET is pod/NAME, svc/NAME or an address, with :PORT and /tcp, /udp, /sctp or /icmp after it.\nExit code 1: the packet is dropped or rejected.",
		Example: "  kubectl offload trace pod/web-0 svc/db:5432 -n shop\n  kubectl offload trace pod/web-0 pod/shop/db-0/icmp -n shop\n  kubectl offload trace pod/web-0 192.0.2.7:443",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := o.answer(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return o.say(cmd.OutOrStdout(), a)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of names without one; empty: that of the context")
	relayFlags(cmd, &o.clusterOptions)
	f.BoolVar(&o.live, "live", false, "the flows that forward such packets now, on each node, in place of a computed path")
	f.BoolVar(&o.inject, "inject", false, "send a packet in the name of the pod, and say where it came to; needs --yes")
	f.BoolVar(&o.yes, "yes", false, "with --inject: send it; without: say what the receiver would see")
	f.IntVar(&o.count, "count", 1, "with --inject: packets, each the first of a connection")
	return o.flags(cmd)
}

// answer is that of the mode.
func (o *traceOptions) answer(ctx context.Context, source, target string) (answer.Answer, error) {
	switch {
	case o.live && o.inject:
		return nil, usage{errors.New("want --live or --inject, and not both")}
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
	ends := trace.Ends{Namespace: o.namespace}
	if ends.Pods, err = snapshot.Objects[corev1.Pod](s, snapshot.Pods); err != nil {
		return nil, c, nil, err
	}
	if ends.Services, err = snapshot.Objects[corev1.Service](s, snapshot.Services); err != nil {
		return nil, c, nil, err
	}
	c, err = ends.Connection(source, target)
	if absent := trace.ErrNoObject(""); errors.As(err, &absent) {
		if why := cmp.Or(s.Missing[snapshot.Pods], s.Missing[snapshot.Services]); why != "" {
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
	if err := o.ensureNamespace(); err != nil {
		return nil, err
	}
	narrow := *o
	o, narrow.within = &narrow, trace.Ends{Namespace: o.namespace}.Namespaces(source, target)
	s, c, _, err := o.ends(ctx, source, target)
	if err != nil {
		return nil, err
	}
	names, err := answer.Whose(s)
	if err != nil {
		return nil, err
	}
	want := streams.Ends{From: c.From, To: names(cmp.Or(c.Network, contract.DefaultNetwork), c.To), Protocol: c.Protocol}
	if c.Protocol != "icmp" {
		want.Port = strconv.Itoa(int(c.Target.Port()))
	} else if c.Source.Is6() {
		want.Protocol = "icmp6"
	}
	var flows []flowapi.Flow
	var missing []string
	asked := map[string]bool{}
	for todo := []string{want.From, want.To}; len(todo) > 0; todo = todo[1:] { // the first adds endpoints of a service
		if asked[todo[0]] || !strings.HasPrefix(todo[0], "pod/") {
			continue
		}
		asked[todo[0]] = true
		more, left, err := ofPod(ctx, o, s, strings.TrimPrefix(todo[0], "pod/"))
		if err != nil {
			return nil, err
		}
		flows, missing = append(flows, more...), append(missing, left...)
		if names, err = answer.Whose(s); err != nil {
			return nil, err
		}
		todo = append(todo, endpointsOf(want, streams.Join(more, names))...)
	}
	return answer.NewLive(s, want, flows, missing)
}

// endpointsOf are those that streams between two ends go to.
func endpointsOf(want streams.Ends, all []streams.Stream) (out []string) {
	for _, stream := range all {
		if stream.From == want.From && stream.To == want.To && stream.Via != "" {
			out = append(out, stream.Via)
		}
	}
	return out
}

// ofPod reads the flows of a pod "namespace/name" from its node, and adds their ends to the objects.
func ofPod(ctx context.Context, o *readOptions, s *snapshot.Snapshot, name string) ([]flowapi.Flow, []string, error) {
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, nil, err
	}
	namespace, pod, _ := strings.Cut(name, "/")
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Namespace == namespace && p.Name == pod })
	if i < 0 || pods[i].Spec.NodeName == "" {
		return nil, nil, nil
	}
	flows, missing, err := o.read(ctx, s, pods[i].Spec.NodeName, flowapi.Query{Namespace: namespace, Pod: pod, Why: true, TC: true})
	if err != nil {
		return nil, nil, err
	}
	return flows, missing, near(o).AddEnds(ctx, s, flows)
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
