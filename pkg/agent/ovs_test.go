package agent

import "testing"

func TestIsMapped_NamesOfPhysicalNetworks(t *testing.T) {
	for _, tc := range []struct {
		mappings, network string
		want              bool
	}{
		{"physnet:br-ex", "physnet", true},
		{"physnet:br-ex,tenants:br1", "tenants", true},
		{"physnet:br-ex, tenants:br1", "tenants", true},
		{"physnet:br-ex", "tenants", false},
		{"physnet2:br-ex", "physnet", false},
		{"tenants:", "tenants", false},
		{"tenants", "tenants", false},
		{"", "", false},
	} {
		if got := isMapped(tc.mappings, tc.network); got != tc.want {
			t.Errorf("%q in %q: %v", tc.network, tc.mappings, got)
		}
	}
}
