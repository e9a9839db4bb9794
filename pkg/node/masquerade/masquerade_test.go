package masquerade

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// TestSubnets_OfAPIJoinConfigured: ranges of the API join the configured ones, unless they
// would take what the node or its pods need; until they are known, those that an
// agent before us has made routes for are kept.
func TestSubnets_OfAPIJoinConfigured(t *testing.T) {
	cfg := node.Config{
		Network: nodetest.Network("10.244.0.0/16"),
		Zone:    contract.Zone{ServiceSubnets: nodetest.Prefixes("10.96.0.0/16"), MasqueradeSubnets: nodetest.Prefixes("169.254.0.0/17")},
	}
	hop := netip.MustParseAddr("169.254.0.4")
	st := node.State{
		Addrs:      map[string][]netip.Prefix{"breth0": nodetest.Prefixes("172.18.0.2/16")},
		Namespaces: []contract.NamespaceSubnet{{Prefixes: nodetest.Prefixes("10.9.0.0/24")}},
		Routes: []netdev.Route{
			{Link: "breth0", Protocol: node.ProtocolOurs, Dest: netip.MustParsePrefix("10.97.0.0/24"), NextHop: hop},
			{Link: "breth0", Protocol: node.ProtocolOurs, Dest: netip.MustParsePrefix("169.254.0.1/32")},
			{Link: "breth0", Protocol: node.ProtocolOurs, Dest: netip.MustParsePrefix("169.254.0.8/32"), NextHop: hop},
			{Link: "breth0", Protocol: 3, Dest: netip.MustParsePrefix("10.98.0.0/24"), NextHop: hop},
		},
	}
	for _, tc := range []struct {
		said  []netip.Prefix
		known bool
		want  string
	}{
		{nil, false, "[10.96.0.0/16 10.97.0.0/24] []"},
		{nil, true, "[10.96.0.0/16] []"},
		{nodetest.Prefixes("10.96.0.0/16", "10.99.0.0/24", "fd00::/112"), true, "[10.96.0.0/16 10.99.0.0/24 fd00::/112] []"},
		{nodetest.Prefixes("10.244.7.0/24", "172.16.0.0/12", "0.0.0.0/0", "10.99.0.0/24", "10.9.0.0/28"), true, "[10.96.0.0/16 10.99.0.0/24] [10.244.7.0/24 172.16.0.0/12 0.0.0.0/0 10.9.0.0/28]"},
	} {
		subnets, refused := Subnets(cfg, st, "breth0", tc.said, tc.known)
		nodetest.Equal(t, fmt.Sprint(tc.said, tc.known), fmt.Sprint(subnets, " ", refused), tc.want)
	}
}

// TestPlan_RemovesAddressOfFormerSubnet: when the masquerade subnet changes, what the agent has made of the former one
// goes. Other addresses in the former subnet stay.
func TestPlan_RemovesAddressOfFormerSubnet(t *testing.T) {
	former := netip.MustParsePrefix("169.254.0.2/17")
	st := node.State{
		LinkLocal: map[string][]netip.Prefix{"breth0": {former, netip.MustParsePrefix("169.254.9.9/32")}, "lo": {netip.MustParsePrefix("169.254.20.10/32")}},
		Routes: []netdev.Route{{
			Link: "breth0", Protocol: node.ProtocolOurs, Dest: netip.MustParsePrefix("10.96.0.0/16"), Table: node.TableMain,
			NextHop: netip.MustParseAddr("169.254.0.4"), Source: former.Addr(),
		}},
	}
	var deleted []node.Step
	for _, step := range Plan(st, Want{Link: "breth0", Bridge: "breth0", MTU: 1400}) {
		if _, ok := step.(node.DeleteAddr); ok {
			deleted = append(deleted, step)
		}
	}
	nodetest.Equal(t, "deleted", fmt.Sprint(deleted), fmt.Sprint([]node.Step{node.DeleteAddr{Link: "breth0", Addr: former}}))
}
