// Package gateway sets a node up for its pods and keeps it so: the gateway bridge, which
// takes over the node's uplink, its flows, the secondary external bridge, the gateway VF,
// the masquerade addresses, OVS' settings for ovn-controller, and the Node's annotations.
//
// Place in the data flow:
//
//	netlink, OVSDB, Node, Services -> Setup.pass: observe -> plan -> apply
//	Setup -> pkg/node (Host.Run), pkg/node/flows (Table) -> pkg/openflow, nftables
//	Setup -> annotations of the Node -> controller;  Setup.Ready -> pkg/cni
//
// The host's address is never without an interface: a checkpoint is on disk before the
// first change; addresses are added to the one interface before they leave the other; they
// are on the bridge or the gateway VF while packets pass there, else on the NIC; and a
// takeover that cuts the node off is undone.
package gateway
