package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck/disrupt"
)

// Tested is what a connectivity test has found.
type Tested struct {
	Header
	NodeA   string `json:"nodeA"`
	NodeB   string `json:"nodeB"`
	Good    int    `json:"good"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
	// Ways are the ways of packets on a node that the table of places knows, by what it expects. Unseen are those of which
	// the agents saw no flow.
	Ways    map[string]int     `json:"ways,omitempty"`
	Unseen  int                `json:"unseenWays,omitempty"`
	Results []conncheck.Result `json:"results"`
	conncheck.Final
	// Lasting is known of connections that last, of which the results are.
	Lasting *Lasting `json:"lasting,omitempty"`
}

// Lasting are connections that last while the network is disturbed.
type Lasting struct {
	Namespace string `json:"namespace"`
	// Seconds are those since the first connection began. Silence is the longest time without an answer in seconds, of the
	// connection By; MaxSilence is the longest that is good, 0 at the beginning.
	Seconds    float64 `json:"seconds"`
	Silence    float64 `json:"silence"`
	By         string  `json:"by,omitempty"`
	MaxSilence float64 `json:"maxSilence"`
}

// NewLasting is NewTested of connections that last. Maximum is the longest silence that is good; 0: they have just begun.
func NewLasting(at conncheck.Place, out conncheck.Outcome, maximum time.Duration, now time.Time) *Tested {
	t := NewTested(at, out, now)
	t.Lasting = &Lasting{Namespace: disrupt.Namespace, MaxSilence: maximum.Seconds()}
	for _, r := range out.Results {
		if r.Lasted == nil || r.Lasted.Began.IsZero() {
			continue
		}
		t.Lasting.Seconds = max(t.Lasting.Seconds, r.Seconds)
		if r.Lasted.Silence > t.Lasting.Silence {
			t.Lasting.Silence, t.Lasting.By = r.Lasted.Silence, r.ID
		}
	}
	switch {
	case t.Code != Good:
	case maximum == 0:
		t.Next = "kubectl offload test --check-disrupt"
	default:
		t.Next = "kubectl offload test" // of new connections
	}
	return t
}

// NewTested counts results. A test without a good case has shown nothing.
func NewTested(at conncheck.Place, out conncheck.Outcome, now time.Time) *Tested {
	t := &Tested{
		Header: Header{APIVersion: Version, Kind: "Tested", Taken: now}, NodeA: at.NodeA, NodeB: at.NodeB, Results: out.Results, Ways: map[string]int{}, Final: out.Final,
	}
	for _, r := range out.Results {
		for _, p := range r.Places {
			if len(p.Seen) == 0 {
				t.Unseen++
			} else if !p.Wrong {
				t.Ways[p.Expected]++
			}
		}
		switch r.Verdict {
		case conncheck.OK:
			t.Good++
		case conncheck.Fail:
			t.Failed++
		case conncheck.Skip:
			t.Skipped++
		}
	}
	switch {
	case t.Failed > 0 || len(t.Restarts) > 0:
		t.Code, t.Next = Degraded, "kubectl offload status"
	case t.Good == 0:
		t.Code = Uncertain
	case len(out.Missing) > 0:
		t.Code, t.Next = Uncertain, "kubectl offload status"
	default:
		t.Next = "kubectl offload perf"
	}
	t.Missing = out.Missing
	return t
}

// Text implements Answer. The cases have been written one by one, but for connections that last.
func (t *Tested) Text(p *Page) {
	for i, r := range t.Results {
		if t.Lasting != nil && r.Verdict != conncheck.Skip {
			p.Line("%s", TestedLine(i+1, len(t.Results), r))
		} else if r.Verdict == conncheck.Fail {
			p.Line("failed: %s: %s", r.ID, r.Text)
		}
	}
	skipped := map[string]int{}
	for _, r := range t.Results {
		if r.Verdict == conncheck.Skip {
			skipped[r.Text]++
		}
	}
	for _, why := range slices.SortedFunc(maps.Keys(skipped), cmp.Compare) {
		p.Line("%d skipped: %s", skipped[why], why)
	}
	if len(t.Ways) > 0 || t.Unseen > 0 {
		var ways []string
		for _, expected := range slices.Sorted(maps.Keys(t.Ways)) {
			ways = append(ways, fmt.Sprintf("%d in %s", t.Ways[expected], expected))
		}
		p.Line("places as expected: %s; %d without a flow", cmp.Or(strings.Join(ways, ", "), "none"), t.Unseen)
	}
	p.Line("%d of %d good, %d failed, %d skipped; nodes %s and %s", t.Good, len(t.Results), t.Failed, t.Skipped, t.NodeA, t.NodeB)
	if t.Lasting != nil {
		t.lasting(p)
		return
	}
	t.final(p)
}

func (t *Tested) lasting(p *Page) {
	text := fmt.Sprintf("the connections last for %.0f s", t.Lasting.Seconds)
	if t.Lasting.By != "" {
		text += fmt.Sprintf("; longest silence %.1f s, of %s", t.Lasting.Silence, t.Lasting.By)
	}
	p.Line("%s", text)
}

// final says what happened to the network meanwhile.
func (t *Tested) final(p *Page) {
	for _, text := range t.Restarts {
		p.Line("failed: %s", text)
	}
	for _, text := range t.Drops {
		p.Line("dropped, and no case expects it: %s", text)
	}
	for _, text := range t.Errors {
		p.Line("error in a log: %s", text)
	}
	p.Line("meanwhile: %d restarts, %d unexpected drops, %d errors in logs", len(t.Restarts), len(t.Drops), len(t.Errors))
}

// TestedLine is the line of one case, number n of all.
func TestedLine(n, all int, r conncheck.Result) string {
	return fmt.Sprintf("[%3d/%d] %-52s %-5s %s  %.1f s", n, all, r.ID, r.Verdict, r.Text, r.Seconds)
}
