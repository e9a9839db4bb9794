package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

// config is where and what the gate runs.
type config struct {
	root, lab, benchvm string
	race               []string // packages whose concurrency the race detector looks at; the full tier has all
	full               bool     // the full tier of the areas
}

// benchAreas are the areas whose tests run on the bench; the other areas have tests in the lab. Bench is about the
// product on simulated NICs, nic about the simulated NIC itself.
func benchAreas() []string { return []string{"bench", "nic"} }

func command() *cobra.Command {
	root := &cobra.Command{Use: "gate", Short: "run the tests that hold each change", SilenceUsage: true, SilenceErrors: true}
	root.CompletionOptions.DisableDefaultCmd = true
	test := &cobra.Command{Use: "test", Short: "the whole gate: the core, and the areas whose paths have changed", Args: cobra.NoArgs}
	all := test.Flags().Bool("all-areas", false, "run all areas, whatever their last green runs were")
	race := test.Flags().String("race", "", "packages that run with the race detector, too")
	test.RunE = func(cmd *cobra.Command, _ []string) error {
		return runGate(cmd.Context(), config{race: strings.Fields(*race)}, *all)
	}
	area := &cobra.Command{Use: "area AREA...", Short: "the tests of areas, those in the core included; core: these alone", Args: cobra.MinimumNArgs(1)}
	full := area.Flags().Bool("full", false, "the full tier")
	area.RunE = func(cmd *cobra.Command, areas []string) error {
		return runAreas(cmd.Context(), config{full: *full}, areas)
	}
	of := &cobra.Command{Use: "areas FILE", Short: "print the areas of a file", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		w, err := readAreas(".")
		if err != nil {
			return err
		}
		areas, _ := w.paths.of(args[0])
		fmt.Println(strings.Join(areas, "\n"))
		return nil
	}}
	root.AddCommand(test, area, of, &cobra.Command{Use: "figures", Short: "put the tables of the last run into " + figures, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return putFigures(".")
	}})
	return root
}

// newGate is a gate for the work tree in this directory.
func newGate(cfg config) (*gate, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(root, resultDir), 0o755); err != nil {
		return nil, err
	}
	cfg.root, cfg.lab, cfg.benchvm = root, filepath.Join(root, "_output/bin/lab"), filepath.Join(root, "_output/bin/benchvm")
	return &gate{cfg: cfg, out: os.Stdout, record: newRecorder(os.Stdout), started: time.Now()}, nil
}

// areaFiles is what areas.txt and areas.lock say of the work tree.
type areaFiles struct {
	paths  pathMap
	hashes map[string]string
	last   lock
	err    error // of reading the lock
}

func readAreas(root string) (areaFiles, error) {
	var w areaFiles
	text, err := os.ReadFile(filepath.Join(root, areasFile))
	if err != nil {
		return w, err
	}
	if w.paths, err = parsePathMap(string(text)); err != nil {
		return w, err
	}
	files, err := readTree(root)
	if err != nil {
		return w, err
	}
	w.hashes = files.hashes(w.paths)
	if unknown := files.unknown(w.paths); len(unknown) > 0 {
		fmt.Printf("%s lacks %s: they belong to all areas\n", areasFile, strings.Join(unknown, ", "))
	}
	text, err = os.ReadFile(filepath.Join(root, lockFile))
	if err == nil {
		w.last, err = parseLock(string(text))
	}
	w.err = err
	return w, nil
}

// runGate is `make test`.
func runGate(ctx context.Context, cfg config, all bool) error {
	g, err := newGate(cfg)
	if err != nil {
		return err
	}
	w, err := readAreas(g.cfg.root)
	if err != nil {
		return err
	}
	c := choose(w.hashes, w.last, w.err, w.paths.changedFiles(g.cfg.root))
	if all {
		c = choice{areas: w.paths.areas, said: []string{"all areas run"}}
	}
	fmt.Println(strings.Join(c.said, "\n"))
	if g.beside, err = g.startBeside(ctx, g.cfg.lab+" fill-cache; make --no-print-directory lint"); err != nil {
		return err
	}
	defer g.beside.cmd.Cancel() //nolint:errcheck // it has ended, or ends now
	g.run(ctx, "generated", func(ctx context.Context) error { return g.make(ctx, "generated") })
	g.run(ctx, unitStep, g.unit)
	g.run(ctx, apiStep, g.testAPI)
	defer g.labDown()
	ready := false
	chosen := append([]string{tier.Core}, c.areas...)
	g.run(ctx, benchStep+", lab up", func(ctx context.Context) error {
		return together(ctx,
			func(ctx context.Context) error { return g.testBench(ctx, chosen) },
			func(ctx context.Context) error {
				err := g.prepareLab(ctx)
				ready = err == nil
				return err
			})
	})
	if ready {
		g.run(ctx, labStep, func(ctx context.Context) error { return g.testLab(ctx, chosen) })
	}
	g.run(ctx, "lint, what is left of it", func(context.Context) error {
		text, err := g.beside.wait()
		g.record.print("%s", text)
		return err
	})
	return g.finish(ctx, w, c.areas)
}

