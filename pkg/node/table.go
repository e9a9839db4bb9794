package node

import (
	"fmt"
	"net/netip"
	"strconv"
)

// The gateway router has the host's MAC and address. Who gets an answer from
// the wire is told by conntrack: what the router sends is committed in a zone of
// its own with a mark; everything else is the host's, whose connections are not
// committed (but for those by a VF): they fill no table, and the loss of the table
// does not hurt them. The first packet of each is looked up, for it may find the mark
// of a pod's that had the same port.
const (
	zoneWire   = 64000
	zoneOther  = 64001 // sources of the host that have no stand-in of their own
	zoneRouter = 0     // the router's own, where it hides pods
	// zoneFragments has no entries: conntrack only tells the ports of fragments.
	zoneFragments = 64002
	markHost      = 0
	markRouter    = 1

	tableAnswer   = 1 // from the wire, after conntrack
	tableToRouter = 2
	tableToHost   = 3
	tableNodePort = 4 // from the wire to an address of the node, before and after conntrack
	tableFromHost = 5 // from the host to the wire, after conntrack
	// tableFragments is of fragments of UDP from the router or the host of a DPU, after conntrack.
	tableFragments = 6

	geneve = 6081

	neighborSolicit, neighborAdvert = 135, 136
	echoRequest, echoRequest6       = 8, 128
)

// wire is what the flows of a gateway bridge depend on. Router is 0 until
// ovn-controller has made the gateway router's port. Host is the representor of
// the VF that has the node's address, 0 while the bridge's own interface has it.
type wire struct {
	MAC                  string
	Uplink, Router, Host int
	// Shared says that the bridge has ports of others, so that the MAC table has to
	// choose the port to which the node's VF sends.
	Shared         bool
	ClusterSubnets []netip.Prefix
	// Masquerade are the subnets whose addresses are on no physical network.
	Masquerade []netip.Prefix
	// Guests are the ports of functions that belong to the host of a DPU.
	Guests []int
	// Own are all addresses of the node on the bridge.
	Own []netip.Addr
	// Addresses are those that host and router share: node ports answer there.
	Addresses []netip.Prefix
	Meetings  []meeting
	Services  ServicePorts
}

// gatewayTable is the whole flow table of the gateway bridge, as
// docs/north-south.md lists it. Without the router's port the bridge is a plain
// switch that the router's MAC cannot confuse.
func gatewayTable(w wire) []string {
	flows := append(append(fromHost(w), guarded(w)...), "table=0,priority=0 actions=NORMAL")
	if w.Router == 0 || w.Uplink == 0 {
		return append(flows, "table=0,priority=10,dl_src="+w.MAC+" actions=drop")
	}
	flows = append(flows, fromRouter(w)...)
	flows = append(flows, fromWire(w)...)
	flows = append(flows,
		flow(tableAnswer, 100, fmt.Sprintf("ct_mark=%d", markRouter), output(w.Router)),
		flow(tableAnswer, 0, "", w.toHost()),
	)
	flows = append(flows, hostAndServices(w)...)
	return append(flows, wireAndServices(w)...)
}

// fromHost leads what the node sends to the wire: from the bridge's own interface as a
// switch does, from a VF to the one port that it is for, as NICs can carry it. What
// begins a connection takes it from the router, if that had one of the same ports.
func fromHost(w wire) []string {
	in, out := "in_port="+w.hostPort(), "NORMAL"
	begins := []string{
		"tcp,tcp_flags=+syn-ack", "tcp6,tcp_flags=+syn-ack", "udp", "udp6", "sctp", "sctp6",
		fmt.Sprintf("icmp,icmp_type=%d", echoRequest), fmt.Sprintf("icmp6,icmp_type=%d", echoRequest6),
	}
	flows := []string{"table=0,priority=200,in_port=LOCAL actions=NORMAL"}
	switch {
	case w.Host != 0:
		if !w.Shared && w.Uplink != 0 {
			out = output(w.Uplink)
		}
		flows = append(flows, flow(0, 200, in, out))
		// A NIC takes no answer through conntrack that belongs to no connection.
		begins = []string{"tcp", "tcp6", "udp", "udp6"}
		for _, ip := range []string{"ip", "ipv6"} {
			flows = append(flows, flow(tableFromHost, 10, "ct_state=+trk+new,"+ip, fmt.Sprintf("ct(commit,zone=%d),%s", zoneWire, out)))
		}
	case w.Router == 0:
		return flows
	}
	for _, udp := range []string{"udp", "udp6"} {
		flows = append(flows, flow(0, 220, fmt.Sprintf("%s,%s,tp_dst=%d", in, udp, geneve), out))
	}
	for _, packets := range begins {
		flows = append(flows, flow(0, 210, in+","+packets+",nw_frag=no", track(tableFromHost)))
	}
	for _, ip := range []string{"ip", "ipv6"} {
		flows = append(flows, flow(tableFromHost, 20, fmt.Sprintf("ct_mark=%d,%s", markRouter, ip), remember(markHost)+out))
	}
	return append(flows, flow(tableFromHost, 0, "", out))
}

