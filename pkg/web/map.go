package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// Map is the traffic between workloads and services of some namespaces.
type Map struct {
	Namespaces []string `json:"namespaces"`
	Edges      []Edge   `json:"edges,omitempty"`
	// Omitted counts the workloads and services that are not drawn.
	Omitted int `json:"omitted,omitempty"`
	// OmittedEdges counts the edges between those drawn that are not drawn themselves.
	OmittedEdges int `json:"omittedEdges,omitempty"`
}

// Edge is the traffic of two ends in both directions, each a workload, a service, or where else packets come from.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
	// PacketsPerSecond is absent while nothing was measured twice.
	PacketsPerSecond *float64 `json:"packetsPerSecond,omitempty"`
	Packets          uint64   `json:"packets"`
	// Hardware is the share of the packets in hardware, in percent; absent if all are dropped.
	Hardware *int `json:"hardware,omitempty"`
	// Reason is why packets are outside hardware: that of most of them.
	Reason  string `json:"reason,omitempty"`
	Dropped uint64 `json:"dropped,omitempty"`
	// By are the objects that drop.
	By []string `json:"by,omitempty"`
}

// Ends of edges that are no workload and no service.
const (
	outside   = "other addresses"
	elsewhere = "another namespace"
	ofNodes   = "nodes"
	unknown   = "ends that flows do not name"
)

// graph collects edges.
type graph struct {
	namespaces []string
	workloads  map[string]string // by pod/NAMESPACE/NAME
	pods       map[string]int    // of each workload
	edges      map[[2]string]*sums
	// behind has the services by which two ends talk.
	behind map[[2]string]string
}

// sums are those of one edge. A stream between two nodes is seen on both: rates and packets are those of the node with more.
type sums struct {
	share   offload.Share
	rate    map[string]float64
	packets map[string]uint64
	dropped map[string]uint64
	reasons map[string]uint64 // of packets outside hardware
	by      []string
}

func mapView(ctx context.Context, f Facts, q url.Values) (*View, error) {
	t, err := readTraffic(ctx, f, q, snapshot.Pods, snapshot.Services)
	if err != nil {
		return nil, err
	}
	g, err := newGraph(t.objects, t.namespaces)
	if err != nil {
		return nil, err
	}
	g.addAll(t.streams.Streams)
	m := &Map{Namespaces: t.namespaces, Edges: g.list()}
	v := t.view(m)
	v.Scene = newMap(g, m)
	return v, nil
}

// namespaceTraffic is the traffic of namespaces, with objects that name its ends or decide about it.
type namespaceTraffic struct {
	namespaces []string
	streams    *StreamList
	resources  []snapshot.Resource
	objects    *snapshot.Snapshot
}

// readTraffic reads the streams first, because that asks for the rights to see them.
func readTraffic(ctx context.Context, f Facts, q url.Values, resources ...snapshot.Resource) (t *namespaceTraffic, err error) {
	t = &namespaceTraffic{resources: resources}
	if t.namespaces, err = namespacesOf(q); err != nil {
		return nil, err
	}
	if t.streams, err = f.Streams(ctx, t.namespaces); err != nil {
		return nil, err
	}
	t.objects, err = f.Snapshot(ctx, Want{Resources: resources, Namespaces: t.namespaces})
	return t, err
}

func (t *namespaceTraffic) view(answer any) *View {
	return &View{Taken: t.streams.Taken, Command: streamsCommand(t.namespaces), Answer: answer, Missing: missingOf(t.objects, t.streams, t.resources...)}
}

// missingOf is what could not be read of resources, and of streams.
func missingOf(s *snapshot.Snapshot, list *StreamList, resources ...snapshot.Resource) []string {
	missing := slices.Clone(list.Missing)
	for _, r := range resources {
		if why, ok := s.Missing[r]; ok {
			missing = append(missing, fmt.Sprintf("%s: %s", r, why))
		}
	}
	return missing
}

func newGraph(s *snapshot.Snapshot, namespaces []string) (*graph, error) {
	g := &graph{namespaces: namespaces, workloads: map[string]string{}, pods: map[string]int{}, edges: map[[2]string]*sums{}, behind: map[[2]string]string{}}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, err
	}
	services, err := snapshot.Objects[corev1.Service](s, snapshot.Services)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pod := &pods[i]; slices.Contains(namespaces, pod.Namespace) && !pod.Spec.HostNetwork {
			w := workloadOf(pod)
			g.workloads["pod/"+pod.Namespace+"/"+pod.Name] = w
			g.pods[w]++
		}
	}
	for _, service := range services {
		if slices.Contains(namespaces, service.Namespace) {
			g.pods["svc/"+service.Namespace+"/"+service.Name] = 0
		}
	}
	return g, nil
}

// end is what stands for an end of a stream.
func (g *graph) end(name string) string {
	kind, rest, _ := strings.Cut(name, "/")
	namespace, _, named := strings.Cut(rest, "/")
	switch {
	case g.workloads[name] != "":
		return g.workloads[name]
	case kind == "svc":
		return name
	case kind == "node":
		return ofNodes
	case kind == "pod" && named && slices.Contains(g.namespaces, namespace):
		return name // it is gone, or was made since the pods were read
	case kind == "pod" && named:
		return "namespace/" + namespace
	case name == Withheld:
		return elsewhere
	case isWildcard(name):
		return unknown
	}
	return outside
}

