package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// Live is the way of packets between two ends, by the flows that forward them now.
type Live struct {
	Header
	streams.Ends
	Verdict string `json:"verdict"`
	// Legs are the parts of the way on each node, there before back.
	Legs []Leg `json:"legs"`
	// Flows is how many flows of the datapath the way has. Named ones have all their rules explained.
	Flows int `json:"flows"`
	Named int `json:"namedFlows"`
	// Compared is there if it was asked for.
	Compared *Compared `json:"compared,omitempty"`
}

// The verdicts: packets arrive, none does, some do, none of those sent into a tunnel was received, the flows of a node that may have
// received them are not known, or there is no packet now.
const (
	Allowed = "allowed"
	Dropped = "dropped"
	Partly  = "partly dropped"
	Lost    = "lost"
	Sent    = "sent, not known whether received"
	Idle    = "idle"
)

// Leg is the way on one node.
type Leg struct {
	Back bool `json:"back,omitempty"`
	// Shared: its flows match packets of others, too.
	Shared bool `json:"shared,omitempty"`
	streams.Stream
	Parts []LegFlow `json:"parts"`
	// Deny is there if NetworkPolicies drop the packets.
	Deny *DefaultDeny `json:"defaultDeny,omitempty"`
}

// LegFlow is one flow of a leg, with the rules that decided.
type LegFlow struct {
	ID string `json:"id"`
	flowapi.Placed
	Packets uint64     `json:"packets"`
	Next    []uint32   `json:"next,omitempty"`
	Steps   []LiveStep `json:"steps,omitempty"`
	Problem string     `json:"problem,omitempty"`
	// TC is the flow's rule there.
	TC *flowapi.TCRule `json:"tc,omitempty"`
}

// LiveStep is a decision.
type LiveStep struct {
	Stage   string   `json:"stage"`
	What    string   `json:"what"`
	Objects []string `json:"objects,omitempty"`
}

func (s LiveStep) cells() []string {
	var objects []string
	for _, owner := range s.Objects {
		objects = append(objects, Object(owner))
	}
	return []string{s.Stage, s.What, strings.Join(objects, ", ")}
}

// NewLive finds the way from a pod, node/NAME or outside to a target, pod/NAMESPACE/NAME, svc/NAMESPACE/NAME, node/NAME or an address,
// in the flows of the nodes. at is where the packets enter.
func NewLive(s *snapshot.Snapshot, want streams.Ends, at string, flows []flowapi.Flow, missing []string) (*Live, error) {
	names, err := Whose(s)
	if err != nil {
		return nil, err
	}
	l := &Live{Header: header("Live", s), Ends: want, Legs: []Leg{}, Verdict: Idle}
	l.missed(missing)
	flows = once(flows)
	all := streams.Join(flows, names)
	b, err := newBetween(s, want, at, all)
	if err != nil {
		return nil, err
	}
	byID := map[string]*flowapi.Flow{}
	for i := range flows {
		byID[flows[i].Node+"/"+flows[i].ID] = &flows[i]
	}
	for _, leg := range b.legs(all) {
		l.add(leg, byID)
	}
	l.sort(b.first)
	unread := b.unread(l.Legs)
	l.missed(unread)
	if l.Verdict = b.verdict(l.Legs, len(missing)+len(unread) == 0); (l.Verdict == Idle || l.Verdict == Lost) && slices.ContainsFunc(flows, isWithheld) {
		l.missed([]string{"flows with an end in another namespace: the relay withholds that end"})
		l.Verdict = b.verdict(l.Legs, false)
	}
	switch l.Verdict {
	case Allowed, Sent:
		l.Next = l.explainFlow(byID)
	case Idle:
		l.Code, l.Next = max(l.Code, Degraded), computedPath(want, at)
	case Dropped, Partly, Lost:
		l.Code, l.Next = max(l.Code, Degraded), "kubectl offload help policy-surprise"
	}
	return l, nil
}

// explainFlow is the command that explains the first flow of the way that is outside hardware, or else the first. It names the namespace
// of a pod of the flow: users may read the flows of one.
func (l *Live) explainFlow(flows map[string]*flowapi.Flow) string {
	var way []*flowapi.Flow
	for _, leg := range l.Legs {
		for _, part := range leg.Parts {
			way = append(way, flows[leg.Node+"/"+part.ID])
		}
	}
	f := way[max(0, slices.IndexFunc(way, func(f *flowapi.Flow) bool { return f.Place != offload.Hardware }))]
	namespace := f.From.Namespace
	for _, end := range f.To {
		namespace = cmp.Or(namespace, end.Namespace)
	}
	return inNamespace(explainFlow(f), namespace)
}

