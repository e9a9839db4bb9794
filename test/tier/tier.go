// Package tier says which of the two test commands runs a test. `make test` is
// the gate of every change: each feature once right and once refused. With the
// flag -full a test binary runs what `make test-full` adds: long matrices, soaks,
// kill loops and both families everywhere. docs/testing.md has the table.
//
// The packages test/e2e and test/bench/switchdev use it. A test is either in the
// full tier alone (Full), or has fewer cases in the gate (Pick).
package tier

import (
	"flag"
	"testing"
)

const flagName = "full"

var full = flag.Bool(flagName, false, "run everything that make test-full runs")

// IsFull says whether the full tier runs.
func IsFull() bool { return *full }

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
		return []string{"-" + flagName}
	}
	return nil
}
