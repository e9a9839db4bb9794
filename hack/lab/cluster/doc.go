// Package cluster is a lab: a real Kubernetes cluster whose nodes are namespaces
// of this machine, with TLS, RBAC and ServiceAccounts as in production, and the
// project's own manifests (or a plain bridge network to compare with) on it.
//
// Place in the data flow: hack/lab and the tests call Up, Exec, Load, Restart and
// Down; build makes what the machines run from, machine makes the machines, and
// this package gives them their network, certificates, services and manifests.
// Nothing depends on what an earlier Up remembered: running machines are found by
// the lab's name, so every step repairs what is missing and leaves what is there.
package cluster
