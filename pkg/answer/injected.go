package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/inject"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// Injected is what became of packets that were sent in the name of a pod.
type Injected struct {
	Header
	From     string `json:"from"`
	To       string `json:"to"`
	Protocol string `json:"protocol"`
	// Packets is how many were sent, on Node.
	Packets int    `json:"packets"`
	Node    string `json:"node"`
	Verdict string `json:"verdict"`
	// By is the object that dropped or rejected them.
	By string `json:"by,omitempty"`
	// Deny is there if NetworkPolicies dropped them.
	Deny *DefaultDeny `json:"defaultDeny,omitempty"`
	// Steps are the decisions of the computed path, with the packets that those of objects of users counted meanwhile.
	Steps []InjectedStep    `json:"steps"`
	Seen  []inject.Sighting `json:"seen"`
}

// InjectedStep is a decision, and what its OpenFlows counted on each node.
type InjectedStep struct {
	trace.Step
	Counted string `json:"counted,omitempty"`
}

// NewInjected makes the answer.
func NewInjected(s *snapshot.Snapshot, r *inject.Result) (*Injected, error) {
	verdict, by := r.Ended()
	c := r.Connection
	i := &Injected{Header: header("Injected", s), From: c.From, To: r.Where(), Protocol: c.Protocol, Packets: r.Count, Node: r.Sender.Spec.NodeName, Verdict: verdict, Seen: slices.Clone(r.Seen)}
	if i.Seen == nil {
		i.Seen = []inject.Sighting{}
	}
	i.missed(r.Problems)
	for _, step := range r.Steps {
		counted := ""
		if step.Flow != "" && !strings.HasPrefix(step.Object, "Network/") { // what all packets meet says nothing
			counted = r.On(step)
		}
		i.Steps = append(i.Steps, InjectedStep{step, counted})
	}
	i.Next = "kubectl offload trace " + c.From + " " + r.Where() + " --live"
	if verdict != inject.Arrived && verdict != inject.Left {
		i.Code, i.Next = max(i.Code, Degraded), "kubectl offload help policy-surprise"
	}
	if verdict != inject.Dropped {
		return i, nil
	}
	i.By = by.Object
	var err error
	if r.Verdict == trace.Dropped {
		i.Deny, err = defaultDeny(s, c, by)
	}
	return i, err
}

// Text implements Answer.
func (i *Injected) Text(p *Page) {
	p.Line("%s from %s to %s, sent on node %s: %s", plural(i.Packets, "packet"), i.From, i.To, i.Node, strings.ToUpper(i.Verdict))
	rows := [][]string{{"", "WHERE", "DECISION", "OBJECT", "COUNTED"}}
	for n, s := range i.Steps {
		rows = append(rows, []string{fmt.Sprintf("%3d", n+1), s.Where, s.What, Object(s.Object), s.Counted})
	}
	p.Table(rows)
	p.Line("")
	seen := [][]string{{"SEEN ON NODE", "POD", "INTERFACE", "DIRECTION", "PACKETS"}}
	for _, s := range i.Seen {
		seen = append(seen, []string{s.Node, s.Pod, s.Interface, s.Direction, fmt.Sprint(s.Packets)})
	}
	switch {
	case len(i.Seen) > 0:
		p.Table(seen)
	default:
		p.Line("no interface of the nodes of both ends has seen it")
	}
	switch i.Verdict {
	case inject.Dropped:
		p.Line("dropped by %s", Object(i.By))
		i.Deny.print(p, "")
	case inject.Vanished:
		p.Line("no object that drops such packets by the computed path has counted them")
	}
	p.Line("COUNTED is of all packets meanwhile. Software handles the first packet of a connection whatever the NIC can do:")
	p.Line("this says nothing about offload, and --live does")
}
