// Package contract has what the controller, the agents, the DPUs and other software have to agree on: the names of
// OVN objects, the annotations and labels of Kubernetes objects, and the addresses with a fixed place in a subnet.
//
// Much of it is the API of OVN-Kubernetes, whose manifests and tools keep working. The rest begins with
// ovn-offload.io. The package is a leaf: it imports the standard library and API types only, it reads nothing and
// decides nothing.
//
//	network.go      a pod network, and the names of its OVN objects
//	offsets.go      addresses with a fixed place in a subnet
//	family.go       IPv4 and IPv6
//	owner.go        the object on whose behalf rows and devices exist
//	annotations.go  annotations and labels that hold one value or one value for each network
//	dpu.go          what a host and its DPU tell each other
package contract
