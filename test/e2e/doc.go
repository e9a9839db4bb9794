// Package e2e tests ovn-offload in a lab: a real cluster whose nodes are namespaces of this machine. The lab is up (or is
// brought up) before the first test. What a test makes is in a namespace of its own, or in those of the shared world
// (world.Shared), to which tests only add.
//
// The tests have the build tag e2e, so that `go test ./...` is quick and needs no root; `make e2e` runs them.
package e2e
