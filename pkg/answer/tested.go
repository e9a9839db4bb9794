package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
)

// Tested is what a connectivity test has found.
type Tested struct {
	Header
	NodeA   string             `json:"nodeA"`
	NodeB   string             `json:"nodeB"`
	Good    int                `json:"good"`
	Failed  int                `json:"failed"`
	Skipped int                `json:"skipped"`
	Results []conncheck.Result `json:"results"`
}

// NewTested counts results. A test without a good case has shown nothing.
func NewTested(at conncheck.Place, results []conncheck.Result, now time.Time) *Tested {
	t := &Tested{Header: Header{APIVersion: Version, Kind: "Tested", Taken: now}, NodeA: at.NodeA, NodeB: at.NodeB, Results: results}
	for _, r := range results {
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
	case t.Failed > 0:
		t.Code, t.Next = Degraded, "kubectl offload status"
	case t.Good == 0:
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
	p.Line("%d of %d good, %d failed, %d skipped; nodes %s and %s", t.Good, len(t.Results), t.Failed, t.Skipped, t.NodeA, t.NodeB)
}

// TestedLine is the line of one case, number n of all.
func TestedLine(n, all int, r conncheck.Result) string {
	return fmt.Sprintf("[%3d/%d] %-52s %-5s %s  %.1f s", n, all, r.ID, r.Verdict, r.Text, r.Seconds)
}
