package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/perf"
)

// Measured is how fast the network is between two nodes, and what that costs them.
type Measured struct {
	Header
	NodeA    string        `json:"nodeA"`
	NodeB    string        `json:"nodeB"`
	Resource string        `json:"resource,omitempty"`
	Results  []perf.Result `json:"results"`
}

// NewMeasured makes the answer. One result that is not good is worse than facts that are missing.
func NewMeasured(at conncheck.Place, results []perf.Result, missing []string, now time.Time) *Measured {
	m := &Measured{
		Header: Header{APIVersion: Version, Kind: "Measured", Taken: now, Missing: missing}, NodeA: at.NodeA, NodeB: at.NodeB,
		Resource: at.Resource, Results: results,
	}
	if len(missing) > 0 {
		m.Code = Uncertain
	}
	for _, r := range results {
		if r.Wrong() != "" {
			m.Code = Degraded
		}
	}
	switch {
	case m.Code == Degraded:
		m.Next = "kubectl offload test"
	case at.Resource == "":
		m.Next = "kubectl offload perf --resource RESOURCE"
	default:
		m.Next = "kubectl offload explain --worst 10"
	}
	return m
}

// Text implements Answer.
func (m *Measured) Text(p *Page) {
	rows := [][]string{{"CASE", "Gb/s", "PER SECOND", "P50/P99 us", "HARDWARE", "HOST CORES", "SOFTIRQ", "Gb/s PER CORE"}}
	for _, r := range m.Results {
		if r.Wrong() == "" {
			rows = append(rows, measuredRow(r))
		}
	}
	if len(rows) > 1 {
		p.Table(rows)
	}
	m.notes(p)
	good := len(rows) - 1
	p.Line("%d of %d measured; from node %s to %s", good, len(m.Results), m.NodeA, m.NodeB)
}

// notes are what the table has no column for.
func (m *Measured) notes(p *Page) {
	reasons, shared, displaced := map[offload.Reason]int{}, false, false
	for _, r := range m.Results {
		shared = shared || r.OneMachine
		if wrong := r.Wrong(); wrong != "" {
			p.Line("failed: %s: %s", r.ID, wrong)
			continue
		}
		displaced = displaced || r.Displaced()
		if r.Reason != "" && r.Share != nil && r.Share.Hardware.Packets == 0 {
			reasons[r.Reason]++
		}
		if r.ToHardware > 0 {
			p.Line("%s: in hardware %.1f s after the first packet, or sooner", r.ID, r.ToHardware)
		}
		if r.Lost > 0 {
			p.Line("%s: %.1f %% of the datagrams were lost", r.ID, 100*float64(r.Lost)/float64(r.Lost+r.Datagrams))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		p.Line("%s not in hardware because of %s", plural(reasons[reason], "case"), reason)
	}
	if shared {
		p.Line("both nodes are on one machine: its CPU time is counted once")
	}
	if displaced {
		p.Line("where host cores are not known, the load took cores from other work on the nodes")
	}
}

func measuredRow(r perf.Result) []string {
	row := []string{r.ID, "-", "-", "-", "-", "-", fmt.Sprintf("%.2f", r.SoftirqCores), "-"}
	if r.HostCores > 0 && !r.Displaced() {
		row[5] = fmt.Sprintf("%.2f", r.HostCores)
	}
	if r.BitsPerSecond > 0 {
		row[1] = fmt.Sprintf("%.2f", r.BitsPerSecond/1e9)
		if perCore := r.BitsPerCore(); perCore > 0 {
			row[7] = fmt.Sprintf("%.1f", perCore/1e9)
		}
	}
	if r.PerSecond > 0 {
		row[2] = fmt.Sprintf("%.0f %s", r.PerSecond, perSecond(r.ID))
	}
	if r.P50 > 0 {
		row[3] = fmt.Sprintf("%.0f/%.0f", r.P50, r.P99)
	}
	if r.Share != nil {
		row[4] = percent(*r.Share)
	}
	return row
}

// perSecond is what a case counts.
func perSecond(id string) string {
	kind, _, _ := strings.Cut(id, "/")
	return map[string]string{"stream": "datagrams", "rr": "answers", "crr": "connections"}[kind]
}

// MeasuredLine is the line of one case, number n of all.
func MeasuredLine(n, all int, r perf.Result) string {
	var known []string
	for i, unit := range []string{1: "Gb/s", 2: "a second", 3: "us", 4: "in hardware", 5: "cores"} {
		if cell := measuredRow(r)[i]; i > 0 && cell != "-" {
			known = append(known, cell+" "+unit)
		}
	}
	text := strings.Join(known, ", ")
	if wrong := r.Wrong(); wrong != "" {
		text = "FAIL  " + wrong
	}
	return fmt.Sprintf("[%2d/%d] %-28s %s", n, all, r.ID, text)
}
