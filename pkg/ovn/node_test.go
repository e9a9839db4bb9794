package ovn

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// oneNode is a View of nothing but a node.
type oneNode struct {
	View
	node       *corev1.Node
	masquerade []netip.Prefix
}

func (v *oneNode) NetworksWithGateway() []contract.Network { return nil }
func (v *oneNode) Zone() contract.Zone                     { return contract.Zone{MasqueradeSubnets: v.masquerade} }
func (v *oneNode) Node(string) *corev1.Node                { return v.node }

// FuzzNode: whatever a node's annotations say, its rows have addresses where the
// database wants addresses, and numbers where it wants numbers.
func FuzzNode(f *testing.F) {
	const gateway = `{"default":{"mode":"shared","interface-id":"breth0_n1","mac-address":"02:42:ac:12:00:03","ip-addresses":["172.18.0.3/16","fc00:18::3/64"],` +
		`"next-hops":["172.18.0.1","fc00:18::1"],"exgw-interface-id":"breth1_n1","exgw-mac-address":"02:42:0a:3c:00:03","exgw-ip-addresses":["10.60.0.3/24"]}}`
	f.Add("2", "1400", gateway, `["172.18.0.3/16","fc00:18::3/64"]`, `["172.18.0.3"]`)
	f.Add("", "", "", "", "")
	f.Add("007", "0", strings.ReplaceAll(gateway, "fc00:18::1", "fe80::1%eth0"), `["::ffff:172.18.0.3/112"]`, `["::ffff:172.18.0.3","fe80::1%eth0"]`)
	f.Add("4294967296", "70000", strings.ReplaceAll(gateway, `"172.18.0.1"`, `""`), `[""]`, `[""]`)
	f.Add("-1", "x", strings.ReplaceAll(gateway, `"172.18.0.3/16"`, `""`), `null`, `null`)
	f.Add("2", "", `{"default":{"mode":"disabled"}}`, `[]`, `[]`)
	f.Add("2", "", strings.ReplaceAll(gateway, "172.18.0.3", "::ffff:172.18.0.3"), `[]`, `{}`)
	prefixes := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	network := oneNetwork("10.244.0.0/16", "fd00:10:244::/48")
	network.JoinSubnets = prefixes("100.64.0.0/16", "fd98::/64")
	f.Fuzz(func(t *testing.T, id, mtu, gateway, hosts, encaps string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
			contract.NodeSubnetsKey: `{"default":["10.244.1.0/24","fd00:10:244:1::/64"]}`, contract.NodeChassisIDKey: "chassis",
			contract.NodeIDKey: id, contract.NodeMTUKey: mtu, contract.GatewayConfigKey: gateway, contract.HostCIDRsKey: hosts,
			contract.NodeEncapIPsKey: encaps,
		}}}
		rows, err := Build(&oneNode{node: node, masquerade: prefixes("169.254.0.0/17", "fd69::/112")}, network, contract.NodeOwner("n1"))
		if number, parse := strconv.ParseUint(id, 10, 32); (parse != nil || number > 65000) && err == nil {
			return // the allocator gives no such number, and a number from another source is no fact
		}
		ids := map[string]bool{}
		for _, row := range rows {
			id := fmt.Sprintf("%T %s", row.Model, row.ID)
			if ids[id] {
				t.Errorf("two rows %s", id)
			}
			ids[id] = true
			for _, text := range notAddresses(row) {
				t.Errorf("row %s has %q where an address or a number is wanted", row.ID, text)
			}
		}
	})
}

// setOf are the members of the set in a match, if it has one.
func setOf(match string) []string {
	_, set, ok := strings.Cut(match, "{")
	if !ok {
		return nil
	}
	set, _, _ = strings.Cut(set, "}")
	return strings.Split(set, ", ")
}

// notAddresses are a row's values that should be addresses, networks, MACs or numbers,
// and are not.
func notAddresses(row ovsdb.Row) (wrong []string) {
	address := func(texts ...string) {
		for _, text := range texts {
			if addr, err := netip.ParseAddr(text); err != nil || addr.Zone() != "" || addr.Is4In6() {
				wrong = append(wrong, text)
			}
		}
	}
	network := func(texts ...string) {
		for _, text := range texts {
			if prefix, err := netip.ParsePrefix(text); err != nil || prefix.Addr().Is4In6() {
				wrong = append(wrong, text)
			}
		}
	}
	mac := func(text string) {
		if hw, err := net.ParseMAC(text); err != nil || len(hw) != 6 {
			wrong = append(wrong, text)
		}
	}
	switch m := row.Model.(type) {
	case *nb.LogicalRouterPort:
		mac(m.MAC)
		network(m.Networks...)
		if text, ok := m.Options["gateway_mtu"]; ok {
			if n, err := strconv.Atoi(text); err != nil || n < 1 || n > 65535 {
				wrong = append(wrong, text)
			}
		}
	case *nb.LogicalSwitchPort:
		for _, text := range m.Addresses {
			if words := strings.Fields(text); !slices.Contains([]string{"router", "unknown"}, text) {
				mac(words[0])
				address(words[1:]...)
			}
		}
	case *nb.NAT:
		address(m.ExternalIP)
	case *nb.StaticMACBinding:
		address(m.IP)
		mac(m.MAC)
	case *nb.LogicalRouterStaticRoute:
		address(m.Nexthop)
		network(m.IPPrefix)
	case *nb.LogicalRouterPolicy:
		address(m.Nexthops...)
		address(setOf(m.Match)...)
	case *nb.ACL:
		address(setOf(m.Match)...)
	}
	return wrong
}
