package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/agents"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	readOptions
	worst    int
	to, port string
	ask      bool
}

func explainCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use: "explain pod/NAME|node/NAME|svc/NAME|netpol/NAME|anp/NAME|banp/NAME|cnp/NAME|multi-policy/NAME|flow/UFID@NODE", Args: cobra.MaximumNArgs(2), Short: "is its traffic in hardware, and if not why",
		Long: "Explain says where the traffic of an object is handled, which objects decide about it, and what keeps it out of hardware.\n" +
			"The streams of a pod are read from the agent of its node: through the relay if the cluster has one, else by pods/exec.",
		Example: "  kubectl offload explain pod/web-0 -n shop\n  kubectl offload explain pod/web-0 --to svc/db -n shop\n  kubectl offload explain svc/db -n shop\n  kubectl offload explain anp/deny-metadata\n" +
			"  kubectl offload explain node/worker-1\n  kubectl offload explain flow 8153cb36-ae1c-4686-a9b3-d49f037972d3@worker-1\n  kubectl offload explain flow 8153cb36-ae1c-4686-a9b3-d49f037972d3@worker-1 --ask-driver\n  kubectl offload explain --worst 10",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return usage{err}
			}
			if o.ask {
				if err := o.announce(cmd.ErrOrStderr(), args); err != nil {
					return err
				}
			}
			a, err := o.explain(cmd.Context(), args)
			if err != nil {
				return err
			}
			return o.say(cmd.OutOrStdout(), a)
		},
	}
	relayFlags(cmd, &o.clusterOptions)
	cmd.Flags().IntVar(&o.worst, "worst", 0, "list so many pods with the smallest share of packets in hardware; without a number: 10")
	cmd.Flags().Lookup("worst").NoOptDefVal = "10"
	cmd.Flags().StringVar(&o.to, "to", "", "streams of the pod to pod/NAME, svc/NAME or an address alone")
	cmd.Flags().StringVar(&o.port, "port", "", "streams of the pod to this port alone")
	cmd.Flags().BoolVar(&o.ask, "ask-driver", false, "of a flow that the NIC's driver refused: offer its rule once more, to the driver alone, delete it, and say the driver's text; by pods/exec")
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the pod; empty: that of the context")
	return o.flags(cmd)
}

// validate refuses what no stream has, and what no list is as long as.
func (o *explainOptions) validate() error {
	kind, _, isObject := strings.Cut(answer.Canonical(o.to), "/")
	if _, err := netip.ParseAddr(o.to); o.to != "" && err != nil && (!isObject || kind != "pod" && kind != "svc" && kind != "node") {
		return fmt.Errorf("--to %q: want pod/NAME, svc/NAME, node/NAME or an address", o.to)
	}
	return cmp.Or(flags.AtLeast(0, map[string]int{"worst": o.worst}), answer.Filter{Port: o.port}.Validate())
}

// announce says what --ask-driver is about to do. It is done in the pod of the agent, never through the relay.
func (o *explainOptions) announce(w io.Writer, args []string) error {
	name, isFlow := strings.CutPrefix(strings.Join(args, "/"), "flow/")
	if !isFlow || o.from != "" {
		return usage{errors.New("--ask-driver: want flow/UFID@NODE, and a cluster")}
	}
	o.direct = true
	_, err := fmt.Fprintf(w, "if the driver of the NIC refused flow %s, the agent offers the flow's rule to the driver once more, and deletes it at once\n", name)
	return err
}

// wanted are the kinds that explain takes.
const wanted = "want pod/NAME, node/NAME, svc/NAME, netpol/NAME, anp/NAME, banp/NAME, cnp/NAME, multi-policy/NAME or flow/UFID@NODE"

