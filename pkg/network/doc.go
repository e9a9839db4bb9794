// Package network has the facts of the networks beside the default one. A network is what NetworkAttachmentDefinitions
// (NADs) of type ovn-k8s-cni-overlay say; several NADs with one name are one network. UserDefinedNetworks become NADs
// first.
//
// Data flow: pkg/kube gives each changed NAD to Definitions, which parse it and return the networks that changed. The
// allocator (pkg/ipam) and the builders (pkg/ovn) ask Definitions for networks, and Access for what a pod asks of them.
//
//	nad.go          the parser of a NAD's netconf, which has the format of OVN-Kubernetes
//	check.go        what a netconf may not say
//	lists.go        what the lists of a NAD may have
//	definitions.go  Definitions: from NADs to networks
//	owner.go        the object that a network belongs to: it decides which NADs are of a network, and for which namespaces
//	access.go       Access: from a pod to its attachments, as far as its namespace may use the networks
//	ids.go          the ids of networks, which the leader decides
//
// A NAD that is wrong never changes a network: Definitions keep its problem for an Event.
package network
