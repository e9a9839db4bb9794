// Package network has the facts of the networks beside the default one. A network is what NetworkAttachmentDefinitions
// (NADs) of type ovn-k8s-cni-overlay say; several NADs with one name are one network. UserDefinedNetworks become NADs
// first.
//
// Data flow: pkg/kube gives each changed NAD to Definitions, which parse it and return the networks that changed. The
// allocator (pkg/ipam) and the builders (pkg/ovn) ask Definitions for networks, and for what a pod asks of them.
//
//	nad.go          the parser of a NAD's netconf, which has the format of OVN-Kubernetes
//	check.go        what a netconf may not say
//	definitions.go  Definitions: from NADs to networks, and from a pod to its attachments
//
// A NAD that is wrong never changes a network: Definitions keep its problem for an Event.
package network
