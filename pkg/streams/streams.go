// Package streams joins the flows of a datapath into streams: what goes from one end to another by one protocol and port.
// A packet's way is often several flows, because conntrack ends a flow and recirculates the packet.
//
// Place in the data flow:
//
//	flowapi.Flows of nodes, with names -> Join -> streams -> pkg/answer
//
// It is a pure package of its own because the plugin and a relay join flows in the same way.
package streams

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// Stream is traffic between two ends on one node.
type Stream struct {
	Node string `json:"node"`
	Ends
	flowapi.Placed
	Packets          uint64   `json:"packets"`
	Bytes            uint64   `json:"bytes"`
	PacketsPerSecond *float64 `json:"packetsPerSecond,omitempty"`
	Drops            bool     `json:"drops,omitempty"`
	// Direction is that of conntrack; empty: any.
	Direction string `json:"direction,omitempty"`
	// Tunnel is the other node's address.
	Tunnel string `json:"tunnel,omitempty"`
	Decision
	// Flows are the parts of the way, by UFID and in their order.
	Flows []string `json:"flows"`
}

// Decision says who decided about the packets of a stream.
type Decision struct {
	// DecidedBy are Kubernetes objects, such as NetworkPolicy/shop/deny.
	DecidedBy []string `json:"decidedBy,omitempty"`
	// Rules are those of the policies among DecidedBy, as paths of their spec: ingress[1]. A policy that drops what none of its
	// rules allows has none.
	Rules map[string][]string `json:"rules,omitempty"`
	// Unnamed says why DecidedBy is empty.
	Unnamed string `json:"unnamed,omitempty"`
}

