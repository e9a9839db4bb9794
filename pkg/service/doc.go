// Package service has the facts of services: their endpoints, and the addresses of nodes at which they answer.
//
// Data flow: pkg/kube gives each changed Service, EndpointSlice and Node to Facts, which returns the owners whose rows
// may change. The builders of pkg/ovn read Facts; the agent uses only the functions on single objects.
//
//	service.go   what one Service, EndpointSlice or port means
//	addresses.go the addresses of nodes, by the Node's status and by its gateway
//	gateways.go  which EndpointSlices are on the network of nodes
//	facts.go     Facts: from a change to owners
//
// A change of one node must not mark all services or all nodes: gateways.go counts what decides that.
package service
