// Package rollout writes the status of OffloadPolicies: which nodes may change now, how many have the policy's settings, and
// which need an administrator. It runs in the controller.
//
// Place in the data flow:
//
//	OffloadPolicies, labels of Nodes, NodeOffloads -> Plan (pure) -> status of the OffloadPolicy -> pkg/vf/setup
//	status, Nodes, pods -> drain: cordon, evict, uncordon
//
// The status is the one list of turns, which agents follow already, so that no object is written for a node. It is bounded:
// counts for all nodes, names for those that change and for twenty problems. Of a NodeOffload only the results of policies
// are kept in memory. It is a package apart from pkg/vf/setup, because an agent needs none of it.
package rollout
