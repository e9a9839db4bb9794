package answer

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Version is the apiVersion of all answers. Fields are only added to it.
const Version = "cli.ovn-offload.io/v1"

// Code is the exit code of the plugin.
type Code int

// The exit codes of all verbs.
const (
	Good      Code = 0  // all is well
	Degraded  Code = 1  // it works in part, or the answer is no
	Broken    Code = 2  // it does not work
	Uncertain Code = 3  // the facts are missing
	Usage     Code = 64 // the command is wrong
)

// Header begins each answer.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Taken is when the facts were read.
	Taken time.Time `json:"taken"`
	// Measured is when the oldest of the flows were dumped, by the clock of their node.
	Measured time.Time `json:"measured,omitzero"`
	// Code is the exit code.
	Code Code `json:"exitCode"`
	// Missing are facts that could not be read, with the reason.
	Missing []string `json:"missing,omitempty"`
	// DPUs are the Nodes of DPUs by the host whose flows they have.
	DPUs map[string]string `json:"dpus,omitempty"`
	// Next is a command that leads further.
	Next string `json:"next,omitempty"`
}

// Answer is what a verb says.
type Answer interface {
	// Head is the answer's header.
	Head() *Header
	// Text writes the answer for people.
	Text(w *Page)
}

// Head implements Answer.
func (h *Header) Head() *Header { return h }

func header(kind string, s *snapshot.Snapshot) Header {
	h := Header{APIVersion: Version, Kind: kind, Taken: s.Taken, Measured: s.Measured, DPUs: s.DPUs}
	for _, r := range slices.Sorted(maps.Keys(s.Missing)) {
		h.Missing = append(h.Missing, fmt.Sprintf("%s: %s", r, s.Missing[r]))
	}
	if len(h.Missing) > 0 {
		h.Code = Uncertain
	}
	return h
}

// Write writes an answer in a format: text, json or yaml. now is for the answer's age.
func Write(w io.Writer, a Answer, format string, now time.Time) error {
	switch format {
	case "text":
		page := &Page{narrow: isTerminal(w)}
		a.Text(page)
		h := a.Head()
		for _, host := range slices.Sorted(maps.Keys(h.DPUs)) {
			page.Line("the flows of node/%s are those of its DPU, node/%s", host, h.DPUs[host])
		}
		for _, missing := range h.Missing {
			page.Line("not known: %s", missing)
		}
		page.Line("as of %s, %s ago", h.Taken.Format(time.RFC3339), age(now.Sub(h.Taken)))
		if !h.Measured.IsZero() {
			page.Line("flows as of %s, %s ago", h.Measured.UTC().Format(time.RFC3339), age(now.Sub(h.Measured)))
		}
		if h.Next != "" {
			page.Line("next: %s", h.Next)
		}
		_, err := io.WriteString(w, page.text.String())
		return err
	case "json":
		text, err := json.MarshalIndent(a, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	case "yaml":
		text, err := yaml.Marshal(a)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	return fmt.Errorf("no format %q: want text, json or yaml", format)
}

// Page is text for people.
type Page struct {
	text strings.Builder
	// narrow keeps rows of names within maxWidth. In pipes and files names are whole, so that they can be found.
	narrow bool
	// width is that of the columns of aligned.
	width []int
}

// Line writes one line.
func (p *Page) Line(format string, args ...any) {
	p.text.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// Table writes rows in columns, each as wide as its widest cell.
func (p *Page) Table(rows [][]string) {
	p.width = nil
	p.aligned(rows)
}

// Names writes rows of names as Table does, on a terminal within maxWidth: sentences are no such rows.
func (p *Page) Names(rows [][]string) {
	if p.narrow {
		rows = fit(rows)
	}
	p.Table(rows)
}

// maxWidth is that of a row of a table, in columns of a terminal.
const maxWidth = 120

// fit cuts cells in their middle, the widest column first, until rows are at most maxWidth wide. -o json has all.
func fit(rows [][]string) [][]string {
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	over := 2*(len(width)-1) - maxWidth
	for _, w := range width {
		over += w
	}
	for ; over > 0; over-- {
		width[slices.Index(width, slices.Max(width))]--
	}
	out := make([][]string, len(rows))
	for i, row := range rows {
		for j, cell := range row {
			out[i] = append(out[i], cut(cell, width[j]))
		}
	}
	return out
}

// cut leaves the beginning and the end of a text: names often differ at their ends.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width || width < 3 {
		return text
	}
	head := (width - 2) / 2
	return string(runes[:head]) + ".." + string(runes[len(runes)-(width-2-head):])
}

// aligned writes rows in columns, each as wide as its widest cell so far.
func (p *Page) aligned(rows [][]string) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(p.width) {
				p.width = append(p.width, 0)
			}
			p.width[i] = max(p.width[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", p.width[i]-len([]rune(cell))+2))
		}
		p.Line("%s", line.String())
	}
}

// age is a duration in its two largest units.
func age(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

func plural(n int, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(one, "y"))
	}
	return fmt.Sprintf("%d %ss", n, one)
}
