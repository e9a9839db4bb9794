// Package e2e tests ovn-offload in a lab: a real cluster whose nodes are
// namespaces of this machine. The lab is up (or is brought up) before the first
// test; each test makes a Kubernetes namespace of its own.
//
// The tests have the build tag e2e, so that `go test ./...` is quick and needs no
// root; `make e2e` runs them.
package e2e
