package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

const (
	benchStep  = "bench"
	benchDir   = "test/bench/switchdev"
	benchTests = "_output/bin/bench.test"
	benchTime  = "60m"
	// Each of two machines, of one processor, has about half of the tests by their time: those with these names, and the
	// others.
	halfOfCore, halfOfAll = "Product|OffloadPolicy", "Product$|DPU"
)

// testBench runs the tests of the areas in two virtual machines at once.
func (g *gate) testBench(ctx context.Context, areas []string) error {
	if err := g.program(ctx, "go", "test", "-c", "-tags", "bench", "-vet=off", "-o", benchTests, "./"+benchDir); err != nil {
		return err
	}
	chosen, half := "-areas="+strings.Join(areas, ","), halfOfCore
	if slices.ContainsFunc(benchAreas(), func(area string) bool { return slices.Contains(areas, area) }) {
		half = halfOfAll
	}
	return together(ctx,
		func(ctx context.Context) error {
			return g.inVM(ctx, benchStep, "bench 1", "-test.run="+half, chosen)
		},
		func(ctx context.Context) error {
			return g.inVM(ctx, benchStep, "bench 2", "-test.skip="+half, chosen)
		})
}

// inVM runs tests in a machine of their own.
func (g *gate) inVM(ctx context.Context, name, pkg string, args ...string) error {
	return g.binary(ctx, name, pkg, benchDir, append([]string{g.cfg.benchvm, "--timeout=" + benchTime, filepath.Join(g.cfg.root, benchTests),
		"-test.v=test2json", "-test.timeout=" + benchTime}, args...)...)
}

// againOnBench runs one test three times.
func (g *gate) againOnBench(ctx context.Context, r result) error {
	return g.inVM(ctx, againStep(r), r.Package, "-areas="+tier.All, "-test.run=^"+r.Test+"$", fmt.Sprint("-test.count=", timesAlone))
}
