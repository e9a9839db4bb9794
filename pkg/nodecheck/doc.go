// Package nodecheck runs the agent's preflight on nodes from elsewhere, before the network is installed.
//
// Place in the data flow:
//
//	nodes, image -> a privileged pod on each node, in a namespace of its own
//	exec: ovn-offload-agent preflight -o json -> Report -> answer.Preflighted
//
// It also asks pkg/network which objects would not have their network: networks.go.
package nodecheck
