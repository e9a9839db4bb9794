package answer

import (
	"fmt"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// Traced is the way of a connection's first packet, as OVN's logical flows say.
type Traced struct {
	Header
	// From is the address of a pod, node/NAME, outside or outside/ADDRESS.
	From     string        `json:"from"`
	To       string        `json:"to"`
	Protocol string        `json:"protocol"`
	Verdict  trace.Verdict `json:"verdict"`
	Steps    []trace.Step  `json:"steps"`
	// Deny is there if NetworkPolicies drop the packet.
	Deny *DefaultDeny `json:"defaultDeny,omitempty"`
}

// AddPolicies adds the policies without a rule that allows the packet.
func (t *Traced) AddPolicies(s *snapshot.Snapshot, c trace.Connection) (err error) {
	if n := len(t.Steps); n > 0 && t.Verdict == trace.Dropped {
		t.Deny, err = defaultDeny(s, c, t.Steps[n-1])
	}
	return err
}

// NewTraced makes the answer from the steps of a path.
func NewTraced(s *snapshot.Snapshot, c trace.Connection, steps []trace.Step, verdict trace.Verdict) *Traced {
	t := &Traced{Header: header("Traced", s), From: c.Source.String(), To: c.Target.String(), Protocol: c.Protocol, Steps: steps, Verdict: verdict}
	if c.From != "" && !strings.HasPrefix(c.From, "pod/") { // a step has the address
		t.From = c.From
	}
	if c.Protocol == "icmp" {
		t.To = c.Target.Addr().String()
	}
	t.Next = "kubectl offload trace " + c.Asked + " --live"
	if verdict == trace.Dropped || verdict == trace.Rejected {
		t.Code, t.Next = max(t.Code, Degraded), "kubectl offload help policy-surprise"
	}
	return t
}

// Text implements Answer.
func (t *Traced) Text(p *Page) {
	p.Line("%s to %s over %s: %s", t.From, t.To, t.Protocol, strings.ToUpper(string(t.Verdict)))
	var rows [][]string
	for i, s := range t.Steps {
		rows = append(rows, []string{fmt.Sprintf("%3d", i+1), s.Where, s.What, Object(s.Object)})
	}
	p.Table(rows)
	if t.Verdict == trace.Dropped || t.Verdict == trace.Rejected {
		last := "the network itself: no rule of a policy did"
		if n := len(t.Steps); n > 0 && t.Steps[n-1].Object != "" {
			last = Object(t.Steps[n-1].Object)
		}
		p.Line("%s by %s", t.Verdict, last)
		t.Deny.print(p, "")
	}
	p.Line("computed from the Southbound database: no packet was sent")
}
