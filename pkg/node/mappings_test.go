package node

import (
	"maps"
	"testing"
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