func (o *explainOptions) explain(ctx context.Context, args []string) (answer.Answer, error) {
	if n, err := strconv.Atoi(strings.Join(args, "/")); err == nil && n > 0 && o.worst > 0 { // a flag whose value may be absent
		o.worst, args = n, nil
	}
	if o.worst > 0 && len(args) == 0 {
		s, err := o.snapshot(ctx, answer.WorstResources()...)
		if err != nil {
			return nil, err
		}
		return answer.NewWorst(s, o.worst)
	}
	if len(args) == 0 {
		return nil, usage{errors.New(wanted + ", or --worst")}
	}
	kind, name, _ := strings.Cut(answer.Canonical(strings.Join(args, "/")), "/")
	if a, err := o.object(ctx, kind, name); a != nil || err != nil {
		return a, err
	}
	return nil, usage{fmt.Errorf("%q: %s", args[0], wanted)}
}

// object explains an object; nil: there is no such kind.
func (o *explainOptions) object(ctx context.Context, kind, name string) (answer.Answer, error) {
	policy, isPolicy := selected.Named(kind)
	if isPolicy {
		name, _, _ = strings.Cut(name, "@") // of the rows on one network
	}
	switch {
	case name == "":
	case kind == "flow":
		return o.flow(ctx, name)
	case kind == "node":
		s, err := o.lists(ctx, snapshot.OfNode(name, o.system))
		if err != nil {
			return nil, err
		}
		return answer.ExplainNode(s, name)
	case isPolicy && !policy.Namespaced:
		return o.policy(ctx, policy, name)
	case isPolicy || kind == "pod" || kind == "svc" || kind == "service":
		return o.namespaced(ctx, kind, name)
	}
	return nil, nil
}

// namespaced explains an object of a namespace.
func (o *explainOptions) namespaced(ctx context.Context, kind, name string) (answer.Answer, error) {
	name, err := o.qualified(name)
	if err != nil {
		return nil, err
	}
	o.within = strings.SplitN(name, "/", 2)[:1]
	if policy, ok := selected.Named(kind); ok {
		return o.policy(ctx, policy, name)
	}
	if kind == "pod" {
		return o.pod(ctx, name)
	}
	s, flows, missing, err := near(&o.readOptions).Service(ctx, name)
	if err != nil {
		return nil, err
	}
	return answer.ExplainService(s, name, flows, missing)
}

// policy explains a policy of any kind.
func (o *explainOptions) policy(ctx context.Context, kind selected.Kind, name string) (answer.Answer, error) {
	lists := kind.Lists(name, o.system)
	for _, r := range []snapshot.Resource{snapshot.Nodes, snapshot.Services} {
		lists[r] = r.Lists(o.system)
	}
	s, err := o.lists(ctx, lists)
	if err != nil {
		return nil, err
	}
	found, err := selected.Read(s, kind, name)
	if err != nil {
		return nil, err
	}
	isComplete := o.from == "" || len(s.Shared(kind.Resource)) > 0 // archives of former versions have no policies
	if found == nil && s.Missing[kind.Resource] == "" && isComplete {
		return nil, answer.ErrNotFound{Object: kind.Name + " " + name}
	}
	q := flowapi.Query{Why: true}
	if kind.Namespaced {
		q.Namespace, _, _ = strings.Cut(name, "/") // it decides about pods of its namespace
	}
	flows, missing, err := o.read(ctx, s, "", q)
	if err != nil {
		return nil, err
	}
	if err := near(&o.readOptions).AddEnds(ctx, s, flows); err != nil {
		return nil, err
	}
	return answer.ExplainPolicy(s, kind, name, flows, missing)
}

