// Package policy has the facts of network policies of all kinds: NetworkPolicy, MultiNetworkPolicy,
// AdminNetworkPolicy, BaselineAdminNetworkPolicy and ClusterNetworkPolicy become one Policy with rules in their order.
//
// Data flow: pkg/kube gives each changed object to the Index, which returns the owners whose rows may change. The
// builders of pkg/ovn ask the Index for the policies of a pod, and for the pods that a rule refers to.
//
//	policy.go   Policy and the parser of NetworkPolicies
//	admin.go    the parser of policies for the whole cluster
//	podset.go   PodSet: the pods behind the peers of a rule, shared by equal rules
//	networks.go the networks of a rule without the exceptions
//	multi.go    MultiNetworkPolicies, which are for further networks
//	limits.go   what one NetworkPolicy may have
//	index.go    Index: from a pod or a namespace to policies and sets, and back
//
// A part of an object that is wrong never opens anything: Policy.Err says what is wrong.
package policy
