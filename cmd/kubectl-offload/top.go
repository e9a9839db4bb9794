package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/agents"
	"github.com/ovn-offload/ovn-offload/pkg/nearby"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

func topCommand() *cobra.Command {
	var o flowOptions
	by, outside, interval := "pod", false, time.Duration(0)
	cmd := &cobra.Command{
		Use: "top", Args: cobra.NoArgs, Short: "the pods, nodes, reasons, streams, services or policies with the most packets outside hardware",
		Example: "  kubectl offload top\n  kubectl offload top --by reason\n  kubectl offload top --by stream --outside -n shop",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.AtLeast(0, map[string]time.Duration{"interval": interval}); err != nil {
				return usage{err}
			}
			if o.watch {
				return o.followTop(cmd, by, outside, interval)
			}
			a, err := o.top(cmd.Context(), by, outside, interval)
			if err != nil {
				return err
			}
			return o.say(cmd.OutOrStdout(), a)
		},
	}
	o.flags(cmd)
	f := cmd.Flags()
	relayFlags(cmd, &o.clusterOptions)
	flags.Choose(f, &by, "by", "what a line is: "+strings.Join(answer.TopBy(), ", "), answer.TopBy())
	f.BoolVar(&outside, "outside", false, "leave out what is in hardware as a whole")
	f.BoolVarP(&o.watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	f.DurationVar(&interval, "interval", 3*time.Second, "time in which packets are counted; 0: the life of each flow")
	f.StringVarP(&o.filter.Namespace, "namespace", "n", "", "namespace of pods; empty: all")
	f.StringVar(&o.node, "node", "", "node; empty: all")
	return cmd
}

// followTop shows it again and again. Counting takes the interval; without one there is a pause.
func (o *flowOptions) followTop(cmd *cobra.Command, by string, outside bool, interval time.Duration) error {
	if err := checkWatch(o.readOptions, "text"); err != nil {
		return err
	}
	o.kept = &nearby.Kept{}
	pause := time.Duration(0)
	if interval <= 0 || answer.IsOfStreams(by) {
		pause = flowapi.MinPeriod
	}
	return again(cmd.Context(), pause, func(ctx context.Context) error {
		a, err := o.top(ctx, by, outside, interval)
		if err != nil || ctx.Err() != nil { // an interrupted answer is none
			return err
		}
		answer.ClearScreen(cmd.OutOrStdout())
		return answer.Write(cmd.OutOrStdout(), a, o.format, time.Now())
	})
}

func (o *flowOptions) top(ctx context.Context, by string, outside bool, interval time.Duration) (*answer.Top, error) {
	if answer.IsOfStreams(by) {
		a, err := o.streams(ctx)
		if err != nil {
			return nil, err
		}
		return answer.NewTopStreams(a, by, outside), nil
	}
	o.within = []string{o.filter.Namespace}
	s, err := near(&o.readOptions).Lists(ctx, map[snapshot.Resource][]snapshot.Selected{snapshot.Pods: {{Namespace: o.system}}, snapshot.Nodes: {{}}})
	if err != nil {
		return nil, err
	}
	if o.from != "" {
		return answer.NewTop(s, by, answer.InNamespace(s.Summaries(o.node), o.filter.Namespace), s.UnreadSummaries(o.node), outside).In(o.filter.Namespace), nil
	}
	from, err := o.agentsOf(ctx, s, o.node)
	if err != nil {
		return nil, err
	}
	nodes, _, unknown, err := agents.Nodes(ctx, from.WithFlows, o.node, "", o.filter.Namespace)
	if err != nil {
		return nil, err
	}
	o.counter.Sources = from.Asked(o.filter.Namespace)
	summaries, missing := o.counter.Count(ctx, nodes, interval)
	return answer.NewTop(s, by, answer.InNamespace(summaries, o.filter.Namespace), append(unknown, missing...), outside).In(o.filter.Namespace), nil
}