// runAreas is `make area`.
func runAreas(ctx context.Context, cfg config, areas []string) error {
	g, err := newGate(cfg)
	if err != nil {
		return err
	}
	w, err := readAreas(g.cfg.root)
	if err != nil {
		return err
	}
	inVMs, inLab := []string{}, []string{}
	for _, area := range areas {
		switch {
		case area == tier.Core:
			inVMs, inLab = append(inVMs, area), append(inLab, area)
		case !slices.Contains(w.paths.areas, area):
			return fmt.Errorf("no area %q; there are core, %s", area, strings.Join(w.paths.areas, ", "))
		case slices.Contains(benchAreas(), area):
			inVMs = append(inVMs, area)
		default:
			inLab = append(inLab, area)
		}
	}
	if len(inVMs) > 0 {
		g.run(ctx, benchStep, func(ctx context.Context) error { return g.testBench(ctx, inVMs) })
	}
	if len(inLab) > 0 {
		defer g.labDown()
		g.run(ctx, "lab up", g.prepareLab)
		g.run(ctx, labStep, func(ctx context.Context) error { return g.testLab(ctx, inLab) })
	}
	return g.finish(ctx, w, areas)
}

// finish confirms failures, renews the areas' lines, and prints the tables and what became of the run.
func (g *gate) finish(ctx context.Context, w areaFiles, areas []string) error {
	v := g.confirm(ctx)
	lab := labCPU()
	table := g.table(lab)
	if err := os.WriteFile(filepath.Join(g.cfg.root, resultFile), []byte(table), 0o644); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	commit := head(g.cfg.root)
	if len(v.red) == 0 {
		if err := renew(g.cfg.root, w, areas, commit); err != nil {
			return err
		}
	}
	if err := g.listFlakes(v.flakes, commit); err != nil {
		v.red = append(v.red, err.Error())
	}
	g.say(v, table)
	if len(v.red) > 0 {
		g.printStuck(ctx)
	}
	if err := g.addRun(areas, v); err != nil {
		return err
	}
	if len(v.red) > 0 {
		return errors.New("red")
	}
	return nil
}

// renew writes the hashes of areas that were green. A lock that could not be read is written anew.
func renew(root string, w areaFiles, areas []string, commit string) error {
	if len(areas) == 0 {
		return nil
	}
	next := lock{}
	for area, was := range w.last {
		if slices.Contains(w.paths.areas, area) {
			next[area] = was
		}
	}
	for _, area := range areas {
		if area != tier.Core {
			next[area] = green{w.hashes[area], commit}
		}
	}
	return os.WriteFile(filepath.Join(root, lockFile), []byte(next.String()), 0o644)
}

// say prints the tables, the flakes with their first logs, what is red, and the numbers of tests.
func (g *gate) say(v verdict, table string) {
	fmt.Fprintf(g.out, "\n%s\n", table)
	for _, r := range v.flakes {
		fmt.Fprintf(g.out, "FLAKE %s: failed beside others and passed %d times alone\npressure: %s\n%s\n", r.Test, timesAlone, r.Pressure, r.Output)
	}
	failed, _ := g.record.failed()
	for _, r := range failed {
		if !slices.ContainsFunc(v.flakes, func(f result) bool { return f == r }) {
			fmt.Fprintf(g.out, "FAIL %s (%s)\npressure: %s\n%s\n", r.Test, r.Step, r.Pressure, r.Output)
		}
	}
	for _, why := range v.red {
		fmt.Fprintf(g.out, "red: %s\n", why)
	}
	counts, flakes := g.counts(), len(v.flakes)
	fmt.Fprintf(g.out, "%d passed, %d failed, %d skipped\n", counts["pass"]+flakes, counts["fail"]-flakes, counts["skip"])
}
