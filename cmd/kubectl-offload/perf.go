package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/agents"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/perf"
	"github.com/ovn-offload/ovn-offload/pkg/scratch"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// perfOptions are the flags of perf.
type perfOptions struct {
	readOptions
	perf.Options
	fromNode, toNode     string
	image, resource, run string
	keep, cleanup        bool
}

func perfCommand() *cobra.Command {
	var o perfOptions
	cmd := &cobra.Command{
		Use: "perf", Args: cobra.NoArgs, Short: "measures throughput, answers and connections between pods, and what they cost the nodes",
		Long: "Perf makes pods on two nodes in the namespace " + perf.Name + ", sends between them, and deletes the namespace.\n" +
			"It loads the network and both nodes as much as it can. Beside the speed it says which share of the packets was in hardware,\n" +
			"and how many cores of both nodes were in use.\n" +
			"Exit code 1: a case could not be measured; 3: flows could not be read, or nothing could be done.",
		Example: "  kubectl offload perf\n  kubectl offload perf --resource ovn-offload.io/vf --from worker-1 --to worker-2\n  kubectl offload perf --run '^stream/' --streams 8 --time 30s\n  kubectl offload perf --cleanup",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.perf(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.fromNode, "from", "", "node of the pods that send; empty, with --to: the first two nodes by name")
	f.StringVar(&o.toNode, "to", "", "the other node")
	f.StringVar(&o.resource, "resource", "", "extended resource, such as ovn-offload.io/vf, of which pods ask for a VF; empty: no cases on VFs")
	f.StringVar(&o.run, "run", "", "regular expression of the cases")
	f.StringVar(&o.image, "image", "", "image of the pods; empty: that of the agents")
	f.IntVar(&o.Streams, "streams", 4, "connections at the same time, but for rr")
	f.IntVar(&o.Size, "size", 0, "bytes of a write, a datagram or a request; 0: 131072, 1200 and 64")
	f.DurationVar(&o.Time, "time", 10*time.Second, "time of each case")
	f.DurationVar(&o.Idle, "idle", 2*time.Second, "time before each case in which the CPU time of idle nodes is measured")
	f.BoolVar(&o.keep, "keep", false, "leave the namespace")
	f.BoolVar(&o.cleanup, "cleanup", false, "delete the namespace of an earlier measurement, and end")
	dpuFlags(cmd, &o.clusterOptions)
	return o.answerFlags(cmd)
}

func (o *perfOptions) perf(cmd *cobra.Command) error {
	cases, err := perf.Cases(o.resource != "", o.run)
	if err != nil {
		return usage{err}
	}
	if len(cases) == 0 {
		return usage{fmt.Errorf("--run=%s matches no case: those on VFs need --resource", o.run)}
	}
	if err := o.validate(cases); err != nil {
		return usage{err}
	}
	client, exec, err := o.clientIn(perf.Name)
	if err != nil {
		return err
	}
	session := &scratch.Session{Namespace: perf.Namespace(client), Exec: exec}
	ctx, progress := cmd.Context(), cmd.ErrOrStderr()
	if o.cleanup {
		return session.SayRemoved(ctx, cmd.OutOrStdout())
	}
	at, err := o.place(ctx, cases)
	if err != nil {
		return err
	}
	results, missing, err := o.measure(ctx, session, at, cases, progress)
	if err != nil {
		return err
	}
	return o.say(cmd.OutOrStdout(), answer.NewMeasured(at, results, missing, time.Now()))
}

func (o *perfOptions) validate(cases []perf.Case) error {
	switch {
	case (o.fromNode == "") != (o.toNode == ""):
		return errors.New("want --from and --to, or none of them: a measurement is between two nodes")
	case o.fromNode != "" && o.fromNode == o.toNode:
		return fmt.Errorf("--from and --to are both %s: want two nodes; cases within one node are measured on the first", o.fromNode)
	case o.Idle < time.Second || o.Idle > time.Minute:
		return fmt.Errorf("--idle=%s: want 1s to 1m", o.Idle)
	}
	return o.Validate(cases)
}

func (o *perfOptions) place(ctx context.Context, cases []perf.Case) (conncheck.Place, error) {
	var named []string
	if o.fromNode != "" {
		named = []string{o.fromNode, o.toNode}
	}
	at, nodes, err := twoNodes(ctx, &o.readOptions, named, o.image)
	if err != nil {
		return at, err
	}
	at.Resource = o.resource
	return at, perf.Fits(at, cases, nodes)
}

// measure makes the pods, measures one case after the other, and removes the pods, also when it is interrupted.
func (o *perfOptions) measure(
	ctx context.Context, session *scratch.Session, at conncheck.Place, cases []perf.Case, progress io.Writer,
) (results []perf.Result, missing []string, err error) {
	fmt.Fprintf(progress, "makes namespace %s with pods on %s and %s\n", perf.Name, at.NodeA, at.NodeB)
	err = session.Hold(ctx, progress, "kubectl offload perf --cleanup", func() bool { return o.keep }, func() error {
		if err := session.Make(ctx, perf.Objects(at, cases)); err != nil {
			return err
		}
		agents, err := o.agents(ctx)
		if err != nil {
			return err
		}
		n := 0
		run := perf.Run{Session: session, At: at, Options: o.Options, Agents: agents, Done: func(r perf.Result) {
			n++
			fmt.Fprintln(progress, answer.MeasuredLine(n, len(cases), r))
		}}
		results, missing, err = run.Measure(ctx, cases)
		return err
	})
	return results, missing, err
}

// agents are those of the network, which must be readable. Nodes without an answer are named with the results.
func (o *perfOptions) agents(ctx context.Context) (of byexec.Agents, err error) {
	s, err := o.lists(ctx, map[snapshot.Resource][]snapshot.Selected{snapshot.Pods: {{Namespace: o.system}}})
	if err != nil {
		return of, err
	}
	if missing := s.Missing[snapshot.Pods]; missing != "" {
		return of, errors.New(missing)
	}
	found, err := agents.Find(ctx, s, "", o.places)
	if err != nil {
		return of, err
	}
	return found.Agents, nil
}
