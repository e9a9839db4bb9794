// Package testbed is how end to end tests reach a cluster: four verbs, and
// where kubectl and its configuration are. Lab is the lab of this repository,
// Kind a cluster that deploy/kind/up made. The tests ask nothing else of the
// machine that they run on, so that the same tests run in both. Tests of nodes
// without power need Lab, which has verbs for that.
//
// test/e2e chooses one by the flag -cluster; docs/testing.md has the commands.
package testbed

import "io"

// External is the machine on the network of the nodes that is no node.
const External = "outside"

// Cluster is what a test may do beside the Kubernetes API. Commands print to out, errors included.
type Cluster interface {
	// Run runs a command in the namespaces of a node.
	Run(out io.Writer, node string, command ...string) error
	// RunExternal runs a command on the external host.
	RunExternal(out io.Writer, command ...string) error
	// Restart kills a component with SIGKILL and returns when it runs again. Those of
	// a node are named COMPONENT@NODE. In a lab with several control-plane nodes, the
	// others may be named so, too; without a node all of them are killed.
	Restart(component string) error
	// Load imports an image into every node.
	Load(image string) error
	// Kubectl is the program kubectl and the file of its configuration.
	Kubectl() (program, config string)
}
