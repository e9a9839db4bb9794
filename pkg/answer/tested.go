package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
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
	}
	if t.Missing = out.Missing; len(t.Missing) > 0 && t.Code == Good {
		t.Code = Uncertain
	}
	return t
}

// Text implements Answer. The cases have been written one by one.
func (t *Tested) Text(p *Page) {
	for _, r := range t.Results {
		if r.Verdict == conncheck.Fail {
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
	t.final(p)
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
