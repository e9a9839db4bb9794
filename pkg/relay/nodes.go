package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

const (
	// answerWithin bounds the time for an answer of an agent.
	answerWithin = 30 * time.Second
	// maxRuled bounds the flows of an answer with rules.
	maxRuled = flowapi.DefaultLimit
)

// NodesHandler serves
//
//	GET /api/v1/nodes?namespace=          the nodes whose agents know the flows of a namespace; without it, all: flowapi.Nodes
//	GET /api/v1/nodes/{node}/v1/flows...  the API of a node's agent: flowapi.Handler
func (r *Relay) NodesHandler() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range nodesRoutes() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, request *http.Request) {
			f, err := r.callerOf(request)
			if err != nil {
				refuse(w, err)
				return
			}
			answer(w, request, f)
		})
	}
	return web.Secure(mux)
}

// nodesRoutes are the handlers of NodesHandler by pattern. They get the facts of the caller.
func nodesRoutes() map[string]func(http.ResponseWriter, *http.Request, facts) {
	return map[string]func(http.ResponseWriter, *http.Request, facts){
		"GET " + flowapi.NodesPath: func(w http.ResponseWriter, request *http.Request, f facts) {
			nodes, err := f.nodes(request.Context(), request.URL.Query().Get("namespace"))
			if err != nil {
				refuse(w, err)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(nodes) // the caller is gone
		},
		"GET " + flowapi.NodesPath + "/{node}/v1/": func(w http.ResponseWriter, request *http.Request, f facts) {
			node := request.PathValue("node")
			http.StripPrefix(flowapi.NodesPath+"/"+node, flowapi.Handler(nodeOf{f, node, request.URL.Query().Get("namespace")})).ServeHTTP(w, request)
		},
	}
}

// callerOf are the facts of the caller of a request.
func (r *Relay) callerOf(request *http.Request) (facts, error) {
	f, err := r.caller(request)
	if errors.Is(err, web.ErrUnknown) {
		return facts{}, flowapi.Refused{Status: http.StatusUnauthorized, Text: "the relay does not know whose token this is"}
	}
	return f, refusedIfBusy(err)
}

// refusedIfBusy gives a caller with too many requests the status that says so.
func refusedIfBusy(err error) error {
	if errors.Is(err, web.ErrBusy) {
		return flowapi.Refused{Status: http.StatusTooManyRequests, Text: err.Error()}
	}
	return err
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if refused := (flowapi.Refused{}); errors.As(err, &refused) {
		status = refused.Status
	}
	http.Error(w, err.Error(), status)
}

// deniedIn says that the right to flows is missing.
func deniedIn(namespace string) error {
	where := "in namespace " + namespace
	if namespace == "" {
		where = "in all namespaces: give one with -n"
	}
	return flowapi.Refused{Status: http.StatusForbidden, Text: fmt.Sprintf("you may not get %s.%s %s", PodFlows, group, where)}
}

// nodes are those whose agents the caller may ask about a namespace, or about all.
func (f facts) nodes(ctx context.Context, namespace string) (*flowapi.Nodes, error) {
	sight, failed := f.caller.Sight(ctx, PodFlows)
	agents := f.relay.agents()
	if namespace == "" {
		if !sight.All && !sight.Nodes {
			return nil, cmp.Or(failed(), deniedIn(""))
		}
		return &flowapi.Nodes{Nodes: slices.Sorted(maps.Keys(agents))}, failed()
	}
	if !sight.Pods(namespace) {
		return nil, cmp.Or(failed(), deniedIn(namespace))
	}
	hosts, err := f.hosts(ctx, namespace)
	if err != nil {
		return nil, err
	}
	out := &flowapi.Nodes{Nodes: []string{}}
	for _, host := range hosts {
		if _, ok := agents[host]; ok {
			out.Nodes = append(out.Nodes, host)
		} else {
			out.Missing = append(out.Missing, fmt.Sprintf("node/%s: no agent with its flows is known to the relay", host))
		}
	}
	return out, failed()
}

// hosts are the nodes of the pods of a namespace.
func (f facts) hosts(ctx context.Context, namespace string) ([]string, error) {
	s, err := f.relay.objects.With(ctx, web.Want{Resources: []snapshot.Resource{snapshot.Pods}, Namespaces: []string{namespace}})
	if err != nil {
		return nil, err
	}
	return web.NodesOf(s, []string{namespace})
}

// nodeOf is the agent of a node, as a caller may see it. It says to no caller whether there is a node that has no pod of his.
type nodeOf struct {
	facts
	node string
	// namespace is that of a summary; "": it is of all that the caller may see.
	namespace string
}

var _ flowapi.Source = nodeOf{}

// Flows implements flowapi.Source.
func (n nodeOf) Flows(ctx context.Context, q flowapi.Query) (*flowapi.Flows, error) {
	sight, failed := n.caller.Sight(ctx, PodFlows)
	own, err := n.may(ctx, sight, q)
	if err != nil {
		return nil, cmp.Or(failed(), err)
	}
	if q.Counters = false; q.Why {
		q.Limit = min(cmp.Or(q.Limit, maxRuled), maxRuled)
	}
	var got *flowapi.Flows
	var unnamed error
	at := n.relay.plain
	if q.Why {
		at = n.relay.ruled
	}
	err = n.ask(ctx, sight, at, func(ctx context.Context, agent flowapi.Source) (err error) {
		if got, err = agent.Flows(ctx, q); err == nil && q.Why {
			unnamed = addNames(ctx, n.relay.shared.names, agent, got)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &flowapi.Flows{Node: n.node, Taken: got.Taken, Matched: got.Matched, Unseen: got.Unseen, Flows: []flowapi.Flow{}, Missing: noNames(unnamed, sight)}
	for _, flow := range got.Flows {
		if flow, ok := restrictFlow(flow, sight, own); ok {
			out.Flows = append(out.Flows, flow)
		} else {
			out.Matched = max(0, out.Matched-1)
		}
	}
	return out, failed()
}

// may says whether the caller may ask the node for flows, and gives the addresses of his pods and Services.
func (n nodeOf) may(ctx context.Context, sight *Sight, q flowapi.Query) (own map[string]bool, err error) {
	switch {
	case q.All && !sight.Nodes:
		return nil, flowapi.Refused{Status: http.StatusForbidden, Text: "you may not get nodeoffloads." + group + ", which the flows of no pod need: give a namespace with -n"}
	case q.Namespace == "" && !sight.All && !sight.Nodes, q.Namespace != "" && !sight.Pods(q.Namespace):
		return nil, deniedIn(q.Namespace)
	case q.Namespace == "" || sight.All:
		return nil, nil
	}
	if !sight.Nodes {
		hosts, err := n.hosts(ctx, q.Namespace)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(hosts, n.node) {
			return nil, n.foreign()
		}
	}
	return n.relay.addresses(ctx, q.Namespace, sight)
}

// foreign is a node that a caller may not ask about.
func (n nodeOf) foreign() error {
	return flowapi.Refused{Status: http.StatusForbidden, Text: "node " + n.node + " has no pod whose flows you may see"}
}

// ask asks the agent when it has a place. Who may not see nodes does not learn its address.
func (n nodeOf) ask(ctx context.Context, sight *Sight, at *places, do func(ctx context.Context, agent flowapi.Source) error) error {
	agent, ok := n.relay.agents()[n.node]
	if !ok {
		return fmt.Errorf("the relay knows no agent with the flows of node %s", n.node)
	}
	leave, err := at.take(ctx, n.share(ctx))
	if err != nil {
		return refusedIfBusy(err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	switch err := do(ctx, agent); {
	case err == nil, errors.Is(err, flowapi.ErrNoFlow):
		return err
	case sight.Nodes:
		return fmt.Errorf("the agent of node %s does not answer the relay: %v", n.node, err) //nolint:errorlint // a refusal of the agent is none of the caller
	}
	return fmt.Errorf("the agent of node %s does not answer the relay", n.node)
}

// Summary implements flowapi.Source.
func (n nodeOf) Summary(ctx context.Context, fresh bool) (*flowapi.Summary, error) {
	sight, failed := n.caller.Sight(ctx, PodOffloads)
	if !sight.Nodes && !sight.All {
		if err := n.seesPods(ctx, sight); err != nil {
			return nil, cmp.Or(failed(), err)
		}
	}
	var got *flowapi.Summary
	err := n.ask(ctx, sight, n.relay.plain, func(ctx context.Context, agent flowapi.Source) (err error) {
		got, err = agent.Summary(ctx, fresh)
		return err
	})
	switch {
	case sight.Nodes && sight.All:
		return got, err
	case err != nil:
		return nil, err
	}
	out := restrictSummary(got, n.node, sight)
	if len(out.Pods) == 0 && !sight.Nodes && !sight.All {
		return nil, cmp.Or(failed(), n.foreign())
	}
	return out, failed()
}

// seesPods is an error for a node without a pod that the caller may see: in the namespace of the request, or, without one, when all
// agents were asked last. An agent that measures by itself only when it is asked had none then.
func (n nodeOf) seesPods(ctx context.Context, sight *Sight) error {
	if n.namespace == "" {
		s := n.relay.gathered.of(n.node)
		if s != nil && slices.ContainsFunc(s.Pods, func(p flowapi.PodSummary) bool { return sight.Pods(p.Namespace) }) {
			return nil
		}
		return flowapi.Refused{Status: http.StatusForbidden, Text: "the relay knows no pod on node " + n.node + " whose packets you may see: give a namespace with -n"}
	}
	if !sight.Pods(n.namespace) {
		return flowapi.Refused{Status: http.StatusForbidden, Text: fmt.Sprintf("you may not get %s.%s in namespace %s", PodOffloads, group, n.namespace)}
	}
	hosts, err := n.hosts(ctx, n.namespace)
	if err == nil && !slices.Contains(hosts, n.node) {
		err = n.foreign()
	}
	return err
}

// restrictSummary leaves the caller's pods. Who may not see nodes gets their sum in place of that of the node.
func restrictSummary(s *flowapi.Summary, node string, sight *Sight) *flowapi.Summary {
	out := &flowapi.Summary{Node: node, Taken: s.Taken, Seconds: s.Seconds, Offload: s.Offload, Pods: []flowapi.PodSummary{}, CountedSince: s.CountedSince}
	for _, p := range s.Pods {
		if !sight.Pods(p.Namespace) {
			continue
		}
		if p.Reason != offload.ReasonAction { // other details may name a port
			p.Detail = ""
		}
		out.Pods = append(out.Pods, p)
		out.Total.Add(p.Traffic)
		out.Counted.Add(p.Counted)
	}
	if sight.Nodes {
		out.Total, out.Counted, out.Malformed = s.Total, s.Counted, s.Malformed
		out.Outside, out.CountedOutside = withoutPorts(s.Outside), withoutPorts(s.CountedOutside)
	}
	return out
}

// withoutPorts leaves out the details that may name a port, and adds up what is then the same.
func withoutPorts(causes []offload.Cause) (out []offload.Cause) {
	for _, cause := range causes {
		if cause.Reason != offload.ReasonAction {
			cause.Detail = ""
		}
		at := slices.IndexFunc(out, func(c offload.Cause) bool { return c.Reason == cause.Reason && c.Detail == cause.Detail })
		if at < 0 {
			out = append(out, cause)
		} else {
			out[at].Add(cause.Count)
		}
	}
	return out
}

// Why implements flowapi.Source, with the names of the rules. Rules have addresses of all.
func (n nodeOf) Why(ctx context.Context, id string) (*flowapi.Why, error) {
	sight, failed := n.caller.Sight(ctx, PodFlows)
	if !sight.All {
		return nil, cmp.Or(failed(), deniedIn(""))
	}
	var why *flowapi.Why
	err := n.ask(ctx, sight, n.relay.ruled, func(ctx context.Context, agent flowapi.Source) (err error) {
		if why, err = agent.Why(ctx, id); err != nil {
			return err
		}
		named := &flowapi.Flows{Flows: []flowapi.Flow{{ID: id, Why: why}}}
		if err := addNames(ctx, n.relay.shared.names, agent, named); err != nil && why.Problem == "" {
			why.Problem = noNames(err, sight)[0]
		}
		why = named.Flows[0].Why
		return nil
	})
	return why, cmp.Or(err, failed())
}
