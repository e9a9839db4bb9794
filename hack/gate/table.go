package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	resultDir  = "_output/gate"
	resultFile = resultDir + "/result.md"
	runsFile   = resultDir + "/runs.tsv"
	figures    = "docs/testing.md"
	// slowest is how many tests the table has, at least: all over budget are in it.
	slowest = 20
	// budget is what a test of the lab may take in the gate.
	budget = 20 * time.Second
)

// busyTime is what all processes have used of the processors, and the kernel's interrupts: /proc/stat, in ticks of 10 ms.
func busyTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var busy int64
	for i, field := range strings.Fields(line)[1:] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		if slices.Contains([]int{0, 1, 2, 5, 6}, i) { // user, nice, system, irq, softirq
			busy += n
		}
	}
	return time.Duration(busy) * 10 * time.Millisecond
}

// table is what a run took, in Markdown.
func (g *gate) table(lab time.Duration) string {
	var b strings.Builder
	b.WriteString("| Step | Duration | Processor time |\n|---|---|---|\n")
	var all time.Duration
	for _, s := range g.steps {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.name, short(s.took), short(s.cpu))
		all += s.cpu
	}
	fmt.Fprintf(&b, "| all | %s | %s, of these the lab %s |\n\n", short(time.Since(g.started)), short(all), short(lab))
	b.WriteString("| Test | Step | Duration |\n|---|---|---|\n")
	rows := 0
	for _, r := range g.record.all() {
		over := r.Step == labStep && r.Took.Round(time.Second) > budget
		if r.Outcome == "skip" || strings.HasSuffix(r.Step, " again") || rows >= slowest && !over {
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %.0f s |\n", r.Test, r.Step, r.Took.Seconds())
		rows++
	}
	return b.String()
}

// short is a duration in minutes and seconds.
func short(d time.Duration) string {
	d = d.Round(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
}

const (
	figuresBegin = "<!-- begin: written by make figures -->\n"
	figuresEnd   = "<!-- end -->\n"
)

// putFigures replaces the tables of docs/testing.md by those of the last run.
func putFigures(root string) error {
	table, err := os.ReadFile(filepath.Join(root, resultFile))
	if err != nil {
		return fmt.Errorf("reading the last run's tables: %w", err)
	}
	name := filepath.Join(root, figures)
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), figuresBegin)
	_, after, closed := strings.Cut(rest, figuresEnd)
	if !ok || !closed {
		return fmt.Errorf("%s lacks the lines %q and %q", figures, figuresBegin, figuresEnd)
	}
	return os.WriteFile(name, []byte(before+figuresBegin+"\n"+string(table)+"\n"+figuresEnd+after), 0o644)
}

// slowTests are the rows of tests of the lab in a page's tables, in seconds.
func slowTests(page string) map[string]int {
	tests := map[string]int{}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.TrimSpace(cells[1]) != labStep {
			continue
		}
		seconds, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(cells[2]), " s"))
		if err == nil {
			tests[strings.Trim(strings.TrimSpace(cells[0]), "`")] = seconds
		}
	}
	return tests
}

// addRun appends a line about the run to runs.tsv: date, commit, areas, duration, outcome, numbers of tests, flakes,
// and the pressure at its end.
func (g *gate) addRun(areas []string, v verdict) error {
	counts := g.counts()
	outcome := "green"
	if len(v.red) > 0 {
		outcome = "red"
	}
	var flakes []string
	for _, r := range v.flakes {
		flakes = append(flakes, r.Test)
	}
	file, err := os.OpenFile(filepath.Join(g.cfg.root, runsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, strings.Join([]string{
		g.started.UTC().Format(time.RFC3339), head(g.cfg.root), strings.Join(areas, ","), short(time.Since(g.started)), outcome,
		fmt.Sprintf("%d passed, %d failed", counts["pass"]+len(flakes), counts["fail"]-len(flakes)), "FLAKE: " + strings.Join(flakes, " "), pressure(),
	}, "\t"))
	return err
}

// counts are the numbers of tests by outcome.
func (g *gate) counts() map[string]int {
	counts := map[string]int{}
	for _, r := range g.record.all() {
		if !strings.HasSuffix(r.Step, " again") {
			counts[r.Outcome]++
		}
	}
	return counts
}