// hostPort is the port behind which the node itself is.
func (w wire) hostPort() string {
	if w.Host == 0 {
		return "LOCAL"
	}
	return strconv.Itoa(w.Host)
}

func (w wire) toHost() string { return "output:" + w.hostPort() }

// plainTable is that of a switch.
func plainTable() []string { return []string{"priority=0 actions=NORMAL"} }

// fromRouter lets the router speak under the host's MAC without the bridge's
// MAC table hearing of it: by output, never by NORMAL. The host alone answers
// for the address that both have, and the router asks by no other: OVN announces all
// addresses of its NAT, which are the cluster's.
func fromRouter(w wire) []string {
	in := fmt.Sprintf("in_port=%d,dl_src=%s", w.Router, w.MAC)
	flows := []string{
		flow(0, 100, in+fmt.Sprintf(",icmp6,icmp_type=%d", neighborSolicit), output(w.Uplink)),
		flow(0, 90, in+",icmp6,icmp_type="+strconv.Itoa(neighborAdvert), "drop"),
		flow(0, 80, in+",ip", remember(markRouter)+output(w.Uplink)),
		flow(0, 80, in+",ipv6", remember(markRouter)+output(w.Uplink)),
		flow(0, 10, fmt.Sprintf("in_port=%d", w.Router), "drop"),
	}
	for _, address := range w.Addresses {
		if addr := address.Addr(); addr.Is4() {
			flows = append(flows, flow(0, 100, in+",arp,arp_op=1,arp_spa="+addr.String(), output(w.Uplink)))
		}
	}
	return flows
}

// fromWire hands on what comes for the MAC that host and router share. Tunnels
// pass by conntrack: they are the bulk, and the host's only.
func fromWire(w wire) []string {
	in := fmt.Sprintf("in_port=%d,dl_dst=%s", w.Uplink, w.MAC)
	both := output(w.Router) + "," + w.toHost()
	flows := []string{
		flow(0, 110, in+fmt.Sprintf(",udp,tp_dst=%d", geneve), w.toHost()),
		flow(0, 110, in+fmt.Sprintf(",udp6,tp_dst=%d", geneve), w.toHost()),
		flow(0, 100, in+",arp", both),
		flow(0, 100, in+fmt.Sprintf(",icmp6,icmp_type=%d", neighborSolicit), w.toHost()),
		flow(0, 100, in+fmt.Sprintf(",icmp6,icmp_type=%d", neighborAdvert), both),
		flow(0, 80, in+",ip", track(tableAnswer)),
		flow(0, 80, in+",ipv6", track(tableAnswer)),
		flow(0, 70, in, w.toHost()),
	}
	// The host forwards between its links: pods are not for the wire to reach.
	for _, subnet := range w.ClusterSubnets {
		flows = append(flows, flow(0, 90, fmt.Sprintf("in_port=%d,%s", w.Uplink, to(subnet)), "drop"))
	}
	return flows
}

// remember is the action, with a comma behind it, that makes a connection the router's
// or, again, the host's.
func remember(mark int) string {
	return fmt.Sprintf("ct(commit,zone=%d,exec(set_field:%d->ct_mark)),", zoneWire, mark)
}

func track(table int) string { return fmt.Sprintf("ct(zone=%d,table=%d)", zoneWire, table) }

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
