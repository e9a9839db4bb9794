package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// Live is the way of packets between two ends, by the flows that forward them now.
type Live struct {
	Header
	streams.Ends
	// Verdict is allowed, dropped, or idle: there is no packet now.
	Verdict string `json:"verdict"`
	// Legs are the parts of the way on each node, there before back.
	Legs []Leg `json:"legs"`
	// Flows is how many flows of the datapath the way has. Named ones have all their rules explained.
	Flows int `json:"flows"`
	Named int `json:"namedFlows"`
}

// Leg is the way on one node.
type Leg struct {
	Back bool `json:"back,omitempty"`
	streams.Stream
	Parts []LegFlow `json:"parts"`
}

// LegFlow is one flow of a leg, with the rules that decided.
type LegFlow struct {
	ID string `json:"id"`
	flowapi.Placed
	Packets uint64     `json:"packets"`
	Next    []uint32   `json:"next,omitempty"`
	Steps   []LiveStep `json:"steps,omitempty"`
	Problem string     `json:"problem,omitempty"`
}

// LiveStep is a decision.
type LiveStep struct {
	Stage   string   `json:"stage"`
	What    string   `json:"what"`
	Objects []string `json:"objects,omitempty"`
}

// NewLive finds the way from a pod to a target, pod/NAMESPACE/NAME, svc/NAMESPACE/NAME or an address, in the flows of the nodes.
func NewLive(s *snapshot.Snapshot, want streams.Ends, flows []flowapi.Flow, missing []string) (*Live, error) {
	names, err := Whose(s)
	if err != nil {
		return nil, err
	}
	l := &Live{Header: header("Live", s), Ends: want, Legs: []Leg{}, Verdict: "idle"}
	l.missed(missing)
	flows = once(flows)
	all := streams.Join(flows, names)
	targets := receivers(all, want)
	byID := map[string]*flowapi.Flow{}
	for i := range flows {
		byID[flows[i].Node+"/"+flows[i].ID] = &flows[i]
	}
	for _, stream := range all {
		if there, back := directions(stream, want, targets); there || back {
			l.add(stream, back, byID)
		}
	}
	l.sort(nodeOf(s, want.From))
	switch l.Verdict {
	case "idle":
		l.Code, l.Next = max(l.Code, Degraded), fmt.Sprintf("kubectl offload trace %s %s", want.From, want.To)
	case "dropped":
		l.Code, l.Next = max(l.Code, Degraded), "kubectl offload help policy-surprise"
	}
	return l, nil
}

// directions says whether a stream may be a part of the way to one of the targets, or back.
func directions(s streams.Stream, want streams.Ends, targets []string) (there, back bool) {
	there = s.From == want.From && (slices.Contains(targets, s.To) || slices.Contains(targets, s.Via)) && fits(s, want)
	return there, slices.Contains(targets, s.From) && s.To == want.From && (s.Protocol == "" || s.Protocol == want.Protocol)
}

// once leaves out flows that were read for both ends.
func once(flows []flowapi.Flow) []flowapi.Flow {
	seen := map[string]bool{}
	var out []flowapi.Flow
	for _, f := range flows {
		if key := f.Node + "/" + f.ID; !seen[key] {
			seen[key] = true
			out = append(out, f)
		}
	}
	return out
}

// receivers are the target, and the pods that get its packets.
func receivers(of []streams.Stream, want streams.Ends) []string {
	targets := []string{want.To}
	for _, s := range of {
		if s.From == want.From && s.To == want.To && s.Via != "" && fits(s, want) {
			targets = append(targets, s.Via)
		}
	}
	return targets
}

// fits says whether a stream may be of the protocol and port.
func fits(s streams.Stream, want streams.Ends) bool {
	return (s.Protocol == "" || s.Protocol == want.Protocol) && (s.Port == "" || want.Port == "" || s.Port == want.Port || s.Via != "" || s.To != want.To)
}