// isWildcard: the flow matches any address, or those of a network.
func isWildcard(name string) bool {
	_, err := netip.ParsePrefix(name)
	return name == "" || err == nil
}

// Withheld is in place of what a caller may not see.
const Withheld = flowapi.Withheld

// addAll adds streams. Those by way of a service come first: answers go back by the same way.
func (g *graph) addAll(list []streams.Stream) {
	list = slices.DeleteFunc(slices.Clone(list), func(s streams.Stream) bool { // the node at the other end of a tunnel knows
		return s.Tunnel != "" && (isWildcard(s.From) || isWildcard(s.To))
	})
	for _, s := range list {
		if s.Via != "" {
			from, service, to := g.end(s.From), g.end(s.To), g.end(s.Via)
			g.behind[[2]string{from, to}] = service
			g.add(from, service, s)
			g.add(service, to, s)
		}
	}
	for _, s := range list {
		from, to := g.end(s.From), g.end(s.To)
		service, answers := g.behind[[2]string{to, from}]
		switch {
		case s.Via != "":
		case answers:
			g.add(to, service, s)
			g.add(service, from, s)
		default:
			g.add(from, to, s)
		}
	}
	g.turn(list)
}

func (g *graph) add(from, to string, s streams.Stream) {
	key := [2]string{from, to}
	e := g.edges[key]
	if e == nil {
		e = &sums{rate: map[string]float64{}, packets: map[string]uint64{}, dropped: map[string]uint64{}, reasons: map[string]uint64{}}
		g.edges[key] = e
	}
	if s.Drops {
		e.dropped[s.Node] += s.Packets
		for _, object := range s.DecidedBy {
			if name := answer.Object(object); !slices.Contains(e.by, name) {
				e.by = append(e.by, name)
			}
		}
		return
	}
	e.share.Add(streams.Share([]streams.Stream{s}))
	e.packets[s.Node] += s.Packets
	if s.Reason != "" {
		e.reasons[strings.TrimSpace(string(s.Reason)+" "+s.Detail)] += s.Packets
	}
	if s.PacketsPerSecond != nil {
		e.rate[s.Node] += *s.PacketsPerSecond
	}
}

// turn joins edges of both directions. The one that asks is that of the lower port; where ports do not tell, the first by name.
func (g *graph) turn(list []streams.Stream) {
	ports := map[[2]string]string{}
	for _, s := range list {
		key := [2]string{g.end(s.From), g.end(s.To)}
		if known, ok := ports[key]; !ok || lower(s.Port, known) {
			ports[key] = s.Port
		}
	}
	for _, key := range sortedKeys(g.edges) {
		back := [2]string{key[1], key[0]}
		there, here := g.edges[back], g.edges[key]
		if here == nil || there == nil || key == back || len(here.dropped)+len(there.dropped) > 0 {
			continue // who was refused is not to be turned
		}
		if lower(ports[back], ports[key]) {
			back, here, there = key, there, here
		}
		here.join(there)
		delete(g.edges, back)
	}
}

// lower compares ports as numbers; no port is the highest.
func lower(a, b string) bool {
	if a == "" || b == "" {
		return b == "" && a != ""
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) < 0
}

func (e *sums) join(other *sums) {
	e.share.Add(other.share)
	for node, n := range other.rate {
		e.rate[node] += n
	}
	for node, n := range other.packets {
		e.packets[node] += n
	}
	for reason, n := range other.reasons {
		e.reasons[reason] += n
	}
}

// reason is that of most packets; "": all are in hardware.
func (e *sums) reason() string {
	names := slices.Collect(maps.Keys(e.reasons))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(e.reasons[b], e.reasons[a]), cmp.Compare(a, b)) })
	return strings.Join(names[:min(1, len(names))], "")
}

func sortedKeys[T any](edges map[[2]string]T) [][2]string {
	return slices.SortedFunc(maps.Keys(edges), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
}

func most[T cmp.Ordered](of map[string]T) (highest T) {
	for _, n := range of {
		highest = max(highest, n)
	}
	return highest
}

// list gives the edges, sorted by their ends.
func (g *graph) list() []Edge {
	var out []Edge
	for _, key := range sortedKeys(g.edges) {
		e := g.edges[key]
		slices.Sort(e.by)
		edge := Edge{From: key[0], To: key[1], Packets: most(e.packets), Dropped: most(e.dropped), By: e.by, Reason: e.reason()}
		if len(e.rate) > 0 {
			rate := most(e.rate)
			edge.PacketsPerSecond = &rate
		}
		edge.Hardware = percentOf(e.share)
		out = append(out, edge)
	}
	return out
}

// percentOf is the share in hardware; nil: there are no packets.
func percentOf(s offload.Share) *int {
	ratio, ok := s.Ratio()
	if !ok {
		return nil
	}
	percent := int(100 * ratio)
	return &percent
}
