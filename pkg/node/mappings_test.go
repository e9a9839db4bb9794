package node

import "testing"

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
