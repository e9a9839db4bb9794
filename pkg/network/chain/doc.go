// Package chain has the facts of NetworkChainings of OVN4NFV: packets between networks at a left and a right end pass pods,
// the functions, in their order.
//
// Data flow: pkg/kube gives each changed NetworkChaining to Chains. The builder (pkg/ovn/chains) asks Chains for a chain,
// with the networks as they are now. The allocator (pkg/ipam) gets the routes of each pod.
//
//	parse.go   the parser of a NetworkChaining
//	chain.go   Chain, and what its networks must be
//	chains.go  Chains: those of the cluster
//	routes.go  the routes of pods
package chain
