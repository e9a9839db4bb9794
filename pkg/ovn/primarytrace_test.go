package ovn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// learn gives the traces the neighbors of rows: ovn-trace does not read them itself.
func (n *northd) learn(rows []ovsdb.Row) {
	n.t.Helper()
	for _, row := range rows {
		if binding, ok := row.Model.(*nb.StaticMACBinding); ok {
			of := n.run("ovn-sbctl", "--timeout=30", "--db="+n.south, "--bare", "--columns=datapath", "find", "Port_Binding", fmt.Sprintf("logical_port=%q", binding.LogicalPort))
			n.run("ovn-sbctl", "--timeout=30", "--db="+n.south, "create", "MAC_Binding", "datapath="+strings.TrimSpace(of),
				fmt.Sprintf("logical_port=%q", binding.LogicalPort), fmt.Sprintf("ip=%q", binding.IP), fmt.Sprintf("mac=%q", binding.MAC),
				fmt.Sprint("timestamp=", time.Now().UnixMilli())) // older ones are removed
		}
	}
}

// tracedPacket is a packet of a port of a switch, and where it arrives.
type tracedPacket struct {
	sw      string
	from    end
	mac, to string
	packet  string
	// ct is the state of its connection wherever it is looked up; "" means that the packet is the first one.
	ct      string
	arrives string
	// dropping is the row without which the packet arrives; "" means that it arrives with all rows.
	dropping string
}

// trace is the way of the packet.
func (p tracedPacket) trace(n *northd) string {
	n.t.Helper()
	flow := fmt.Sprintf(`inport == %q && eth.src == %s && eth.dst == %s && ip4 && ip.ttl == 64 && ip4.src == %s && ip4.dst == %s && %s`,
		p.from.port, p.from.mac, p.mac, p.from.ip, p.to, p.packet)
	args := []string{"--db=" + n.south}
	for range 12 { // for each time that conntrack is asked
		args = append(args, "--ct="+cmp.Or(p.ct, "new"))
	}
	return n.run("ovn-trace", append(args, p.sw, flow)...)
}

// TestPrimaryNetwork_PacketsTakeTheRoutes: in northd's flows, a pod on a primary network of topology layer2 reaches pods of other
// nodes on the switch, and external hosts by the gateway router of the node. Of the default network, it reaches the
// ports of the cluster's DNS alone; it reaches no pod of another network, and no external host reaches it. One policy drops each of
// these packets, and without the policy the packet arrives.
//
// No network moves the addresses in its subnets: pods of the default network and of other networks reach external hosts there, and
// these hosts get replies. Only what a load balancer of the gateway router has translated arrives in the network. With a route to
// the subnet, as there was before, these packets arrive elsewhere.
func TestPrimaryNetwork_PacketsTakeTheRoutes(t *testing.T) {
	const toRouter, outside, dns, other, foreign = "0a:58:0a:01:00:01", "breth0_n1", "kube-system_dns", "kube-system_other", "green.l2_green_c"
	const blue = "blue.l2_ovn_layer2_switch"
	const translated = "tcp && ct.trk && ct_mark.natted == 1" // ovn-trace has no such marks after a load balancer
	rows := rowsOf(t, "testdata/primary-northd.txtar")
	pod, main := end{"blue.l2_blue_a", "0a:58:0a:01:00:04", "10.1.0.4"}, end{other, "0a:58:0a:f4:01:36", "10.244.1.54"}
	uplink, gateway := end{outside, "02:42:ac:12:00:01", "192.0.2.1"}, "02:42:ac:12:00:03"
	inside := end{"rtoe-GR_n1", uplink.mac, "198.51.100.1"}
	const isolation, shared, transit, frontends, routes = "isolation ip4", "shared ip4", "transit ip4", "frontends ip4", "routes"
	for _, without := range []string{"", isolation, shared, transit, frontends, routes} {
		n := startNorthd(t)
		written := slices.DeleteFunc(slices.Clone(rows), func(row ovsdb.Row) bool { return without != "" && row.ID == without })
		if without == routes {
			written = append(written, formerRoute("192.0.2.0/24", "169.254.16.2"))
		}
		n.write(written)
		n.learn(append(written, neighbor("rtoj-GR_n1", "100.64.0.1", "0a:58:64:40:00:01"), // which OVN asks for
			neighbor("rtoj-ovn_cluster_router", "100.64.0.2", "0a:58:64:40:00:02"), neighbor("rtoe-GR_n1", "172.18.0.1", uplink.mac)))
		for _, p := range []tracedPacket{
			{blue, pod, "0a:58:0a:01:00:05", "10.1.0.5", "tcp", "", "blue.l2_blue_b", ""},
			{blue, pod, toRouter, "203.0.113.1", "tcp", "", outside, ""},
			{blue, pod, toRouter, "10.244.1.53", "udp && udp.dst == 53", "", dns, ""},
			{blue, pod, toRouter, "10.244.1.53", "udp && udp.dst == 54", "", dns, shared},
			{blue, pod, toRouter, "10.244.1.53", "tcp && tcp.dst == 53", "", dns, shared},
			{blue, pod, toRouter, "10.244.1.53", "icmp4", "", dns, shared},
			{blue, pod, toRouter, "10.244.1.54", "udp && udp.dst == 53", "", other, isolation},

			{blue, pod, toRouter, "192.0.2.4", "tcp", "", outside, routes},
			{"n1", main, "0a:58:0a:f4:01:01", "192.0.2.4", "tcp", "", outside, routes},
			{"n1", main, "0a:58:0a:f4:01:01", "192.0.2.4", "tcp", "est,rpl", outside, routes},
			{"ext_n1", uplink, gateway, "192.0.2.4", "tcp", "est,rpl", outside, routes},
			{"ext_n1", uplink, gateway, "192.0.2.4", "tcp", "", foreign, "never"},
			{"ext_n1", uplink, gateway, pod.ip, "tcp", "", pod.port, "never"},
			{"GR_n1", inside, gateway, pod.ip, translated + " && ct.new", "", pod.port, frontends},
			{"GR_n1", inside, gateway, "192.0.2.4", translated + " && ct.est", "est", foreign, frontends},
			{"GR_n1", inside, gateway, "192.0.2.4", translated + " && ct.est && ct.rpl", "est,rpl", outside, routes},
			{"GR_n1", inside, gateway, "169.254.16.1", "tcp && ct.trk && ct.est && ct.rpl", "est,rpl", "ttor-blue.l2_n1", ""},
			{"GR_n1", inside, gateway, "169.254.16.1", "tcp && ct.trk && ct.new", "", "ttor-blue.l2_n1", transit},
			{"GR_n1", inside, gateway, "169.254.0.2", "tcp", "", outside, ""},
		} {
			trace := p.trace(n)
			want := p.dropping == "" || p.dropping == without
			if p.dropping == routes || p.dropping == frontends { // what arrives there without the row
				want = p.dropping != without
			}
			if arrives(trace, end{port: p.arrives}) != want {
				t.Errorf("without %q, %s from %s to %s arrives: %t, want %t:\n%s", without, p.packet, p.from.ip, p.to, !want, want, trace)
			}
		}
	}
}

// formerRoute is one by which gateway routers led to a network.
func formerRoute(prefix, hop string) ovsdb.Row {
	port := "rtot-GR_n1"
	return staticRoute("GR_n1", &nb.LogicalRouterStaticRoute{IPPrefix: prefix, Nexthop: hop, OutputPort: &port})
}
