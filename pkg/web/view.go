package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
	"github.com/ovn-offload/ovn-offload/pkg/web/scene"
)

// View is what a view of the page shows. Its JSON is what the browser draws.
type View struct {
	Name string `json:"name"`
	// Taken is when the facts were read.
	Taken time.Time `json:"taken"`
	// Command gives the same in a terminal.
	Command string `json:"command"`
	// Answer is what that command says with -o json, or for health, a map and policies what the page makes of it.
	Answer any `json:"answer"`
	// Note says why a path is the computed one.
	Note string `json:"note,omitempty"`
	// Missing are facts that could not be read.
	Missing []string     `json:"missing,omitempty"`
	Scene   *scene.Scene `json:"scene,omitempty"`
	Grid    *Grid        `json:"grid,omitempty"`
	// Flows are those of a pod or a node.
	Flows *FlowList `json:"flows,omitempty"`
	// Events are those of a pod that the network's processes wrote, the newest first.
	Events []Event `json:"events,omitempty"`
	// Traffic is that of all nodes.
	Traffic *Traffic `json:"traffic,omitempty"`
}

// Want is what a view needs of a cluster.
type Want struct {
	Resources []snapshot.Resource
	// Pod ("namespace/name"), Node or Namespaces say which pods are meant. Without one of them there may be none.
	Pod, Node  string
	Namespaces []string
}

// Paths knows how packets go from a pod to a target.
type Paths interface {
	// Trace computes the path of a connection's first packet.
	Trace(ctx context.Context, from, to string) (*answer.Traced, error)
	// Live is the path by the flows that forward packets now. It has no legs if there are none.
	Live(ctx context.Context, from, to string) (*answer.Live, error)
}

// Facts is what a caller may see of a cluster.
type Facts interface {
	// Snapshot has at least what is wanted. It may be some seconds old.
	Snapshot(ctx context.Context, want Want) (*snapshot.Snapshot, error)
	Paths
	// Flows are those of a pod ("namespace/name") or else of a node. ErrNoRelay: there is no source of flows.
	Flows(ctx context.Context, pod, node string) (*FlowList, error)
	// Traffic is the traffic of all nodes. ErrNoRelay: there is no source of it.
	Traffic(ctx context.Context) (*Traffic, error)
	// Streams are those with an end in one of the namespaces.
	Streams(ctx context.Context, namespaces []string) (*StreamList, error)
}

// errRequest is a wrong request.
type errRequest struct{ error }

// builder makes a view from facts and the parameters of a request.
type builder func(ctx context.Context, f Facts, q url.Values) (*View, error)

// builders are the views by name.
func builders() map[string]builder {
	return map[string]builder{"overview": overviewView, "health": healthView, "node": nodeView, "pod": podView, "worst": worstView, "path": pathView, "flows": flowsView, "traffic": trafficView, "map": mapView, "policies": policiesView}
}

// Views are the names of all views, sorted.
func Views() []string { return slices.Sorted(maps.Keys(builders())) }

// Build makes a view.
func Build(ctx context.Context, f Facts, name string, q url.Values) (*View, error) {
	build, ok := builders()[name]
	if !ok {
		return nil, answer.ErrNotFound{Object: "view " + name}
	}
	v, err := build(ctx, f, q)
	if err != nil {
		return nil, err
	}
	v.Name = name
	return v, nil
}

// of makes a view of an answer.
func of(a answer.Answer, command string) *View {
	h := a.Head()
	return &View{Taken: h.Taken, Missing: h.Missing, Answer: a, Command: "kubectl offload " + command}
}

func overviewView(ctx context.Context, f Facts, _ url.Values) (*View, error) {
	s, err := f.Snapshot(ctx, Want{Resources: answer.StatusResources()})
	if err != nil {
		return nil, err
	}
	o, err := answer.NewOverview(s.Only(answer.StatusResources()...))
	if err != nil {
		return nil, err
	}
	grid := newGrid(o.EachNode)
	v := of(o.Status, "status") // the grid has each node
	v.Grid = &grid
	return v, nil
}

func nodeView(ctx context.Context, f Facts, q url.Values) (*View, error) {
	name := q.Get("name")
	s, err := f.Snapshot(ctx, Want{Resources: append(answer.TopologyResources(), answer.StatusResources()...), Node: name})
	if err != nil {
		return nil, err
	}
	e, err := answer.ExplainNode(s, name)
	if err != nil {
		return nil, err
	}
	t, err := answer.NewTopology(s, name)
	if err != nil {
		return nil, err
	}
	v := of(e, "explain node/"+name)
	v.Scene = scene.Node(t.Nodes[0])
	return v, nil
}

