package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// Compared is where the path that OVN wants and the one that packets take differ.
type Compared struct {
	// Verdict is that of the computed path.
	Verdict trace.Verdict `json:"verdict"`
	Same    bool          `json:"same"`
	// Computed and Live are the decisions of which the other way has none, each in its order.
	Computed []Decision `json:"computed,omitempty"`
	Live     []Decision `json:"live,omitempty"`
	// Problem is why the two cannot be compared.
	Problem string `json:"problem,omitempty"`
}

// Decision is one about a policy or a service.
type Decision struct {
	What   string `json:"what"`
	Object string `json:"object,omitempty"`
}

func (d Decision) String() string { return d.What + " by " + cmp.Or(Object(d.Object), "the network") }

// Compare compares the way with the computed path of a first packet. Packets of a known connection, whose policies were asked
// before, differ from a path of now: that is what it is for.
func (l *Live) Compare(steps []trace.Step, verdict trace.Verdict) {
	c := &Compared{Verdict: verdict}
	l.Compared = c
	if l.Verdict == Idle || l.Verdict == Lost || l.Verdict == Partly || l.Verdict == Sent {
		c.Problem = "the flows are " + l.Verdict
		return
	}
	var computed, live []Decision
	for _, step := range steps {
		computed = appendDecision(computed, step.What, step.Object)
	}
	for _, leg := range l.Legs {
		if leg.Back {
			continue
		}
		for _, part := range leg.Parts {
			if part.Problem != "" {
				c.Problem = fmt.Sprintf("flow %s on node %s: %s", part.ID, leg.Node, part.Problem)
				return
			}
			for _, step := range part.Steps {
				live = appendDecision(live, step.What, step.Objects...)
			}
		}
	}
	c.Computed, c.Live = without(computed, live), without(live, computed)
	arrives := verdict == trace.Delivered || verdict == trace.Leaves
	if c.Same = arrives == (l.Verdict == Allowed) && len(c.Computed) == 0 && len(c.Live) == 0; !c.Same {
		l.Code = max(l.Code, Degraded)
	}
}

// appendDecision adds what was decided, once. It leaves out what differs by its nature: the endpoint that a load balancer chooses,
// and steps of routers.
func appendDecision(to []Decision, what string, objects ...string) []Decision {
	what, _, _ = strings.Cut(what, ": to ")
	isPolicy := strings.HasPrefix(what, "egress") || strings.HasPrefix(what, "ingress")
	d := Decision{What: what}
	if len(objects) > 0 {
		d.Object = objects[0]
	}
	if !isPolicy && !strings.HasPrefix(what, "load balancer") || slices.Contains(to, d) {
		return to
	}
	return append(to, d)
}

func without(all, others []Decision) (out []Decision) {
	for _, d := range all {
		if !slices.Contains(others, d) {
			out = append(out, d)
		}
	}
	return out
}

func (c *Compared) print(p *Page) {
	switch {
	case c == nil:
		return
	case c.Problem != "":
		p.Line("not compared with the computed path, which is %s: %s", c.Verdict, c.Problem)
		return
	case c.Same:
		p.Line("the computed path is the same: %s", c.Verdict)
		return
	}
	p.Line("the computed path is another: %s", c.Verdict)
	if len(c.Computed) > 0 {
		p.Line("  only computed: %s", c.Computed[0])
	}
	if len(c.Live) > 0 {
		p.Line("  only by flows: %s", c.Live[0])
	}
}