// computedPath is the command that computes the path of a first packet.
func computedPath(want streams.Ends, at string) string {
	port, _ := strconv.ParseUint(want.Port, 10, 16) // that of a Connection
	command := "kubectl offload trace " + want.From + " " + trace.TargetText(want.To, strings.TrimSuffix(want.Protocol, "6"), uint16(port))
	if strings.HasPrefix(want.From, trace.Outside) && !strings.HasPrefix(want.To, "node/") {
		command += " --at " + at
	}
	return command
}

// isWithheld says that a flow may be of the packets, too.
func isWithheld(f flowapi.Flow) bool {
	return f.Source == flowapi.Withheld || f.Target == flowapi.Withheld
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

func (l *Live) add(leg Leg, flows map[string]*flowapi.Flow) {
	for _, id := range leg.Flows {
		f := flows[leg.Node+"/"+id]
		if f == nil {
			continue
		}
		leg.Parts = append(leg.Parts, legFlow(f, leg.Via))
		l.Flows++
		if len(f.DecidedBy) > 0 {
			l.Named++
		}
	}
	l.Legs = append(l.Legs, leg)
}

// legFlow keeps the rules that say something: most stages pass a packet on. What drops a packet in a flow that forwards it has dropped
// a copy, such as that for the gateway bridge of one for a tunnel.
func legFlow(f *flowapi.Flow, via string) LegFlow {
	out := LegFlow{ID: f.ID, Placed: f.Placed, Packets: f.Packets, Next: f.Next}
	if f.Why == nil {
		return out
	}
	out.Problem, out.TC = f.Why.Problem, f.Why.TC
	for _, r := range f.Why.Rules {
		if r.Name == nil || r.Name.What == "" && r.Name.Problem == "" {
			continue
		}
		step := LiveStep{Stage: r.Name.Stage, What: cmp.Or(r.Name.What, r.Name.Problem), Objects: r.Name.Objects}
		if step.What == "load balancer" && via != "" {
			step.What += ": to " + via
		}
		if r.Table == dropTable || !f.Drops && flownames.IsDrop(step.What) || slices.ContainsFunc(out.Steps, func(s LiveStep) bool { return s.What == step.What && slices.Equal(s.Objects, step.Objects) }) {
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
		l.Compared.print(p)
		return
	}
	number := 0
	for _, leg := range l.Legs {
		direction := ""
		if leg.Back {
			direction = "back, "
		}
		p.Line("")
		shared := ""
		if leg.Shared {
			shared = "with those of others "
		}
		rate := ""
		if leg.PacketsPerSecond != nil {
			rate = fmt.Sprintf("(%s a second) ", strconv.FormatFloat(*leg.PacketsPerSecond, 'f', 0, 64))
		}
		p.Line("%snode %s  %s, %d packets %s%s%s", direction, leg.Node, leg.Place, leg.Packets, rate, shared, reasonOf(leg.Placed))
		var rows [][]string
		for i, part := range leg.Parts {
			for _, step := range part.Steps {
				number++
				rows = append(rows, append([]string{fmt.Sprintf("%3d", number)}, step.cells()...))
			}
			rows = append(rows, []string{"", fmt.Sprintf("flow %d of %d", i+1, len(leg.Parts)), part.ID, string(part.Place) + " " + part.Problem})
			rows = append(rows, part.tcRow()...)
		}
		p.Table(rows)
		switch {
		case leg.Drops:
			p.Line("    DROPPED by %s", decided(leg.Stream))
			leg.Deny.print(p, "    ")
		case leg.Tunnel != "":
			p.Line("    tunnel with %s", leg.Tunnel)
		}
	}
	p.Line("")
	p.Line("%d of %d flows named; no packet was sent", l.Named, l.Flows)
	l.Compared.print(p)
}

// tcRow is the rule of TC as a row, if it is known or should be.
func (f LegFlow) tcRow() [][]string {
	switch {
	case f.TC == nil:
		return nil
	case f.TC.Problem != "":
		return [][]string{{"", "rule of TC", "not known: " + f.TC.Problem}}
	}
	taken := "not_in_hw"
	if f.TC.InHardware {
		taken = "in_hw"
	}
	return [][]string{{"", "rule of TC", strings.TrimPrefix(fmt.Sprintf("%s chain %d pref %d handle 0x%x %s", f.TC.Device, f.TC.Chain, f.TC.Priority, f.TC.Handle, taken), " "), fmt.Sprintf("%d packets in hardware", f.TC.Packets)}}
}

func reasonOf(at flowapi.Placed) string {
	if at.Reason == "" {
		return ""
	}
	return "because of " + becauseOf(at)
}