// Ends are those of a stream, as far as its flows tell.
type Ends struct {
	// From and To are pod/NAMESPACE/NAME, svc/NAMESPACE/NAME, node/NAME, an address or a network; empty: any.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Via is the pod behind a service or a node's port that gets the packets.
	Via      string `json:"via,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Port     string `json:"port,omitempty"`
}

// Names knows whose an address is on a network, which flowapi.End names; "": it is not known. Networks may have the same addresses.
type Names func(network, address string) string

// Addresses are no names.
func Addresses(_, address string) string { return address }

// key is what the flows of one stream have in common.
type key struct {
	node string
	Ends
	flowapi.Placed
	drops     bool
	direction string
}

// Join gives the streams, those with the most packets first. The flows have their names.
func Join(of []flowapi.Flow, names Names) []Stream {
	w := newWays(of)
	found := map[key]*Stream{}
	for i := range of {
		last := &of[i]
		if len(last.Next) > 0 || last.Stale {
			continue // its packets are counted where the way ends, or come no more
		}
		way := w.to(last)
		k := key{last.Node, ends(way, names), last.Placed, last.Drops, directionOf(way)}
		s := found[k]
		if s == nil {
			s = &Stream{Node: last.Node, Ends: k.Ends, Placed: last.Placed, Drops: last.Drops, Direction: k.direction}
			found[k] = s
		}
		s.add(way, last)
	}
	out := make([]Stream, 0, len(found))
	for _, s := range found {
		if len(s.DecidedBy) > 0 {
			s.Unnamed = ""
		}
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Stream) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To),
			cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Place, b.Place), cmp.Compare(a.Direction, b.Direction))
	})
	return out
}

// Inherit names flows whose rules are of no object by the flows before them: who decided there made the packets come. It leaves
// out flows of whose rules something is not known.
func Inherit(of []flowapi.Flow) {
	w := newWays(of)
	inherited := map[int][]string{}
	for i := range of {
		f := &of[i]
		if len(f.DecidedBy) > 0 || f.Why == nil || len(f.Why.Rules) == 0 || f.Recirculation == 0 || hasProblem(f.Why) {
			continue
		}
		var rules []flowapi.Rule
		for _, before := range w.to(f) {
			if before.Why != nil {
				rules = append(rules, before.Why.Rules...)
			}
		}
		inherited[i] = flownames.Decided(rules, f.Drops)
	}
	for i, objects := range inherited {
		of[i].DecidedBy = objects
	}
}

func hasProblem(w *flowapi.Why) bool {
	return w.Problem != "" || slices.ContainsFunc(w.Rules, func(r flowapi.Rule) bool { return r.Name == nil || r.Name.Problem != "" })
}

// add adds a way that ends with the flow last.
func (s *Stream) add(way []*flowapi.Flow, last *flowapi.Flow) {
	s.Packets += last.Packets
	s.Bytes += last.Bytes
	if rate := last.PacketsPerSecond; rate != nil {
		sum := *rate
		if s.PacketsPerSecond != nil {
			sum += *s.PacketsPerSecond
		}
		s.PacketsPerSecond = &sum
	}
	var rules []flowapi.Rule
	for _, f := range way {
		if !slices.Contains(s.Flows, f.ID) {
			s.Flows = append(s.Flows, f.ID)
		}
		s.Tunnel = cmp.Or(s.Tunnel, f.Tunnel)
		if f.Why != nil {
			rules = append(rules, f.Why.Rules...)
		}
	}
	for _, object := range flownames.Decided(rules, last.Drops) {
		if !slices.Contains(s.DecidedBy, object) {
			s.DecidedBy = append(s.DecidedBy, object)
		}
	}
	s.addRules(rules)
	s.Unnamed = flownames.Unnamed(*last)
}

// addRules adds the rules of the policies that decided.
func (d *Decision) addRules(of []flowapi.Rule) {
	for _, r := range of {
		if r.Name == nil || r.Name.Rule == "" || len(r.Name.Objects) != 1 || !slices.Contains(d.DecidedBy, r.Name.Objects[0]) {
			continue
		}
		if by := r.Name.Objects[0]; !slices.Contains(d.Rules[by], r.Name.Rule) {
			if d.Rules == nil {
				d.Rules = map[string][]string{}
			}
			d.Rules[by] = append(d.Rules[by], r.Name.Rule)
		}
	}
}

// ways finds the flows before a flow.
type ways struct {
	// into has the flows that hand packets on, by node, port and number.
	into map[place][]*flowapi.Flow
}

type place struct {
	node, port string
	number     uint32
}

func newWays(of []flowapi.Flow) ways {
	w := ways{into: map[place][]*flowapi.Flow{}}
	for i := range of {
		for _, next := range of[i].Next {
			at := place{of[i].Node, of[i].From.Port, next}
			w.into[at] = append(w.into[at], &of[i])
		}
	}
	return w
}

// to gives the way that ends with a flow. Where several flows may be before it, the way has all of them.
func (w ways) to(last *flowapi.Flow) []*flowapi.Flow {
	way := []*flowapi.Flow{last}
	for i := 0; i < len(way); i++ { // the way grows meanwhile
		f := way[i]
		if f.Recirculation == 0 {
			continue
		}
		var all []*flowapi.Flow
		for _, before := range w.into[place{f.Node, f.From.Port, f.Recirculation}] {
			if !slices.Contains(way, before) && leads(before, way) {
				all = append(all, before)
			}
		}
		way = append(way, sameDirection(all, way)...)
	}
	slices.Reverse(way)
	return way
}

// sameDirection leaves out flows of the other direction than a way has by its end, if there are others: packets of both may come by
// one number.
func sameDirection(before, way []*flowapi.Flow) []*flowapi.Flow {
	known := ""
	for _, f := range way { // from its end
		known = cmp.Or(known, f.Direction)
	}
	is := func(f *flowapi.Flow) bool { return known == "" || f.Direction == "" || f.Direction == known }
	if !slices.ContainsFunc(before, is) {
		return before
	}
	return slices.DeleteFunc(before, func(f *flowapi.Flow) bool { return !is(f) })
}

// leads says whether packets of one flow may come by a way: the addresses agree, as far as conntrack does not change them.
func leads(before *flowapi.Flow, way []*flowapi.Flow) bool {
	agree := func(a, b string) bool {
		return a == "" || b == "" || a == b || strings.Contains(a, "/") || strings.Contains(b, "/")
	}
	changes := strings.Contains(before.Actions, "nat") || strings.Contains(before.Actions, "set(ipv")
	for _, f := range way {
		if !agree(before.Protocol, f.Protocol) {
			return false
		}
	}
	last := way[0]
	return changes || agree(before.Source, last.Source) && agree(before.Target, last.Target) && agree(before.TargetPort, last.TargetPort)
}

// directionOf is what conntrack said last.
func directionOf(way []*flowapi.Flow) (direction string) {
	for _, f := range way {
		direction = cmp.Or(f.Direction, direction)
	}
	return direction
}

// ends reads the ends of a way: where its packets come from and are for, and who gets them.
func ends(way []*flowapi.Flow, names Names) Ends {
	first, last := way[0], way[len(way)-1]
	var e Ends
	source, target := "", ""
	for _, f := range way {
		source, target = narrower(source, f.Source), narrower(target, f.Target)
		e.Protocol, e.Port = cmp.Or(e.Protocol, f.Protocol), cmp.Or(e.Port, f.TargetPort)
	}
	receivers := last.To
	if last.For != nil {
		receivers = []flowapi.End{*last.For}
	}
	network := first.From.Network
	for _, end := range receivers {
		network = cmp.Or(network, end.Network)
	}
	e.From, e.To = names(network, source), names(network, target)
	if pod := podOf(first.From); pod != "" {
		e.From = pod
	}
	if len(receivers) == 1 {
		got := podOf(receivers[0])
		switch {
		case got == "":
		case isBalanced(e.To, way):
			e.Via = got
		default:
			e.To = got
		}
	}
	if e.Via == "" && isBalanced(e.To, way) && last.Target != target {
		e.Via = names(network, last.Target)
	}
	return e
}

// isBalanced says that a pod gets the packets by a load balancer: of a service, or at a port of a node. Answers to the address of a node
// are those to its pods, too.
func isBalanced(to string, way []*flowapi.Flow) bool {
	return strings.HasPrefix(to, "svc/") || strings.HasPrefix(to, "node/") && directionOf(way) == flowapi.Original
}

// narrower prefers an address to a network. Of two addresses the first counts: what came later is conntrack's.
func narrower(a, b string) string {
	if a == "" || strings.Contains(a, "/") && b != "" && !strings.Contains(b, "/") {
		return b
	}
	return a
}

func podOf(e flowapi.End) string {
	if e.Pod == "" {
		return ""
	}
	return "pod/" + e.Namespace + "/" + e.Pod
}

// Of says whether an object is an end of the stream.
func (s Stream) Of(object string) bool { return s.From == object || s.To == object || s.Via == object }

// Share is how many of the packets of streams are where.
func Share(of []Stream) offload.Share {
	var share offload.Share
	for _, s := range of {
		share.At(s.Place).Packets += s.Packets
		share.At(s.Place).Bytes += s.Bytes
		share.At(s.Place).Flows++
	}
	return share
}
