// Package conntrack ends a node's connections that its flow tables allow no
// longer and that OVN does not notice: those to an endpoint that has left its
// service, begun anew by a datapath flow that outlived OVN's own flush, and those
// of UDP that a policy forbids now while only the server still sends.
//
// It is a package of its own because its subject is the datapath behind br-int,
// whose tables are ovn-controller's: it reads them, and writes none.
//
// Place in the data flow: a flow of br-int changed (pkg/openflow) -> which address
// or port it is about is noted -> the datapath has followed -> connections and
// tables of that moment (ovs-vswitchd's control socket, ovs-ofctl) -> which must
// end (pure) -> flushed, or marked as OVN marks what a policy forbids. Nobody has
// to tell the agent of policies or services: docs/decisions/ending-connections.md.
package conntrack
