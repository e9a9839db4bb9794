package contract

import (
	"net/netip"
	"testing"
)

// TestMasquerade_PartsOfPrimaryNetworksAreApart: the addresses of networks and links have no others' address, and the
// smallest subnet has all.
func TestMasquerade_PartsOfPrimaryNetworksAreApart(t *testing.T) {
	for _, tc := range []struct{ subnet, smaller, network, link string }{
		{"169.254.0.0/17", "169.254.0.0/18", "169.254.31.255", "169.254.127.254/31"},
		{"fd69::/113", "fd69::/114", "fd69::1fff", "fd69::7ffe/127"},
	} {
		subnet := netip.MustParsePrefix(tc.subnet)
		if !HasPrimaries(subnet) || HasPrimaries(netip.MustParsePrefix(tc.smaller)) {
			t.Errorf("%s is too small, or %s large enough", tc.subnet, tc.smaller)
		}
		if got := NetworkAddress(subnet, 4095).String(); got != tc.network || !NetworkAddresses(subnet).Contains(netip.MustParseAddr(got)) {
			t.Errorf("the last network has %s of %s, want %s", got, NetworkAddresses(subnet), tc.network)
		}
		if got := Link(subnet, MaxLinkID); got.String() != tc.link || !Links(subnet).Overlaps(got) || !subnet.Overlaps(got) {
			t.Errorf("the last node has %s of %s, want %s", got, Links(subnet), tc.link)
		}
		if Links(subnet).Overlaps(NetworkAddresses(subnet)) || NetworkAddresses(subnet).Contains(AddressAt(subnet, MasqueradeClient)) {
			t.Errorf("%s and %s overlap, or have a node's address", Links(subnet), NetworkAddresses(subnet))
		}
	}
}

func TestNetworkOfGroup_IsThatOfItsName(t *testing.T) {
	for _, network := range []Network{{}, {Name: "a-b.c_d"}} {
		for _, group := range []string{network.ClusterGroup(), network.SwitchGroup(), network.RouterGroup()} {
			if got, ok := NetworkOfGroup(group); !ok || got.Name != network.Name {
				t.Errorf("%s: %q, %v", group, got.Name, ok)
			}
		}
	}
	for _, foreign := range []string{"mine", "a/mine", "/clusterLBGroup", "a/b/clusterLBGroup"} {
		if got, ok := NetworkOfGroup(foreign); ok {
			t.Errorf("%s is a group of %q", foreign, got.Name)
		}
	}
}