func nodeOf(s *snapshot.Snapshot, pod string) string {
	f, err := readFacts(s)
	if err != nil {
		return ""
	}
	for _, p := range f.pods {
		if "pod/"+p.Namespace+"/"+p.Name == pod {
			return p.Spec.NodeName
		}
	}
	return ""
}

func (l *Live) add(stream streams.Stream, back bool, flows map[string]*flowapi.Flow) {
	leg := Leg{Back: back, Stream: stream}
	for _, id := range stream.Flows {
		f := flows[stream.Node+"/"+id]
		if f == nil {
			continue
		}
		leg.Parts = append(leg.Parts, legFlow(f))
		l.Flows++
		if len(f.DecidedBy) > 0 {
			l.Named++
		}
	}
	l.Legs = append(l.Legs, leg)
	switch {
	case back:
	case !stream.Drops:
		l.Verdict = "allowed"
	case l.Verdict == "idle":
		l.Verdict = "dropped"
	}
}

// legFlow keeps the rules that say something: most stages pass a packet on.
func legFlow(f *flowapi.Flow) LegFlow {
	out := LegFlow{ID: f.ID, Placed: f.Placed, Packets: f.Packets, Next: f.Next}
	if f.Why == nil {
		return out
	}
	out.Problem = f.Why.Problem
	for _, r := range f.Why.Rules {
		if r.Name == nil || r.Name.What == "" && r.Name.Problem == "" {
			continue
		}
		step := LiveStep{Stage: r.Name.Stage, What: cmp.Or(r.Name.What, r.Name.Problem), Objects: r.Name.Objects}
		if r.Table == dropTable || slices.ContainsFunc(out.Steps, func(s LiveStep) bool { return s.What == step.What && slices.Equal(s.Objects, step.Objects) }) {
			continue
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

// dropTable is that of ovn-controller for look-ups without a result, which most packets meet.
const dropTable = 254

// sort has the way there before the way back, each from its first node.
func (l *Live) sort(first string) {
	slices.SortStableFunc(l.Legs, func(a, b Leg) int {
		rank := func(leg Leg) int {
			at := 0
			if leg.Node != first {
				at = 1
			}
			if leg.Back {
				at = 3 - at
			}
			return at
		}
		return cmp.Compare(rank(a), rank(b))
	})
}

// Text implements Answer.
func (l *Live) Text(p *Page) {
	p.Line("%s to %s %s: %s", l.From, l.To, strings.TrimSuffix(l.Protocol+":"+l.Port, ":"), strings.ToUpper(l.Verdict))
	if len(l.Legs) == 0 {
		p.Line("no flow forwards such packets now: flows of the datapath end ten seconds after their last packet")
		return
	}
	number := 0
	for _, leg := range l.Legs {
		direction := ""
		if leg.Back {
			direction = "back, "
		}
		p.Line("")
		p.Line("%snode %s  %s, %d packets %s", direction, leg.Node, leg.Place, leg.Packets, reasonOf(leg.Placed))
		var rows [][]string
		for i, part := range leg.Parts {
			for _, step := range part.Steps {
				number++
				var objects []string
				for _, owner := range step.Objects {
					objects = append(objects, Object(owner))
				}
				rows = append(rows, []string{fmt.Sprintf("%3d", number), step.Stage, step.What, strings.Join(objects, ", ")})
			}
			rows = append(rows, []string{"", fmt.Sprintf("flow %d of %d", i+1, len(leg.Parts)), part.ID, string(part.Place) + " " + part.Problem})
		}
		p.Table(rows)
		switch {
		case leg.Drops:
			p.Line("    DROPPED")
		case leg.Tunnel != "":
			p.Line("    tunnel with %s", leg.Tunnel)
		}
	}
	p.Line("")
	p.Line("%d of %d flows named; no packet was sent", l.Named, l.Flows)
}

func reasonOf(at flowapi.Placed) string {
	if at.Reason == "" {
		return ""
	}
	return "because of " + becauseOf(at)
}
