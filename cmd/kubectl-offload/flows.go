package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/agents"
	"github.com/ovn-offload/ovn-offload/pkg/nearby"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// flowOptions are the flags of verbs about streams.
type flowOptions struct {
	readOptions
	node    string
	last    int
	watch   bool
	filter  answer.Filter
	counter flowapi.Counter
}

func flowsCommand() *cobra.Command {
	var o flowOptions
	cmd := &cobra.Command{
		Use: "flows", Args: cobra.NoArgs, Short: "the streams of the datapath, where they are handled, and the objects that decide",
		Long: "Flows lists what the datapaths of the nodes forward now, for each stream by which rules of which objects.\n" +
			"These are flows of the datapath as dumps see them, and not each connection.",
		Example: "  kubectl offload flows -n shop\n  kubectl offload flows --pod web-0 -n shop --place ovs\n  kubectl offload flows --verdict dropped -o jsonl\n  kubectl offload flows -n shop -w",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(o.filter.Validate(), flags.AtLeast(0, map[string]int{"last": o.last})); err != nil {
				return usage{err}
			}
			if o.watch {
				return o.follow(cmd)
			}
			a, err := o.streams(cmd.Context())
			if err != nil {
				return err
			}
			if !slices.Contains(streams.LineFormats(), o.format) {
				return o.say(cmd.OutOrStdout(), a)
			}
			if err := streams.WriteLines(cmd.OutOrStdout(), o.format, a.Streams, a.Taken); err != nil {
				return err
			}
			if a.Code != answer.Good {
				return exit(a.Code)
			}
			return nil
		},
	}
	o.flags(cmd)
	f := cmd.Flags()
	relayFlags(cmd, &o.clusterOptions)
	flags.More(f.Lookup("output"), "text, json, yaml, jsonl (a stream a line) or hubble (a line has the fields of Hubble's JSON)", streams.LineFormats()...)
	f.BoolVarP(&o.watch, "watch", "w", false, "go on with streams that are new or changed, until Ctrl-C")
	f.StringVarP(&o.filter.Namespace, "namespace", "n", "", "namespace of one end, and of names without one; empty: all")
	f.StringVar(&o.filter.Pod, "pod", "", "pod at one end")
	f.StringVar(&o.filter.FromPod, "from-pod", "", "pod that sends")
	f.StringVar(&o.filter.ToPod, "to-pod", "", "pod that receives, itself or for a service")
	f.StringVar(&o.filter.FromLabel, "from-label", "", "selector of the labels of the pod that sends, such as app=web,tier!=test, in any namespace")
	f.StringVar(&o.filter.ToLabel, "to-label", "", "selector of the labels of the pod that receives, itself or for a service")
	f.StringVar(&o.filter.ToService, "to-service", "", "service that is asked")
	f.StringVar(&o.filter.Protocol, "protocol", "", "tcp, udp, sctp, icmp, icmp6 or arp")
	f.StringVar(&o.filter.Port, "port", "", "port that is asked")
	f.StringVar(&o.filter.Verdict, "verdict", "", "forwarded or dropped")
	f.StringVar(&o.filter.Place, "place", "", "hardware, partial, tc or ovs")
	f.StringVar(&o.filter.Reason, "reason", "", "why it is not in hardware, such as action")
	f.StringVar(&o.filter.Policy, "policy", "", "policy that decides: NAME of a NetworkPolicy, or KIND/NAME, such as anp/NAME")
	f.Float64Var(&o.filter.MinRate, "min-pps", 0, "least packets a second, from the second dump of a node on")
	f.BoolVar(&o.filter.Not, "not", false, "the streams of the namespace that the other filters do not choose")
	f.StringVar(&o.node, "node", "", "node; empty: all")
	f.IntVar(&o.last, "last", 0, "so many streams with the most packets; 0: all")
	return cmd
}

// qualify gives names their namespace.
func (o *flowOptions) qualify() error {
	o.namespace, o.within = o.filter.Namespace, []string{o.filter.Namespace}
	for _, name := range []*string{&o.filter.Pod, &o.filter.FromPod, &o.filter.ToPod, &o.filter.ToService} {
		if *name == "" {
			continue
		}
		var err error
		if *name, err = o.qualified(*name); err != nil {
			return err
		}
	}
	if o.filter.Policy == "" {
		return nil
	}
	kind, name := selected.Reference(o.filter.Policy)
	if kind.Namespaced {
		var err error
		if name, err = o.qualified(name); err != nil {
			return err
		}
	}
	o.filter.Policy = kind.Short + "/" + name
	return nil
}

func (o *flowOptions) streams(ctx context.Context) (*answer.Streams, error) {
	if err := o.qualify(); err != nil {
		return nil, err
	}
	s, err := near(&o.readOptions).Of(ctx, o.filter.Namespace, o.node)
	if err != nil {
		return nil, err
	}
	flows, missing, err := o.read(ctx, s, o.node, flowapi.Query{Namespace: o.filter.Namespace, Why: true})
	if err != nil {
		return nil, err
	}
	if err := near(&o.readOptions).AddEnds(ctx, s, flows); err != nil {
		return nil, err
	}
	if err := near(&o.readOptions).AddPods(ctx, s, o.filter.Pods()); err != nil {
		return nil, err
	}
	return answer.NewStreams(s, flows, missing, o.filter, o.last)
}

// near reads what names the ends of flows.
func near(o *readOptions) nearby.Reader {
	return nearby.Reader{System: o.system, IsArchive: o.from != "", Lists: o.kept.Or(o.lists), Flows: o.read}
}

// read reads flows with their names, of a node or of all, from a cluster or an archive.
func (o *readOptions) read(ctx context.Context, s *snapshot.Snapshot, node string, q flowapi.Query) ([]flowapi.Flow, []string, error) {
	if o.from != "" {
		return s.Flows(node), s.UnreadFlows(node), nil
	}
	from, err := o.agentsOf(ctx, s, node)
	if err != nil {
		return nil, nil, err
	}
	var nodes, unknown []string
	if nodes, q.Namespace, unknown, err = agents.Nodes(ctx, from.WithFlows, node, append([]string{q.Namespace}, o.within...)...); err != nil {
		return nil, nil, err
	}
	answers, missing := from.Named(ctx, nodes, q)
	s.Measure(answers)
	return flowapi.Joined(answers), append(unknown, missing...), nil
}
