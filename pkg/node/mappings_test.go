package node

import (
	"maps"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

func TestBridgeOf_NamesOfPhysicalNetworks(t *testing.T) {
	for _, tc := range []struct {
		mappings, network, want string
	}{
		{"physnet:br-ex", "physnet", "br-ex"},
		{"physnet:br-ex,tenants:br1", "tenants", "br1"},
		{"physnet:br-ex, tenants:br1", "tenants", "br1"},
		{"physnet:br-ex", "tenants", ""},
		{"physnet2:br-ex", "physnet", ""},
		{"tenants:", "tenants", ""},
		{"tenants", "tenants", ""},
		{"", "", ""},
	} {
		if got := BridgeOf(tc.mappings, tc.network); got != tc.want {
			t.Errorf("%q in %q: %q", tc.network, tc.mappings, got)
		}
	}
}

func TestPhysicalLabels_FollowMappings(t *testing.T) {
	has := map[string]string{
		"app": "x", "physical-network.ovn-offload.io/kept": "true", "physical-network.ovn-offload.io/gone": "true",
	}
	want := map[string]string{
		"physical-network.ovn-offload.io/kept": "true", "physical-network.ovn-offload.io/gone": "", "physical-network.ovn-offload.io/nw_new": "true",
	}
	got := PhysicalLabels("physnet:br-ex,exgwphysnet:br1,kept:br-a, nw_new:br-b,none:,not/a/name:br-c", has)
	if !maps.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
	if got := PhysicalLabels("", nil); len(got) != 0 {
		t.Errorf("labels %v of a node without mappings", got)
	}
}

func TestSameDatapath_NamesBridgeThatCannotBeJoined(t *testing.T) {
	for name, c := range map[string]struct {
		mappings string
		bridges  map[string]string
		want     string
	}{
		"the kernel's, written and not":   {"physnet:breth0", map[string]string{"br-int": "", "breth0": "system"}, ""},
		"userspace":                       {"physnet:breth0", map[string]string{"br-int": "netdev", "breth0": "netdev"}, ""},
		"OVS-DOCA":                        {"physnet:ovsbr1", map[string]string{"br-int": "system", "ovsbr1": "netdev"}, `bridge ovsbr1 has the datapath "netdev" and br-int has "system"`},
		"a second network":                {"a:br-a,b:br-b", map[string]string{"br-int": "", "br-a": "", "br-b": "netdev"}, "bridge br-b"},
		"a bridge of others":              {"physnet:breth0", map[string]string{"br-int": "", "breth0": "", "other": "netdev"}, ""},
		"without an integration bridge":   {"physnet:ovsbr1", map[string]string{"ovsbr1": "netdev"}, ""},
		"a mapping to a bridge not there": {"physnet:ovsbr1", map[string]string{"br-int": ""}, ""},
		"without a mapping":               {"", map[string]string{"br-int": "", "ovsbr1": "netdev"}, ""},
	} {
		var bridges []any
		for bridge, datapath := range c.bridges {
			bridges = append(bridges, &vswitch.Bridge{Name: bridge, DatapathType: datapath})
		}
		if err := SameDatapath(c.mappings, bridges, "br-int"); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
