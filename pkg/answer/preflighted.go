package answer

import (
	"cmp"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/nodecheck"
)

// Preflighted is whether nodes are fit for the network.
type Preflighted struct {
	Header
	Nodes []nodecheck.Report `json:"nodes"`
	// Networks are the objects that would not have their network.
	Networks []nodecheck.Refused `json:"networks,omitempty"`
}

// NewPreflighted makes the answer of the nodes' reports: the worst of them is the exit code.
func NewPreflighted(reports []nodecheck.Report, now time.Time) *Preflighted {
	p := &Preflighted{Header: Header{APIVersion: Version, Kind: "Preflighted", Taken: now}, Nodes: reports}
	for _, r := range reports {
		switch r.Verdict {
		case "pass":
		case "warn":
			p.Code = max(p.Code, Degraded)
		case "fail":
			p.Code = max(p.Code, Broken)
		default:
			p.Missing = append(p.Missing, "node/"+r.Node+": "+r.Error)
		}
	}
	if len(p.Missing) > 0 && p.Code < Broken {
		p.Code = Uncertain
	}
	if p.Next = "kubectl offload help get-started"; p.Code != Good {
		p.Next = "kubectl offload help preflight"
	}
	return p
}

// WithNetworks adds the objects that would not have their network, which are warnings; err says why they are not known.
func (p *Preflighted) WithNetworks(refused []nodecheck.Refused, err error) *Preflighted {
	if p.Networks = refused; len(refused) > 0 {
		p.Code = max(p.Code, Degraded)
	}
	if err != nil {
		p.Missing = append(p.Missing, "networks: "+err.Error())
		if p.Code < Broken {
			p.Code = Uncertain
		}
	}
	if p.Code != Good {
		p.Next = "kubectl offload help preflight"
	}
	return p
}

// Text implements Answer.
func (p *Preflighted) Text(page *Page) {
	rows := [][]string{{"NODE", "VERDICT", "PODS", "NIC"}}
	for _, r := range p.Nodes {
		rows = append(rows, []string{r.Node, verdictWords()[r.Verdict], cmp.Or(r.Pods, "-"), nicOf(r)})
	}
	page.Table(rows)
	for _, r := range p.Nodes {
		for _, f := range r.Findings {
			if f.Verdict == "pass" {
				continue
			}
			page.Line("%s: %s: %s: %s", r.Node, f.Verdict, f.Check, f.Message)
			page.Line("    %s", strings.TrimSpace(f.Do))
		}
	}
	for _, r := range p.Networks {
		page.Line("%s: warn: %s", r.Object, r.Message)
	}
}

func verdictWords() map[string]string {
	return map[string]string{"pass": "fit", "warn": "fit, with warnings", "fail": "not fit", "": "not known"}
}

// nicOf is what the check of the NIC says.
func nicOf(r nodecheck.Report) string {
	for _, f := range r.Findings {
		if f.Check == "nic" {
			return f.Message
		}
	}
	return ""
}
