package ovn

import (
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

// TestPrimaryNetwork_PacketsTakeTheRoutes: in northd's flows, a pod on a primary network of topology layer2 reaches pods of other
// nodes on the switch, and external hosts by the gateway router of the node. Of the default network, it reaches the
// ports of the cluster's DNS alone; it reaches no pod of another network, and no external host reaches it. One policy drops each of
// these packets, and without the policy the packet arrives.
func TestPrimaryNetwork_PacketsTakeTheRoutes(t *testing.T) {
	const toRouter, outside, dns, other, foreign = "0a:58:0a:01:00:01", "breth0_n1", "kube-system_dns", "kube-system_other", "green.l2_green_c"
	rows := rowsOf(t, "testdata/primary-northd.txtar")
	pod, link := end{"blue.l2_blue_a", "0a:58:0a:01:00:04", "10.1.0.4"}, end{"ttor-GR_n1", "0a:58:a9:fe:40:04", "192.0.2.1"}
	uplink := end{outside, "02:42:ac:12:00:01", "192.0.2.1"}
	const isolation, transit, shared = "isolation ip4", "transit ip4", "shared ip4"
	for _, without := range []string{"", isolation, transit, shared} {
		n := startNorthd(t)
		written := slices.DeleteFunc(slices.Clone(rows), func(row ovsdb.Row) bool { return without != "" && row.ID == without })
		n.write(written)
		n.learn(append(written, neighbor("rtoj-GR_n1", "100.64.0.1", "0a:58:64:40:00:01"))) // which OVN asks for
		for _, c := range []struct {
			sw       string
			from     end
			mac, to  string
			packet   string
			arrives  string
			dropping string // the policy that drops the packet
		}{
			{"blue.l2_ovn_layer2_switch", pod, "0a:58:0a:01:00:05", "10.1.0.5", "tcp", "blue.l2_blue_b", ""},
			{"blue.l2_ovn_layer2_switch", pod, toRouter, "192.0.2.1", "tcp", outside, ""},
			{"transit_n1", link, "0a:58:a9:fe:10:01", pod.ip, "tcp", pod.port, ""},
			{"ext_n1", uplink, "02:42:ac:12:00:03", pod.ip, "tcp", pod.port, transit},
			{"blue.l2_ovn_layer2_switch", pod, toRouter, "10.2.0.4", "tcp", foreign, transit},
			{"blue.l2_ovn_layer2_switch", pod, toRouter, "10.244.1.53", "udp && udp.dst == 53", dns, ""},
			{"blue.l2_ovn_layer2_switch", pod, toRouter, "10.244.1.53", "udp && udp.dst == 54", dns, shared},
			{"blue.l2_ovn_layer2_switch", pod, toRouter, "10.244.1.53", "tcp && tcp.dst == 53", dns, shared},
			{"blue.l2_ovn_layer2_switch", pod, toRouter, "10.244.1.53", "icmp4", dns, shared},
			{"blue.l2_ovn_layer2_switch", pod, toRouter, "10.244.1.54", "udp && udp.dst == 53", other, isolation},
		} {
			flow := fmt.Sprintf(`inport == %q && eth.src == %s && eth.dst == %s && ip4 && ip.ttl == 64 && ip4.src == %s && ip4.dst == %s && %s`, c.from.port, c.from.mac, c.mac, c.from.ip, c.to, c.packet)
			args := []string{"--db=" + n.south}
			for range 12 { // for each time that conntrack is asked
				args = append(args, "--ct=new")
			}
			trace := n.run("ovn-trace", append(args, c.sw, flow)...)
			if want := c.dropping == "" || c.dropping == without; arrives(trace, end{port: c.arrives}) != want {
				t.Errorf("without %q, %s from %s to %s arrives: %t, want %t:\n%s", without, c.packet, c.from.ip, c.to, !want, want, trace)
			}
		}
	}
}
