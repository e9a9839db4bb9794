package answer

import (
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/lint"
)

// Linted is what would not be in hardware.
type Linted struct {
	Header
	Findings []lint.Finding `json:"findings"`
}

// NewLinted makes the answer: no, if a workload would lose hardware. Strict says no to slow first packets, too.
func NewLinted(findings []lint.Finding, strict bool, now time.Time) *Linted {
	l := &Linted{Header: Header{APIVersion: Version, Kind: "Linted", Taken: now, Next: "kubectl offload help offload-status"}, Findings: findings}
	for _, f := range findings {
		if f.Loses || strict {
			l.Code = Degraded
		}
	}
	return l
}

// Text implements Answer.
func (l *Linted) Text(p *Page) {
	if len(l.Findings) == 0 {
		p.Line("no workload on VFs would have traffic outside hardware, as far as the manifest says")
		return
	}
	rows := [][]string{{"WORKLOAD", "BY", "REASON", "WHAT"}}
	for _, f := range l.Findings {
		reason := string(f.Reason)
		if f.Detail != "" {
			reason += ": " + f.Detail
		}
		rows = append(rows, []string{f.Workload, f.Object, reason, f.Traffic})
	}
	p.Table(rows)
}
