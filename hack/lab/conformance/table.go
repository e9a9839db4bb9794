package conformance

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table is what became of the tests of the network.
type table struct {
	passed, failed int
	failures       []spec
	slowest        []spec         // that ran
	skipped        map[string]int // tests by the line of skip.yaml
	itself         map[string]int // tests that skipped themselves, by what they said
	unfocused      int
	list           skips
}

func newTable(specs []spec, list skips) *table {
	t := &table{skipped: map[string]int{}, itself: map[string]int{}, list: list}
	for _, s := range specs {
		if s.LeafNodeType != "It" && s.State != "failed" || s.LeafNodeType == "It" && !s.ofNetwork() {
			continue
		}
		switch {
		case s.State == "passed" && s.LeafNodeType == "It":
			t.passed++
			t.slowest = append(t.slowest, s)
		case s.State == "skipped" || s.State == "pending":
			t.skip(s)
		default: // failed, panicked, timedout, interrupted, aborted
			t.failed++
			t.failures = append(t.failures, s)
		}
	}
	slices.SortFunc(t.slowest, func(a, b spec) int { return cmp.Compare(b.RunTime, a.RunTime) })
	t.slowest = t.slowest[:min(10, len(t.slowest))]
	return t
}

// skip counts a test that did not run, or not to its end.
func (t *table) skip(s spec) {
	if s.Failure.Message != "" {
		t.itself[firstLine(s.Failure.Message)]++
		return
	}
	for _, line := range t.list {
		if line.match.MatchString(s.name()) {
			t.skipped[line.Test]++
			return
		}
	}
	t.unfocused++
}

// unusedLines are those of the list that no test's name matches.
func (t *table) unusedLines() []string {
	var unused []string
	for _, line := range t.list {
		if t.skipped[line.Test] == 0 {
			unused = append(unused, line.Test)
		}
	}
	return unused
}

func (t *table) write(out io.Writer, took time.Duration) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	skipped, itself := 0, 0
	for _, n := range t.skipped {
		skipped += n
	}
	for _, n := range t.itself {
		itself += n
	}
	fmt.Fprintf(w, "passed\t%d\n", t.passed)
	fmt.Fprintf(w, "failed\t%d\n", t.failed)
	fmt.Fprintf(w, "skipped by skip.yaml\t%d\n", skipped)
	fmt.Fprintf(w, "skipped by themselves\t%d\n", itself)
	if t.unfocused > 0 {
		fmt.Fprintf(w, "not asked for\t%d\n", t.unfocused)
	}
	fmt.Fprintf(w, "time\t%s\n", took.Round(time.Second))
	for _, line := range t.list {
		if n := t.skipped[line.Test]; n > 0 {
			fmt.Fprintf(w, "SKIP\t%d\t%s: %s\n", n, line.Test, line.Reason)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(t.itself)) {
		fmt.Fprintf(w, "SKIP\t%d\tby themselves: %s\n", t.itself[reason], reason)
	}
	for _, s := range t.slowest {
		fmt.Fprintf(w, "SLOW\t%s\t%s\n", s.RunTime.Round(time.Second), s.name())
	}
	for _, s := range t.failures {
		where := s.Failure.Location
		fmt.Fprintf(w, "FAIL\t%s\t%s\n\t\t%s:%d: %s\n", s.RunTime.Round(time.Second), s.name(), filepath.Base(where.FileName), where.LineNumber, firstLine(s.Failure.Message))
	}
	return w.Flush()
}

func (s spec) name() string {
	return strings.TrimSpace(strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " "))
}

func (s spec) ofNetwork() bool {
	return slices.ContainsFunc(append(slices.Clone(s.ContainerHierarchyLabels), s.LeafNodeLabels), func(labels []string) bool {
		return slices.Contains(labels, "sig-network")
	})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
