// Package node is what the features of a node's set-up share: a Host, what it observes
// (State) and the Steps that change it. The features have packages of their own:
//
//	flows       the flow table of a gateway bridge; pure
//	gateway     the bridge that takes over the uplink, OVS' settings, the Node's annotations
//	management  the node's own interface in its pod subnet
//	svchealth   health checks of services
//	cnifiles    files for the container runtime
//
// Place in the data flow:
//
//	netlink, OVSDB, Node events -> State -> a feature's planner -> Steps -> Host.Run
//	Host.Run -> pkg/netdev (addresses, routes), pkg/ovsdb (Bridge, Port, Interface)
//
// Planners are pure functions of a State, so that a start, a repair and the continuation
// after a crash are one thing. What a planner cannot do yet it leaves to the pass that the
// missing event starts. pkg/cni knows pods only, pkg/ovn only the Northbound database.
package node
