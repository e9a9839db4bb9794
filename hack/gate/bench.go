package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

const (
	benchStep  = "bench"
	benchDir   = "test/bench/switchdev"
	benchTests = "_output/bin/bench.test"
	benchTime  = "60m"
	// benchHalf are about half of the tests by their time: each of two machines, of one processor, has one half.
	benchHalf = "DPU|Product$"
)

// testBench runs the tests of the areas in two virtual machines at once.
func (g *gate) testBench(ctx context.Context, areas []string) error {
	if err := g.program(ctx, "go", "test", "-c", "-tags", "bench", "-vet=off", "-o", benchTests, "./"+benchDir); err != nil {
		return err
	}
	chosen := "-areas=" + strings.Join(areas, ",")
	return together(ctx,
		func(ctx context.Context) error {
			return g.inVM(ctx, benchStep, "bench 1", "-test.run="+benchHalf, chosen)
		},
		func(ctx context.Context) error {
			return g.inVM(ctx, benchStep, "bench 2", "-test.skip="+benchHalf, chosen)
		})
}

// inVM runs tests in a machine of their own.
func (g *gate) inVM(ctx context.Context, name, pkg string, args ...string) error {
	return g.binary(ctx, name, pkg, benchDir, append([]string{g.cfg.benchvm, "--timeout=" + benchTime, filepath.Join(g.cfg.root, benchTests),
		"-test.v=test2json", "-test.timeout=" + benchTime}, args...)...)
}

// againOnBench runs one test three times.
func (g *gate) againOnBench(ctx context.Context, r result) error {
	return g.inVM(ctx, againStep(r), againStep(r), "-areas="+tier.All, "-test.run=^"+r.Test+"$", fmt.Sprint("-test.count=", timesAlone))
}
