package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// mostFailed is how many failed tests are run again: more are no flakes.
	mostFailed = 3
	// timesAlone is how often a failed test has to pass alone.
	timesAlone = 3
)

func againStep(r result) string { return r.Step + " again" }

// verdict is what the gate says of a run.
type verdict struct {
	flakes []result
	red    []string // reasons
}

// judge says which failures may be flakes, before anything is run again.
func judge(failed []result, packages []string, steps []step) (again []result, red []string) {
	for _, s := range steps {
		if s.err != nil && !errors.Is(s.err, errTests) {
			red = append(red, fmt.Sprintf("%s: %v", s.name, s.err))
		}
	}
	for _, pkg := range packages {
		red = append(red, "package failed: "+pkg)
	}
	for _, test := range failed {
		if why := test.hopeless(); why != "" {
			red = append(red, fmt.Sprintf("%s: %s, never a flake", test.Test, why))
		}
	}
	if len(failed) > mostFailed {
		red = append(red, fmt.Sprintf("%d tests failed; at most %d are run again", len(failed), mostFailed))
	}
	if len(red) > 0 {
		return nil, red
	}
	return failed, nil
}

// confirm runs each failed test alone. A test that passes three times is a flake: it is printed and listed.
func (g *gate) confirm(ctx context.Context) verdict {
	failed, packages := g.record.failed()
	again, red := judge(failed, packages, g.steps)
	v := verdict{red: red}
	for _, test := range again {
		g.run(ctx, test.Test+" alone", func(ctx context.Context) error { return g.alone(ctx, test) })
		if g.steps[len(g.steps)-1].err != nil || g.record.outcome(againStep(test), test.Package, test.Test) != "pass" {
			v.red = append(v.red, test.Test+": failed beside others and alone")
			continue
		}
		v.flakes = append(v.flakes, test)
	}
	return v
}

// alone runs a test three times, where it failed.
func (g *gate) alone(ctx context.Context, r result) error {
	count := fmt.Sprint("-count=", timesAlone)
	switch r.Step {
	case unitStep:
		return g.goTest(ctx, againStep(r), nil, count, "-run", "^"+r.Test+"$", r.Package)
	case raceStep:
		return g.goTest(ctx, againStep(r), withRace(), count, "-race", "-run", "^"+r.Test+"$", r.Package)
	case apiStep:
		return g.goTest(ctx, againStep(r), nil, count, "-tags", "apiserver", "-run", "^"+r.Test+"$", r.Package)
	case benchStep:
		return g.againOnBench(ctx, r)
	}
	return g.againInLab(ctx, r)
}

const (
	flakesFile = "test/flakes.txt"
	// mostFlakes is how many tests may be listed at a time.
	mostFlakes = 5
	// flakeCommits is for how many commits a test may stay listed.
	flakeCommits = 40
)

// flake is a line of flakes.txt: a test, the commit at which it was listed, and its cause.
type flake struct{ test, commit, cause string }

// parseFlakes reads flakes.txt.
func parseFlakes(text string) ([]flake, error) {
	var list []flake
	for number, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		fields := strings.SplitN(line, " ", 3)
		if len(fields) != 3 || strings.TrimSpace(fields[2]) == "" {
			return nil, fmt.Errorf("%s:%d: want test, commit and cause: %q", flakesFile, number+1, line)
		}
		list = append(list, flake{fields[0], fields[1], strings.TrimSpace(fields[2])})
	}
	return list, nil
}

// listFlakes adds the flakes of this run to flakes.txt, those that it does not have. More than mostFlakes are an error.
func (g *gate) listFlakes(found []result, commit string) error {
	name := filepath.Join(g.cfg.root, flakesFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	listed, err := parseFlakes(string(text))
	if err != nil {
		return err
	}
	for _, r := range found {
		if slices.ContainsFunc(listed, func(f flake) bool { return f.test == r.Test }) {
			continue
		}
		listed = append(listed, flake{test: r.Test})
		text = fmt.Appendf(text, "%s %s cause not known yet: failed beside others, passed %d times alone\n", r.Test, commit, timesAlone)
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return err
	}
	if len(listed) > mostFlakes {
		return fmt.Errorf("%s has %d tests, at most %d: mend one", flakesFile, len(listed), mostFlakes)
	}
	return nil
}

// pressure is how much processes of the machine wait for each resource, as /proc/pressure has it.
func pressure() string {
	var b strings.Builder
	for _, resource := range []string{"cpu", "memory", "io"} {
		text, err := os.ReadFile(filepath.Join("/proc/pressure", resource))
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(string(text), "\n")
		fmt.Fprintf(&b, "%s: %s; ", resource, strings.TrimPrefix(line, "some "))
	}
	if b.Len() == 0 {
		return "not known: the kernel has no /proc/pressure"
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// head is the commit of the work tree, short.
func head(root string) string {
	cmd := exec.Command("git", "rev-parse", "--short=12", "HEAD")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return string(bytes.TrimSpace(out))
}
