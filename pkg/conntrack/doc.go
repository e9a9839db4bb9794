// Package conntrack ends a node's connections to endpoints that have left their
// service, where OVN does not notice: a datapath flow that outlived OVN's own flush
// has begun them anew. It also ends those that began before a load balancer served
// their address on the node.
//
// It is a package of its own because its subject is the datapath behind br-int,
// whose tables are ovn-controller's: it reads them, and writes none.
//
// Place in the data flow: a flow of br-int changed (pkg/openflow) -> the address that
// it is about is noted -> the datapath has followed -> connections and tables of that
// moment (ovs-vswitchd's control socket, ovs-ofctl) -> which must end (pure) ->
// flushed. The agent needs no Service objects for this:
// docs/decisions/ending-connections.md.
package conntrack
