package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// TestNamespaceSubnet_PacketsTakeTheRoutes: in northd's flows, packets from and to a pod of a namespace's subnet pass the
// cluster router: to pods on both nodes, to management ports, to the node itself, and out by the gateway router of the pod's
// node. Those for an address without a pod are dropped, and so are those that leave from a node without a gateway.
func TestNamespaceSubnet_PacketsTakeTheRoutes(t *testing.T) {
	n := startNorthd(t)
	n.write(rowsOf(t, "testdata/namespaces-northd.txtar"))
	near, own, far := end{"d_near", "", "10.244.1.9"}, end{"d_a", "", "10.9.0.4"}, end{"d_c", "", "10.9.0.6"}
	for _, c := range []struct {
		from end
		to   string
		by   string // the port by which the packet leaves the router, and the next hop
	}{
		{own, "10.9.0.5", "rtos-n1 10.9.0.5"}, {own, far.ip, "rtos-n2 10.9.0.6"}, {far, own.ip, "rtos-n1 10.9.0.4"},
		{own, near.ip, "rtos-n1 ip4.dst"}, {own, "10.244.2.9", "rtos-n2 ip4.dst"}, {own, "10.244.2.2", "rtos-n2 ip4.dst"},
		{near, own.ip, "rtos-n1 10.9.0.4"}, {near, far.ip, "rtos-n2 10.9.0.6"},
		{own, "172.18.0.2", "rtos-n1 10.244.1.2"}, {own, "172.18.0.3", "rtoj-ovn_cluster_router 100.64.0.2"},
		{own, "192.0.2.1", "rtoj-ovn_cluster_router 100.64.0.2"}, {near, "192.0.2.1", "rtoj-ovn_cluster_router 100.64.0.2"},
		{own, "10.9.0.77", "drop"}, {near, "10.9.0.77", "drop"}, {far, "192.0.2.1", "drop"},
	} {
		sw, gateway := "n1", "0a:58:0a:f4:01:01"
		if c.from == far {
			sw, gateway = "n2", "0a:58:0a:f4:02:01"
		}
		flow := fmt.Sprintf(`inport == %q && eth.src == %s && eth.dst == %s && ip4 && ip.ttl == 64 && ip4.src == %s && ip4.dst == %s && tcp && tcp.src == 4000 && tcp.dst == 80`,
			c.from.port, contract.MACFromAddress(netip.MustParseAddr(c.from.ip)), gateway, c.from.ip, c.to)
		trace := n.run("ovn-trace", "--db="+n.south, sw, flow)
		if got := wayOut(trace); got != c.by {
			t.Errorf("from %s to %s: %q, want %q:\n%s", c.from.ip, c.to, got, c.by, trace)
		}
	}
}

// rowsOf are those of the owners of a test case, without rules of pods, whose actions an old northd does not know.
func rowsOf(t *testing.T, file string) (rows []ovsdb.Row) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	section := sectionsOf(archive)
	view := readObjects(t, section["objects.yaml"])
	network := readConfig(t, section["config"], &view.zone)
	for _, owner := range ownersOf(t, view, section["owner"]) {
		built, err := Build(view, view.networkOf(network, owner), owner)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, built...)
	}
	return slices.DeleteFunc(rows, func(row ovsdb.Row) bool { _, isRule := row.Model.(*nb.ACL); return isRule })
}

// wayOut is the port and the next hop that a trace of the cluster router chooses last, or drop.
func wayOut(trace string) string {
	_, router, _ := strings.Cut(trace, `ingress(dp="ovn_cluster_router"`)
	router, _, _ = strings.Cut(router, "\negress(")
	last := func(field string) string {
		_, value, _ := strings.Cut(router[max(strings.LastIndex(router, field+" = "), 0):], " = ")
		value, _, _ = strings.Cut(value, ";")
		return strings.Trim(value, `"`)
	}
	if strings.Contains(router, "drop;") {
		return "drop"
	}
	return strings.TrimPrefix(last("outport"), "cr-") + " " + last("    reg0")
}
