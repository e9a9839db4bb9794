package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck/disrupt"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// testOptions are the flags of test.
type testOptions struct {
	readOptions
	quick, full                 bool
	run, junit, image, resource string
	nodes, external             []string
	parallel                    int
	placeOptions
	namespaceOptions
}

// namespaceOptions are the flags about the namespaces.
type namespaceOptions struct {
	keep, cleanup, given bool
	disruptOptions
}

// placeOptions are the flags about where packets are handled.
type placeOptions struct {
	places  bool
	instead string
}

func testCommand() *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use: "test", Args: cobra.NoArgs, Short: "sends packets between pods, services and nodes, and says what does not work",
		Long: "Test makes pods on two nodes in the namespace " + conncheck.Namespace + ", asks from pod to pod, service, node and name,\n" +
			"compares each answer, and the place where the packets were handled, with what is expected, and deletes the namespace.\n" +
			"Exit code 1: a case failed; 3: the test could not be done, or flows could not be read.",
		Example: "  kubectl offload test\n  kubectl offload test --external 192.0.2.1:443\n  kubectl offload test --setup-disrupt\n  kubectl offload test --full --junit result.xml\n  kubectl offload test --run '^policy/'\n  kubectl offload test --cleanup",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.test(cmd) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.quick, "quick", false, "the cases that are done without a flag")
	f.BoolVar(&o.full, "full", false, "all cases")
	f.StringVar(&o.run, "run", "", "regular expression of the cases; with ! before it, of those to leave out")
	f.StringSliceVar(&o.nodes, "nodes", nil, "the two nodes; empty: the first two by name")
	f.StringVar(&o.image, "image", "", "image of the pods; empty: that of the agents")
	f.StringVar(&o.resource, "resource", "", "extended resource, such as ovn-offload.io/vf, of which three of the pods ask for a VF, where a node has it; empty: none does")
	f.BoolVar(&o.places, "places", true, "read the agents' flows, and compare where packets are handled")
	f.StringVar(&o.instead, "expect", "", "hardware or software: the place to expect of all packets, in place of the table's")
	f.StringVar(&o.junit, "junit", "", "file to write for CI systems")
	f.BoolVar(&o.keep, "keep", false, "leave the namespace")
	f.BoolVar(&o.cleanup, "cleanup", false, "delete the namespaces of an earlier test and of --setup-disrupt, and end")
	f.BoolVar(&o.given, "use-namespace", false, "the namespace "+conncheck.Namespace+" is there, with the label "+conncheck.Label+", and stays")
	f.StringArrayVar(&o.external, "external", nil, "ADDRESS:PORT of TCP outside the cluster that pods are to reach; may be given several times")
	o.disruptFlags(f)
	f.IntVar(&o.parallel, "parallel", 8, "cases at a time")
	return o.answerFlags(cmd)
}

func (o *testOptions) test(cmd *cobra.Command) error {
	outside, err := conncheck.External(o.external)
	if err != nil {
		return usage{err}
	}
	cases, err := conncheck.Select(append(conncheck.Cases(o.full), outside...), o.run)
	if err != nil {
		return usage{err}
	}
	if len(cases) == 0 {
		return usage{fmt.Errorf("--run=%s matches no case", o.run)}
	}
	if err := o.validate(); err != nil {
		return usage{err}
	}
	if o.setup || o.check {
		return o.disrupt(cmd)
	}
	client, exec, err := o.clientIn(conncheck.Namespace)
	if err != nil {
		return err
	}
	ctx, session := cmd.Context(), conncheck.NewSession(client, exec)
	session.Given = o.given
	if o.cleanup {
		lasting := disrupt.NewSession(client, exec)
		return errors.Join(session.SayRemoved(ctx, cmd.OutOrStdout()), lasting.SayRemoved(ctx, cmd.OutOrStdout()))
	}
	at, err := o.place(ctx)
	if err != nil {
		return err
	}
	out, err := o.cases(ctx, session, at, cases, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return o.tell(cmd, answer.NewTested(at, *out, time.Now()))
}

func (o *testOptions) tell(cmd *cobra.Command, tested *answer.Tested) error {
	if err := conncheck.WriteJUnit(o.junit, tested.Results); err != nil {
		return err
	}
	return o.say(cmd.OutOrStdout(), tested)
}

func (o *testOptions) validate() error {
	if err := cmp.Or(flags.AtLeast(1, map[string]int{"parallel": o.parallel}), flags.IsWritable(o.junit)); err != nil {
		return err
	}
	if o.quick && o.full {
		return errors.New("want --quick or --full")
	}
	if n := len(o.nodes); n != 0 && n != 2 {
		return fmt.Errorf("--nodes has %d nodes: want two", n)
	}
	if o.given && o.cleanup {
		return errors.New("want --use-namespace or --cleanup: a namespace that is given is not deleted")
	}
	if _, ok := conncheck.ParseExpected(o.instead); !ok || o.instead != "" && !o.places {
		return fmt.Errorf("--expect=%s: want hardware or software, and places", o.instead)
	}
	return o.validateDisrupt()
}

func (o *testOptions) place(ctx context.Context) (conncheck.Place, error) {
	at, nodes, err := twoNodes(ctx, &o.readOptions, o.nodes, o.image)
	if err != nil {
		return at, err
	}
	return at.WithResource(o.resource, nodes)
}

// twoNodes finds the nodes of a test among all.
func twoNodes(ctx context.Context, o *readOptions, named []string, image string) (at conncheck.Place, nodes []corev1.Node, err error) {
	if nodes, err = o.readNodes(ctx); err != nil {
		return at, nil, err
	}
	var agents []appsv1.DaemonSet
	if image == "" { // of a snapshot they have no images
		client, err := o.client()
		if err != nil {
			return at, nil, err
		}
		if agents, err = conncheck.DaemonSets(ctx, client, o.system); err != nil {
			return at, nil, err
		}
	}
	at, err = conncheck.Choose(nodes, agents, named, image)
	return at, nodes, err
}

// cases makes the pods, asks, and removes them, also when it is interrupted.
func (o *testOptions) cases(
	ctx context.Context, session *conncheck.Session, at conncheck.Place, cases []conncheck.Case, progress io.Writer,
) (out *conncheck.Outcome, err error) {
	fmt.Fprintf(progress, "makes pods in namespace %s on %s and %s\n", conncheck.Namespace, at.NodeA, at.NodeB)
	network, err := o.cluster()
	if err != nil {
		return nil, err
	}
	n := 0
	trial := conncheck.Trial{Session: session, At: at, Network: network, Parallel: o.parallel, Done: func(r conncheck.Result) {
		if n++; r.Verdict != conncheck.Skip {
			fmt.Fprintln(progress, answer.TestedLine(n, len(cases), r))
		}
	}}
	if o.places {
		trial.Look = o.look
	}
	err = session.Hold(ctx, progress, "kubectl offload test --cleanup", func() bool { return o.keep }, func() error {
		if err := session.Make(ctx, conncheck.Needed(conncheck.Objects(at), cases)); err != nil {
			return err
		}
		out, err = trial.Run(ctx, cases)
		return err
	})
	return out, err
}

func (o *testOptions) look(ctx context.Context) (*conncheck.Sight, error) {
	s, err := o.snapshot(ctx, snapshot.Pods, snapshot.NodeOffloads)
	if err != nil {
		return nil, err
	}
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	instead, _ := conncheck.ParseExpected(o.instead) // validate has read it
	return conncheck.NewSight(s, cluster, instead)
}
