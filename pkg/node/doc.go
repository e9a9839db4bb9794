// Package node sets a node up for its pods and keeps it so: the gateway bridge
// that takes over the node's interface, OVS' settings for ovn-controller, the
// management port, and what the cluster has to know of the node.
//
// It is a package of its own because its subject, the host's own network, is
// nobody else's: pkg/cni knows pods only, pkg/ovn only the Northbound database.
//
// Place in the data flow:
//
//	netlink, OVSDB, Node events -> Setup.pass: observe -> plan -> apply
//	plan -> pkg/netdev (addresses, routes), pkg/ovsdb (Bridge, Port, Interface)
//	Setup -> annotations of the Node -> controller;  Setup.Ready -> pkg/cni
//
// Planners are pure functions of a State, so that a start, a repair and the
// continuation after a crash are one thing. What a planner cannot do yet it
// leaves to the pass that the missing event starts.
//
// The host's address is never without an interface: a checkpoint is on disk
// before the first change; addresses are added to the one interface before they
// leave the other; they stand on the bridge while there is one, else on the
// NIC; and a takeover that cuts the node off is undone.
package node