// flow explains the stream of a flow UFID@NODE: all its flows are asked for their rules.
func (o *explainOptions) flow(ctx context.Context, name string) (answer.Answer, error) {
	id, node, ok := strings.Cut(name, "@")
	if !ok || id == "" || node == "" {
		return nil, usage{fmt.Errorf("flow %q: want UFID@NODE, as -o json of flows has them", name)}
	}
	o.within = []string{o.namespace}
	s, err := o.lists(ctx, answer.FlowLists(node, o.system))
	if err != nil {
		return nil, err
	}
	delete(s.Missing, snapshot.NodeOffloads) // it says only what no advice is needed for
	if o.from != "" {
		return answer.ExplainFlow(s, node, id, s.Flows(node), nil)
	}
	from, err := o.agentsOf(ctx, s, node)
	if err != nil {
		return nil, err
	}
	flows, missing := agents.WithRules(ctx, from, s, agents.FlowOf{Node: node, ID: id, Namespace: o.namespace})
	e, err := answer.ExplainFlow(s, node, id, flows, missing)
	if found, ok := from.(*agents.Found); ok && o.ask && err == nil {
		e.AddDriver(found.AskDriver(ctx, node, id))
	}
	return e, err
}

// qualified gives a name its namespace.
func (o *clusterOptions) qualified(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if err := o.ensureNamespace(); err != nil {
		return "", err
	}
	return o.namespace + "/" + name, nil
}

// ofPod reads what is known of a pod: the relay knows it, too.
func (o *explainOptions) ofPod(ctx context.Context, name string) (*snapshot.Snapshot, *answer.PodExplained, error) {
	if o.from == "" {
		relay, err := o.relay(ctx)
		if err != nil {
			return nil, nil, err
		}
		if relay != nil {
			e, err := relay.Pod(ctx, name)
			return snapshot.New(time.Now(), o.system), e, err
		}
	}
	s, err := o.aboutPod(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	e, err := answer.ExplainPod(s, name)
	return s, e, err
}

// names reads what names the ends of a pod's flows.
func (o *explainOptions) names(ctx context.Context, s *snapshot.Snapshot, e *answer.PodExplained, flows []flowapi.Flow) (*snapshot.Snapshot, error) {
	if o.from != "" || len(flows) == 0 {
		return s, nil
	}
	nodes, err := o.snapshot(ctx, snapshot.Nodes)
	if err != nil {
		return nil, err
	}
	pods, err := answer.PodsAtEnds(nodes, e, flows)
	if err != nil {
		return nil, err
	}
	read, err := o.lists(ctx, map[snapshot.Resource][]snapshot.Selected{snapshot.Services: snapshot.Services.Lists(o.system), snapshot.Pods: pods})
	if err != nil {
		return nil, err
	}
	for _, node := range nodes.Shared(snapshot.Nodes) {
		read.AddShared(snapshot.Nodes, node)
	}
	maps.Copy(read.Missing, nodes.Missing)
	return read, nil
}

// pod explains a pod with its streams, which are left out where the agent cannot be asked.
func (o *explainOptions) pod(ctx context.Context, name string) (answer.Answer, error) {
	s, e, err := o.ofPod(ctx, name)
	if err != nil || e.HostNetwork || e.Node == "" {
		return e, err
	}
	to := answer.Canonical(o.to)
	if kind, target, ok := strings.Cut(to, "/"); ok && kind != "node" {
		if target, err = o.qualified(target); err != nil {
			return nil, err
		}
		to = kind + "/" + target
	}
	namespace, pod, _ := strings.Cut(name, "/")
	flows, missing, err := o.read(ctx, s, e.Node, flowapi.Query{Namespace: namespace, Pod: pod, Why: true})
	if err != nil {
		missing = append(missing, "streams: "+err.Error())
	}
	dpus, measured := s.DPUs, s.Measured
	if s, err = o.names(ctx, s, e, flows); err != nil {
		return nil, err
	}
	s.DPUs, s.Measured = dpus, measured
	for _, r := range slices.Sorted(maps.Keys(s.Missing)) {
		if o.from == "" && len(flows) > 0 {
			missing = append(missing, fmt.Sprintf("%s: %s", r, s.Missing[r]))
		}
	}
	return e, e.AddStreams(s, flows, missing, answer.To{Object: to, Port: o.port})
}
