// Package switchdev tests on a simulated switchdev NIC what fakes cannot show:
// the kernel's answers to pkg/netdev and pkg/vf, and whether OVS under OVN puts
// the traffic of pods on VFs into hardware, as pkg/offload reports it.
//
// Place in the data flow: its tests are compiled on the host and run as root
// inside a virtual machine, where benchvm brings them (`make bench-vm`,
// docs/bench.md). The two NICs are those of two nodes; a node is a network
// namespace with an OVS and an ovn-controller of its own.
package switchdev
