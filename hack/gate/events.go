package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// event is one of `go test -json` and of test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

// result is what became of a test that is no subtest.
type result struct {
	Step, Package, Test string
	Outcome             string // pass, fail or skip; "" when it did not end
	Took                time.Duration
	Output              string
	Pressure            string // of the machine when the test failed
}

// hopeless says why the failure of a test is never taken for a flake; "" if it may be one.
func (r result) hopeless() string {
	for text, why := range map[string]string{
		tier.StrictMark:      "the test is strict",
		"WARNING: DATA RACE": "a data race",
		"panic: ":            "a panic",
		"fatal error: ":      "a fatal error",
	} {
		if strings.Contains(r.Output, text) {
			return why
		}
	}
	return ""
}

// mostOutput is how much of a test's output is kept, its end.
const mostOutput = 256 << 10

// recorder collects events of the steps, which may run at once, and prints what a person wants to see meanwhile.
type recorder struct {
	out io.Writer

	mu      sync.Mutex
	results map[string]*result // by step, package and test
	packs   []string           // packages that failed without a test that did
	output  map[string]*strings.Builder
	onCont  func()
}

func newRecorder(out io.Writer) *recorder {
	return &recorder{out: out, results: map[string]*result{}, output: map[string]*strings.Builder{}, onCont: func() {}}
}

// read takes the events of a step until they end. Lines that are no events are printed.
func (r *recorder) read(step string, from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.take(step, e)
			} else {
				r.print("%s", line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of %s: %w", step, err)
		}
	}
}

// whenParallel has f called when tests that run beside others go on: those that run one by one have ended.
func (r *recorder) whenParallel(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onCont = f
}

func (r *recorder) print(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

func (r *recorder) take(step string, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	top, sub, _ := strings.Cut(e.Test, "/")
	id := resultID(step, e.Package, top)
	switch e.Action {
	case "run":
		r.of(id, step, e.Package, top)
	case "cont":
		if sub == "" { // the tests that run one by one have ended
			r.onCont()
		}
	case "output", "build-output":
		r.keep(id, e.Output)
		if e.Action == "build-output" {
			fmt.Fprint(r.out, e.Output)
		}
	case "pass", "fail", "skip":
		if sub != "" { // a test's own time lacks that of its parallel subtests
			test := r.of(id, step, e.Package, top)
			test.Took = max(test.Took, seconds(e.Elapsed))
			return
		}
		r.end(id, step, e)
	}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// of gives the record of a test, a new one if need be; nil for a package.
func (r *recorder) of(id, step, pkg, test string) *result {
	if test == "" {
		return nil
	}
	if r.results[id] == nil {
		r.results[id] = &result{Step: step, Package: pkg, Test: test}
	}
	return r.results[id]
}

func (r *recorder) keep(id, text string) {
	kept := r.output[id]
	if kept == nil {
		kept = &strings.Builder{}
		r.output[id] = kept
	}
	kept.WriteString(text)
	if kept.Len() > 2*mostOutput {
		end := kept.String()[kept.Len()-mostOutput:]
		kept.Reset()
		kept.WriteString(end)
	}
}

// end records the outcome of a test or of a package and prints a line about it; all output when it failed.
func (r *recorder) end(id, step string, e event) {
	text := ""
	if kept := r.output[id]; kept != nil {
		text = kept.String()
	}
	delete(r.output, id)
	test := r.of(id, step, e.Package, e.Test)
	if test == nil {
		r.endPackage(step, e, text)
		return
	}
	test.Outcome, test.Took = e.Action, max(test.Took, seconds(e.Elapsed))
	if e.Action != "pass" {
		test.Output = text
	}
	switch {
	case e.Action == "fail":
		test.Pressure = pressure()
		fmt.Fprint(r.out, text)
	case e.Action == "pass" && step != unitStep:
		fmt.Fprintf(r.out, "--- PASS: %s (%.1fs)\n", e.Test, test.Took.Seconds())
	}
}

// endPackage finds the tests that did not end: a panic ends all. What a package prints by itself is part of theirs.
func (r *recorder) endPackage(step string, e event, text string) {
	failed := false
	for _, test := range r.results {
		if test.Step != step || test.Package != e.Package {
			continue
		}
		if test.Outcome == "" && e.Action == "fail" {
			test.Outcome = "fail"
			test.Output = text + r.rest(step, test)
			fmt.Fprintf(r.out, "--- FAIL: %s did not end\n%s", test.Test, test.Output)
		}
		failed = failed || test.Outcome == "fail"
	}
	switch {
	case e.Action == "fail" && !failed:
		r.packs = append(r.packs, strings.TrimSpace(step+" "+e.Package))
		fmt.Fprint(r.out, text)
	case e.Action == "fail":
		fmt.Fprintf(r.out, "FAIL %s %.1fs\n", e.Package, e.Elapsed)
	case step == unitStep && e.Action == "pass":
		fmt.Fprintf(r.out, "ok   %s %.1fs\n", e.Package, e.Elapsed)
	}
}

// rest is what a test that did not end has printed.
func (r *recorder) rest(step string, test *result) string {
	if kept := r.output[resultID(step, test.Package, test.Test)]; kept != nil {
		return kept.String()
	}
	return ""
}

// resultID is the key of a test's record.
func resultID(step, pkg, test string) string { return strings.Join([]string{step, pkg, test}, " ") }

// outcome is what became of a test; "" when it did not run.
func (r *recorder) outcome(step, pkg, test string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.results[resultID(step, pkg, test)]; found != nil {
		return found.Outcome
	}
	return ""
}

// all gives the results of all steps, the slowest test first.
func (r *recorder) all() []result {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []result
	for _, test := range r.results {
		list = append(list, *test)
	}
	slices.SortFunc(list, func(a, b result) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Package, b.Package), cmp.Compare(a.Test, b.Test))
	})
	return list
}

// failed gives the tests that failed, and the packages that failed without one.
func (r *recorder) failed() (tests []result, packages []string) {
	for _, test := range r.all() {
		if test.Outcome == "fail" {
			tests = append(tests, test)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return tests, slices.Clone(r.packs)
}
