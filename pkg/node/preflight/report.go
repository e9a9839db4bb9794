package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Verdict is what a finding means for the installation.
type Verdict int

// With Warn the network works, and the finding names what does not. With Fail it does not work, or the node may lose
// its own network.
const (
	Pass Verdict = iota
	Warn
	Fail
)

func (v Verdict) String() string { return [...]string{"pass", "warn", "fail"}[v] }

// MarshalText writes the word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Page has a section for each check.
const Page = "docs/preflight.md"

// Finding is the result of one check. Do is empty for Pass.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Message string  `json:"message"`
	Do      string  `json:"do,omitempty"`
	Page    string  `json:"page"`
}

// Report is all of a node.
type Report struct {
	Node    string  `json:"node"`
	Verdict Verdict `json:"verdict"`
	// TakenOver says that the agent has the node's uplink already.
	TakenOver bool `json:"takenOver"`
	// Pods says what they may get on the node.
	Pods     Pods      `json:"pods"`
	Findings []Finding `json:"findings"`

	canOffload, hasVFs bool
}

// Pods is how the pods of a node are attached.
type Pods string

// The ways: in hardware if a pod asks for a VF, in software on a VF, by veth pairs alone, or not at all.
const (
	Offload Pods = "offload"
	VF      Pods = "vf"
	Veth    Pods = "veth"
	No      Pods = "no"
)

func (r Report) withPods() Report {
	switch {
	case r.Verdict == Fail:
		r.Pods = No
	case r.canOffload:
		r.Pods = Offload
	case r.hasVFs:
		r.Pods = VF
	default:
		r.Pods = Veth
	}
	return r
}

// WriteText writes what is to be done first, and the checks that passed at the end.
func (r Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "node %s: %s, pods: %s\n", r.Node, r.Verdict, r.Pods)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, verdict := range []Verdict{Fail, Warn, Pass} {
		for _, f := range r.Findings {
			if f.Verdict != verdict {
				continue
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", f.Verdict, f.Check, f.Message)
			if f.Do != "" {
				fmt.Fprintf(t, "\t\t%s (%s)\n", f.Do, f.Page)
			}
		}
	}
	return t.Flush()
}

// Failures is a line for each finding that fails, with what to do.
func (r Report) Failures() string {
	var lines strings.Builder
	for _, f := range r.Findings {
		if f.Verdict == Fail {
			fmt.Fprintf(&lines, "preflight of node %s, check %s: %s %s (%s)\n", r.Node, f.Check, f.Message, f.Do, f.Page)
		}
	}
	return lines.String()
}

// WriteJSON writes one object.
func (r Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