func podView(ctx context.Context, f Facts, q url.Values) (*View, error) {
	name := q.Get("name")
	namespace, short, ok := strings.Cut(name, "/")
	if !ok {
		return nil, errRequest{fmt.Errorf("%q: want NAMESPACE/NAME", name)}
	}
	s, err := f.Snapshot(ctx, Want{Resources: append(answer.ExplainPodResources(), snapshot.Leases), Pod: name})
	if err != nil {
		return nil, err
	}
	e, err := answer.ExplainPod(s, name)
	if err != nil {
		return nil, err
	}
	v := of(e, "explain pod/"+short+" -n "+namespace)
	v.Scene = newPod(s, e)
	if v.Events, err = eventsOf(s, namespace, short); err != nil {
		return nil, err
	}
	return v, v.streams(ctx, f, e)
}

// worstPods bounds the list of pods.
const worstPods = 200

func worstView(ctx context.Context, f Facts, _ url.Values) (*View, error) {
	s, err := f.Snapshot(ctx, Want{Resources: answer.WorstResources()})
	if err != nil {
		return nil, err
	}
	w, err := answer.NewWorst(s.Only(answer.WorstResources()...), worstPods)
	if err != nil {
		return nil, err
	}
	return of(w, fmt.Sprintf("explain --worst %d", worstPods)), nil
}

// sourceOf is the pod "namespace/name" or the node that sends.
func sourceOf(from string) (pod, node string, err error) {
	kind, name, _ := strings.Cut(from, "/")
	switch {
	case kind == "pod" && strings.Count(name, "/") == 1:
		return name, "", nil
	case kind == "node" && name != "" && !strings.Contains(name, "/"):
		return "", name, nil
	case kind == trace.Outside:
		return "", "", errRequest{errors.New("the page does not ask at which node the packets of a client outside enter: kubectl offload trace outside TARGET --at NODE does")}
	}
	return "", "", errRequest{errors.New("want from=pod/NAMESPACE/NAME or node/NAME, and to=pod/NAMESPACE/NAME, svc/NAMESPACE/NAME, node/NAME or an address, with :PORT/PROTOCOL after it")}
}

func pathView(ctx context.Context, f Facts, q url.Values) (*View, error) {
	from, to := q.Get("from"), q.Get("to")
	pod, node, err := sourceOf(from)
	if err != nil {
		return nil, err
	}
	if to == "" {
		return nil, errRequest{errors.New("want to=pod/NAMESPACE/NAME, svc/NAMESPACE/NAME, node/NAME or an address, with :PORT/PROTOCOL after it")}
	}
	var s *snapshot.Snapshot
	if pod != "" {
		if s, err = f.Snapshot(ctx, Want{Resources: answer.ExplainPodResources(), Pod: pod}); err != nil {
			return nil, err
		}
	}
	live, liveErr := f.Live(ctx, from, to)
	if errors.As(liveErr, new(trace.ErrNoObject)) {
		return nil, liveErr
	}
	if liveErr != nil || len(live.Legs) == 0 {
		return computed(ctx, f, s, q, liveErr)
	}
	if pod != "" {
		if node, err = HostOf(s, pod); err != nil {
			return nil, err
		}
	}
	v := of(live, "trace "+from+" "+to+" --live")
	v.Scene = scene.Live(live, node)
	return v, nil
}

// computed is the path of a first packet. liveErr is why the flows could not be read; nil: there is none.
func computed(ctx context.Context, f Facts, s *snapshot.Snapshot, q url.Values, liveErr error) (*View, error) {
	from, to := q.Get("from"), q.Get("to")
	t, err := f.Trace(ctx, from, to)
	if err != nil {
		return nil, err
	}
	v := of(t, "trace "+from+" "+to)
	if liveErr == nil {
		v.Note, v.Scene = "No flow forwards such packets now.", scene.Path(t, nil, "no packets now")
		return v, nil
	}
	v.Note = "The flows could not be read: " + liveErr.Error() + "."
	pod, isPod := strings.CutPrefix(from, "pod/")
	if !isPod {
		v.Scene = scene.Path(t, nil, "not measured: a node sends, and no pod with a VF")
		return v, nil
	}
	outgoing, err := sent(s, pod)
	if err != nil {
		return nil, err
	}
	v.Scene = scene.Path(t, outgoing, "not measured: the pod that sends has no VF, or no traffic was seen")
	return v, nil
}
