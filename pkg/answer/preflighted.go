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
	// Unserved are the objects that would have no effect, by kind.
	Unserved []nodecheck.Unserved `json:"unserved,omitempty"`
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
	p.Networks = refused
	return p.with("networks", len(refused), err)
}

// WithUnserved adds the objects that would have no effect, which are warnings; err says which kinds are not known.
func (p *Preflighted) WithUnserved(unserved []nodecheck.Unserved, err error) *Preflighted {
	p.Unserved = unserved
	return p.with("kinds that are not served", len(unserved), err)
}

// with takes warnings into the exit code, and an error that says why some of them are not known.
func (p *Preflighted) with(what string, warnings int, err error) *Preflighted {
	if warnings > 0 {
		p.Code = max(p.Code, Degraded)
	}
	if err != nil {
		p.Missing = append(p.Missing, what+": "+err.Error())
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
	for _, u := range p.Unserved {
		page.Line("%s: warn: %s would have no effect, such as %s", u.Kind, plural(u.Count, "object"), u.Example)
		page.Line("    %s", u.Message)
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
