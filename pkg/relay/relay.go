package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// Objects are those of the API server.
type Objects interface {
	// With has the objects that are watched, and those of pods and Services that a view wants.
	With(ctx context.Context, want web.Want) (*snapshot.Snapshot, error)
}

// Relay answers callers.
type Relay struct {
	objects  Objects
	reviewer *Reviewer
	agents   Agents
	gathered *Gathered
	shared   shared
	// ruled and plain are for questions of NodesHandler to agents, with rules and without; viewing and following for views of the page.
	ruled, plain, viewing, following *places
}

// What the relay does at a time for all callers, and for one. A caller's further requests wait, as many as requestsEach; its further
// streams are refused.
const (
	ruledAtOnce, ruledEach     = 4, 3 // answers of agents with all their rules are large
	plainAtOnce, plainEach     = 16, 12
	viewsAtOnce, viewsEach     = 32, 16
	streamsAtOnce, streamsEach = 500, 8
	requestsEach               = 64
)

// New makes a relay. Without names flows have none.
func New(objects Objects, reviewer *Reviewer, agents Agents, gathered *Gathered, names flownames.Asker) *Relay {
	return &Relay{
		objects: objects, reviewer: reviewer, agents: agents, gathered: gathered, shared: shared{names: names, answers: map[sharedKey]*sharedAnswer{}},
		ruled: newPlaces(ruledAtOnce, ruledEach, requestsEach), plain: newPlaces(plainAtOnce, plainEach, requestsEach),
		viewing: newPlaces(viewsAtOnce, viewsEach, requestsEach), following: newPlaces(streamsAtOnce, streamsEach, 0),
	}
}

// Facts are what the caller of a request may see. There is no way without a token.
func (r *Relay) Facts(request *http.Request) (web.Facts, error) {
	f, err := r.caller(request)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// caller finds the caller of a request.
func (r *Relay) caller(request *http.Request) (facts, error) {
	token := request.Header.Get(web.TokenHeader)
	if own, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer "); ok {
		token = own
	}
	if token == "" {
		return facts{}, web.ErrUnknown
	}
	caller, err := r.reviewer.Caller(request.Context(), token, sourceOf(request))
	if err != nil {
		return facts{}, err
	}
	if caller == nil {
		return facts{}, web.ErrUnknown
	}
	return facts{r, caller}, nil
}

// facts are those of one caller.
type facts struct {
	relay  *Relay
	caller *Caller
}

// Snapshot implements web.Facts.
func (f facts) Snapshot(ctx context.Context, want web.Want) (*snapshot.Snapshot, error) {
	sight, failed := f.caller.Sight(ctx, PodOffloads)
	want, err := restrictWant(want, sight)
	if err = cmp.Or(failed(), err); err != nil {
		return nil, err
	}
	s, err := f.relay.objects.With(ctx, want)
	if err != nil {
		return nil, err
	}
	s = Restrict(s, sight)
	return s, failed()
}

// errTrace says where paths are computed.
var errTrace = errors.New("the relay computes no paths: kubectl offload trace does, and the page of kubectl offload ui")

// Trace implements web.Facts.
func (facts) Trace(context.Context, string, string) (*answer.Traced, error) { return nil, errTrace }

// Live implements web.Facts.
func (facts) Live(context.Context, string, string) (*answer.Live, error) { return nil, errTrace }

