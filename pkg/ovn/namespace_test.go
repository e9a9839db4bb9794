package ovn

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// addRouted writes switches, routers and what leads between them.
func (n *northd) addRouted(rows []ovsdb.Row) {
	n.t.Helper()
	args := []string{"--timeout=30", "--db=" + n.north, "--wait=sb"}
	add := func(words ...string) { args = append(append(args, "--"), words...) }
	for _, row := range rows {
		switch model := row.Model.(type) {
		case *nb.LogicalSwitch:
			add("ls-add", model.Name)
		case *nb.LogicalRouter:
			add("lr-add", model.Name)
			if chassis := model.Options["chassis"]; chassis != "" {
				add("set", "Logical_Router", model.Name, "options:chassis="+chassis)
			}
		}
	}
	for _, row := range rows {
		switch model := row.Model.(type) {
		case *nb.LogicalRouterPort:
			add(append([]string{"lrp-add", row.Parents[0].Name, model.Name, model.MAC}, model.Networks...)...)
		case *nb.LogicalSwitchPort:
			add("lsp-add", row.Parents[0].Name, model.Name)
			add(append([]string{"lsp-set-addresses", model.Name}, model.Addresses...)...)
			add("lsp-set-type", model.Name, model.Type)
			if peer := model.Options["router-port"]; peer != "" {
				add("lsp-set-options", model.Name, "router-port="+peer)
			}
		case *nb.LogicalRouterStaticRoute:
			words := []string{"--may-exist"}
			if model.Policy != nil {
				words = append(words, "--policy="+*model.Policy)
			}
			words = append(words, "lr-route-add", row.Parents[0].Name, model.IPPrefix, model.Nexthop)
			if model.OutputPort != nil {
				words = append(words, *model.OutputPort)
			}
			add(words...)
		case *nb.LogicalRouterPolicy:
			add(append([]string{"lr-policy-add", row.Parents[0].Name, fmt.Sprint(model.Priority), model.Match, model.Action}, model.Nexthops...)...)
		}
	}
	n.run("ovn-nbctl", args...)
}

// TestNamespaceSubnet_PacketsTakeTheRoutes: in northd's flows, packets from and to a pod of a namespace's subnet pass the
// cluster router: to pods on both nodes, to management ports, to the node itself, and out by the gateway router of the pod's
// node. Those for an address without a pod are dropped, and so are those that leave from a node without a gateway.
func TestNamespaceSubnet_PacketsTakeTheRoutes(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/namespaces-northd.txtar")
	if err != nil {
		t.Fatal(err)
	}
	section := map[string]string{}
	for _, f := range archive.Files {
		section[f.Name] = string(f.Data)
	}
	view := readObjects(t, section["objects.yaml"])
	network := readConfig(t, section["config"], &view.zone)
	var rows []ovsdb.Row
	for _, owner := range ownersOf(t, view, section["owner"]) {
		built, err := Build(view, network, owner)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, built...)
	}
	n := startNorthd(t)
	n.addRouted(rows)
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
	return last("outport") + " " + last("    reg0")
}
