// Gate runs `make test`, the gate of every change: generated code, unit tests, the core of the tests on the bench and
// in the lab, the areas whose paths have changed since their last green run, and the linters beside them.
//
// Place in the data flow: test/areas.txt maps paths to areas, and test/areas.lock has the hash of each area's paths
// at its last green run (areas.go). The steps run programs of Go and of this repository (steps.go, lab.go, bench.go)
// and read their events (events.go). A test that fails is run alone three times after all others (confirm.go). At the
// end come the tables of steps and of slow tests (table.go). `gate figures` puts the last ones into docs/testing.md.
package main
