// Package tier says which tests a run has. `make test` is the gate of every change: the core, which has each
// feature once right and once refused, and the areas whose paths have changed since their last green run
// (test/areas.txt). With the flag -full a test binary runs what `make test-full` adds: long matrices, soaks, kill
// loops and both families everywhere. docs/testing.md has the table.
//
// The packages test/e2e and test/bench/switchdev use it. A test is in the core or in an area (In), in the full tier
// alone (Full), or has fewer cases in the gate (Pick). hack/gate chooses the areas and reads what Skipped and
// Strict print.
package tier

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const (
	flagName = "full"
	// FullFlag has a test binary run the full tier.
	FullFlag = "-" + flagName
	// All stands for the core and each area in the flag -areas.
	All = "all"
	// Core is the area that each run of the gate has.
	Core = "core"
	// Skipped begins the reason for which a test of an area is skipped, before the area's name.
	Skipped = "not in the areas of this run: "
	// StrictMark is a line in the output of a failed test whose failure is never taken for a flake.
	StrictMark = "never a flake: this test is strict"
)

var (
	full  = flag.Bool(flagName, false, "run everything that make test-full runs")
	seed  = flag.Uint64("seed", 0, "seed of what is random; 0: the same in each run of the gate, another one in each full one")
	areas = flag.String("areas", All, "areas of test/areas.txt whose tests run, with commas between; core; or all")
)

// IsFull says whether the full tier runs.
func IsFull() bool { return *full }

// In skips a test unless the run has one of the areas to which it belongs.
func In(t testing.TB, of ...string) {
	t.Helper()
	chosen := strings.Split(*areas, ",")
	if slices.Contains(chosen, All) || slices.ContainsFunc(of, func(area string) bool { return slices.Contains(chosen, area) }) {
		return
	}
	t.Skip(Skipped + strings.Join(of, ", "))
}

// Strict marks a test of isolation, forged packets, secrets, double addresses or leaks: the gate is red when it
// fails once, also when it passes alone afterwards.
func Strict(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(StrictMark)
		}
	})
}

// gateSeed is the seed of each run of the gate: what is random there fails for a change, not for a draw.
const gateSeed = 31

// Seed is the seed of what a test has at random. The test logs it: -seed repeats a run.
func Seed(t testing.TB) uint64 {
	t.Helper()
	chosen := *seed
	switch {
	case chosen == 0 && *full:
		chosen = rand.Uint64()
	case chosen == 0:
		chosen = gateSeed
	}
	t.Logf("seed %d", chosen)
	return chosen
}

// Full skips a test of the full tier when the gate runs; why is the reason for the tier.
func Full(t testing.TB, why string) {
	t.Helper()
	if !*full {
		t.Skip("only in make test-full: " + why)
	}
}

// Pick gives a test's number, list or time in the tier that runs.
func Pick[T any](gate, all T) T {
	if *full {
		return all
	}
	return gate
}

// Args are the arguments that pass the tier on to another process of a test binary.
func Args() []string {
	if *full {
		return []string{FullFlag}
	}
	return nil
}
