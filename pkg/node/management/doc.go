// Package management keeps the management port: a node's own interface in its pod subnet
// (node.ManagementInterface), with its addresses and routes, and its port of br-int. The
// interface is an internal port of OVS or a VF, whose representor is the port then.
//
// Place in the data flow:
//
//	netlink, OVSDB, Node events -> Port.Keep: plan -> Steps of pkg/node
//	Port.Keep <- gateway.Setup, or Runner on a DPU and on its host
//	Runner on a host -> annotation of the Node (the VF) -> Runner on the DPU
//
// On a host with a DPU there is no OVS: the Runner of the host has the interface, and that
// of the DPU the port. A borrowed VF says in its alias what it was, and gets it all back.
package management
