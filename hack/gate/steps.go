package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

const unitStep = "unit"

// step is a part of the gate.
type step struct {
	name string
	took time.Duration
	cpu  time.Duration // of the whole machine
	err  error
}

// gate is one run.
type gate struct {
	cfg     config
	out     io.Writer
	record  *recorder
	steps   []step
	started time.Time
	beside  *beside
}

// run does a step and writes down what it took. An error is kept; the next steps go on.
func (g *gate) run(ctx context.Context, name string, do func(context.Context) error) {
	g.record.print("\n=== %s\n", name)
	began, before := time.Now(), busyTime()
	err := do(ctx)
	s := step{name: name, took: time.Since(began), cpu: busyTime() - before, err: err}
	g.steps = append(g.steps, s)
	if err != nil {
		g.record.print("=== %s: %v\n", name, err)
	}
}

// errTests is the error of a step whose tests failed: the recorder has them.
var errTests = errors.New("tests failed")

// command is a program of a step, in a process group of its own that ends with ctx.
func (g *gate) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(g.cfg.root, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// program runs a program whose output is printed as it comes.
func (g *gate) program(ctx context.Context, args ...string) error {
	cmd := g.command(ctx, "", args...)
	out := &lineWriter{print: func(line string) { g.record.print("%s", line) }}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	out.flush()
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// lineWriter hands whole lines on: programs that run at once do not share one.
type lineWriter struct {
	print func(line string)
	rest  []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		at := strings.IndexByte(string(w.rest), '\n')
		if at < 0 {
			return len(p), nil
		}
		w.print(string(w.rest[:at+1]))
		w.rest = w.rest[at+1:]
	}
}

func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.print(string(w.rest) + "\n")
		w.rest = nil
	}
}

// make runs targets of the Makefile.
func (g *gate) make(ctx context.Context, targets ...string) error {
	return g.program(ctx, append([]string{"make", "--no-print-directory"}, targets...)...)
}

// goTest runs `go test -json` with the arguments.
func (g *gate) goTest(ctx context.Context, name string, env []string, args ...string) error {
	cmd := g.command(ctx, "", append([]string{"go", "test", "-json", "-vet=off"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	return g.tests(name, cmd)
}

// tests runs a command whose output are events of tests.
func (g *gate) tests(name string, cmd *exec.Cmd) error {
	errs := &lineWriter{print: func(line string) { g.record.print("%s", line) }}
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	readErr := g.record.read(name, out)
	err = cmd.Wait()
	errs.flush()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < 125 {
		err = errTests
	}
	return errors.Join(err, readErr)
}

// binary runs a test binary by test2json, in its package's directory. Its events have pkg as their package.
func (g *gate) binary(ctx context.Context, name, pkg, dir string, args ...string) error {
	if g.cfg.full {
		args = append(args, tier.FullFlag)
	}
	cmd := g.command(ctx, dir, append([]string{"go", "tool", "test2json", "-t", "-p", pkg}, args...)...)
	return g.tests(name, cmd)
}

func withRace() []string { return []string{"CGO_ENABLED=1"} }

// unit runs all unit tests, and some with the race detector.
func (g *gate) unit(ctx context.Context) error {
	err := g.goTest(ctx, unitStep, nil, "./...")
	if len(g.cfg.race) == 0 {
		return err
	}
	return errors.Join(err, g.goTest(ctx, raceStep, withRace(), append([]string{"-race"}, g.cfg.race...)...))
}

const raceStep, apiStep = "race", "apiserver"

// testAPI runs the tests with an API server and without nodes.
func (g *gate) testAPI(ctx context.Context) error {
	return g.goTest(ctx, apiStep, nil, "-tags", "apiserver", "-count=1", "./test/apiserver")
}

// together does several things at once. All of them end.
func together(ctx context.Context, do ...func(context.Context) error) error {
	var group errgroup.Group
	errs := make([]error, len(do))
	for i, f := range do {
		group.Go(func() error {
			errs[i] = f(ctx)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}
