package node

import (
	"fmt"
	"net/netip"
	"strconv"
)

// The gateway router has the host's MAC and address. Who gets an answer from
// the wire is told by conntrack: what the router sends is committed in a zone of
// its own with a mark; everything else is the host's, whose connections are not
// committed: they fill no table, and the loss of the table does not hurt them.
const (
	zoneWire   = 64000
	zoneOther  = 64001 // sources of the host that have no stand-in of their own
	markRouter = 1

	tableAnswer   = 1 // from the wire, after conntrack
	tableToRouter = 2
	tableToHost   = 3
	tableNodePort = 4 // from the wire to an address of the node, before and after conntrack

	geneve = 6081
	local  = "LOCAL"

	neighborSolicit, neighborAdvert = 135, 136
)

// wire is what the flows of a gateway bridge depend on. Router is 0 until
// ovn-controller has made the gateway router's port.
type wire struct {
	MAC            string
	Uplink, Router int
	ClusterSubnets []netip.Prefix
	// Addresses are those that host and router share: node ports answer there.
	Addresses []netip.Prefix
	Meetings  []meeting
	Services  ServicePorts
}

// gatewayTable is the whole flow table of the gateway bridge, as
// docs/north-south.md lists it. Without the router's port the bridge is a plain
// switch that the router's MAC cannot confuse.
func gatewayTable(w wire) []string {
	flows := []string{
		"table=0,priority=200,in_port=LOCAL actions=NORMAL",
		"table=0,priority=0 actions=NORMAL",
	}
	if w.Router == 0 || w.Uplink == 0 {
		return append(flows, "table=0,priority=10,dl_src="+w.MAC+" actions=drop")
	}
	flows = append(flows, fromRouter(w)...)
	flows = append(flows, fromWire(w)...)
	flows = append(flows,
		flow(tableAnswer, 100, fmt.Sprintf("ct_mark=%d", markRouter), output(w.Router)),
		flow(tableAnswer, 0, "", "output:"+local),
	)
	flows = append(flows, hostAndServices(w)...)
	return append(flows, wireAndServices(w)...)
}

// fromRouter lets the router speak under the host's MAC without the bridge's
// MAC table hearing of it: by output, never by NORMAL. The host alone answers
// for the address that both have.
func fromRouter(w wire) []string {
	in := fmt.Sprintf("in_port=%d,dl_src=%s", w.Router, w.MAC)
	commit := fmt.Sprintf("ct(commit,zone=%d,exec(set_field:%d->ct_mark)),%s", zoneWire, markRouter, output(w.Uplink))
	return []string{
		flow(0, 100, in+",arp,arp_op=1", output(w.Uplink)),
		flow(0, 100, in+fmt.Sprintf(",icmp6,icmp_type=%d", neighborSolicit), output(w.Uplink)),
		flow(0, 90, in+",icmp6,icmp_type="+strconv.Itoa(neighborAdvert), "drop"),
		flow(0, 80, in+",ip", commit),
		flow(0, 80, in+",ipv6", commit),
		flow(0, 10, fmt.Sprintf("in_port=%d", w.Router), "drop"),
	}
}

// fromWire hands on what comes for the MAC that host and router share. Tunnels
// pass by conntrack: they are the bulk, and the host's only.
func fromWire(w wire) []string {
	in := fmt.Sprintf("in_port=%d,dl_dst=%s", w.Uplink, w.MAC)
	both := output(w.Router) + ",output:" + local
	flows := []string{
		flow(0, 110, in+fmt.Sprintf(",udp,tp_dst=%d", geneve), "output:"+local),
		flow(0, 110, in+fmt.Sprintf(",udp6,tp_dst=%d", geneve), "output:"+local),
		flow(0, 100, in+",arp", both),
		flow(0, 100, in+fmt.Sprintf(",icmp6,icmp_type=%d", neighborSolicit), "output:"+local),
		flow(0, 100, in+fmt.Sprintf(",icmp6,icmp_type=%d", neighborAdvert), both),
		flow(0, 80, in+",ip", track()),
		flow(0, 80, in+",ipv6", track()),
		flow(0, 70, in, "output:"+local),
	}
	// The host forwards between its links: pods are not for the wire to reach.
	for _, subnet := range w.ClusterSubnets {
		flows = append(flows, flow(0, 90, fmt.Sprintf("in_port=%d,%s", w.Uplink, to(subnet)), "drop"))
	}
	return flows
}

func track() string { return fmt.Sprintf("ct(zone=%d,table=%d)", zoneWire, tableAnswer) }

func flow(table, priority int, match, actions string) string {
	text := fmt.Sprintf("table=%d,priority=%d", table, priority)
	if match != "" {
		text += "," + match
	}
	return text + " actions=" + actions
}

func output(port int) string { return "output:" + strconv.Itoa(port) }

// to matches what is for an address of the prefix.
func to(prefix netip.Prefix) string {
	if prefix.Addr().Is4() {
		return "ip,nw_dst=" + prefix.String()
	}
	return "ipv6,ipv6_dst=" + prefix.String()
}