// Flows implements web.Facts: those of a pod, or of a node as far as one of their ends is the caller's.
func (f facts) Flows(ctx context.Context, pod, node string) (*web.FlowList, error) {
	sight, failed := f.caller.Sight(ctx, PodFlows)
	query := flowapi.Query{Limit: maxFlows, Why: true}
	own := map[string]bool{}
	if pod != "" {
		namespace, name, _ := strings.Cut(pod, "/")
		if !sight.Pods(namespace) {
			return nil, cmp.Or(failed(), web.ErrDenied)
		}
		s, err := f.relay.objects.With(ctx, web.Want{Pod: pod})
		if err != nil {
			return nil, err
		}
		if node, err = web.HostOf(s, pod); err != nil {
			return nil, err
		}
		query.Namespace, query.Pod = namespace, name
		if !sight.All {
			if own, err = f.relay.addresses(ctx, namespace, sight); err != nil {
				return nil, err
			}
		}
	} else if !sight.Nodes {
		return nil, cmp.Or(failed(), web.ErrDenied)
	}
	source, ok := f.relay.agents()[node]
	if !ok {
		return nil, answer.ErrNotFound{Object: "agent of node " + node}
	}
	flows, unnamed, err := f.relay.shared.get(ctx, source, sharedKey{node, query})
	if err != nil {
		return nil, err
	}
	out := &web.FlowList{Node: node, Taken: flows.Taken, Matched: flows.Matched, Missing: noNames(unnamed, sight)}
	for _, flow := range flows.Flows {
		if flow, ok := restrictFlow(flow, sight, own); ok {
			out.Flows = append(out.Flows, flow)
		}
	}
	if pod != "" {
		s, err := f.relay.objects.With(ctx, web.Want{Resources: []snapshot.Resource{snapshot.Pods, snapshot.Services}, Namespaces: []string{query.Namespace}})
		if err != nil {
			return nil, err
		}
		out.Ends = Restrict(s, sight)
	}
	return out, failed()
}

// maxFlows bounds the rows of a view.
const maxFlows = 200

// addresses are those of the pods and Services of a namespace, as far as they are the caller's to see. That of a pod that has ended, or of a
// Service without one, may be another tenant's by now.
func (r *Relay) addresses(ctx context.Context, namespace string, sight *Sight) (map[string]bool, error) {
	s, err := r.objects.With(ctx, web.Want{Resources: []snapshot.Resource{snapshot.Pods, snapshot.Services}, Namespaces: []string{namespace}})
	if err != nil {
		return nil, err
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	services, err := snapshot.Objects[corev1.Service](s, snapshot.Services)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, p := range pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			own[ip.IP] = !p.Spec.HostNetwork && sight.Pods(p.Namespace)
		}
	}
	for _, service := range services {
		for _, ip := range service.Spec.ClusterIPs {
			own[ip] = sight.Pods(service.Namespace)
		}
	}
	return own, nil
}

// maxPods bounds the list of pods of a view.
const maxPods = 200

// Traffic implements web.Facts: the caller's pods with the most packets outside hardware, and the sums if nodes are his to see.
func (f facts) Traffic(ctx context.Context) (*web.Traffic, error) {
	sight, failed := f.caller.Sight(ctx, PodOffloads)
	summaries, failures := f.relay.gathered.Summaries()
	out := &web.Traffic{Agents: len(summaries)}
	if sight.Nodes {
		out.Sums = f.relay.gathered.Sums()
		for node, why := range failures {
			out.Failed = append(out.Failed, fmt.Sprintf("node/%s: %s", node, why))
		}
		slices.Sort(out.Failed)
	}
	out.Pods = worst(summaries, sight)
	return out, failed()
}

// worst are the pods with the most packets a second outside hardware. Of 100,000 pods only these are written out.
func worst(summaries map[string]*flowapi.Summary, sight *Sight) []web.PodRate {
	type candidate struct {
		of      *flowapi.Summary
		pod     *flowapi.PodSummary
		outside float64
	}
	var all []candidate
	for _, s := range summaries {
		for i := range s.Pods {
			pod := &s.Pods[i]
			if outside := web.Outside(s, pod); outside > 0 && sight.Pods(pod.Namespace) {
				all = append(all, candidate{s, pod, outside})
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.outside, a.outside), cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	var out []web.PodRate
	for _, c := range all[:min(len(all), maxPods)] {
		out = append(out, web.NewPodRate(c.of, c.pod))
	}
	return out
}
