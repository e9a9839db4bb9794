package contract

import (
	"net/netip"
	"strings"
	"testing"
)

func routed(topology Topology, gateways ...string) Network {
	n := Network{Name: "n", ID: 3, Role: RoleSecondary, Topology: topology}
	for _, text := range gateways {
		gateway := netip.MustParsePrefix(text)
		n.Gateways = append(n.Gateways, gateway)
		n.Subnets = append(n.Subnets, Subnet{Prefix: gateway.Masked(), NodeBits: gateway.Bits()})
	}
	return n
}

// TestRouterMACs_OfAllPortsAndFamilies: both families' gateways, the other one of the first two addresses, and the router's
// port on the links. A network without a router of its own has what a chain's router would have.
func TestRouterMACs_OfAllPortsAndFamilies(t *testing.T) {
	masquerade := []netip.Prefix{netip.MustParsePrefix("169.254.0.0/17")}
	primary := routed(Layer2, "10.1.0.1/16", "fd00:1::1/64")
	primary.Role = RolePrimary
	chosen := routed(Layer2, "10.1.0.2/16")
	chosen.Exits = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	later := chosen
	later.ID = 0
	for name, tc := range map[string]struct {
		network Network
		want    string
	}{
		"primary":        {primary, "0a:58:0a:01:00:01 0a:58:0a:01:00:02 " + MACFromAddress(netip.MustParseAddr("fd00:1::1")).String() + " " + MACFromAddress(netip.MustParseAddr("fd00:1::2")).String() + " 0a:58:a9:fe:10:03"},
		"with exits":     {chosen, "0a:58:0a:01:00:02 0a:58:0a:01:00:01 0a:58:a9:fe:10:03"},
		"without an id":  {later, "0a:58:0a:01:00:02 0a:58:0a:01:00:01"},
		"of a chain":     {routed(Localnet, "10.1.0.9/16"), "0a:58:0a:01:00:09"},
		"without router": {routed(Layer2), ""},
	} {
		var got []string
		for _, mac := range RouterMACs(tc.network, masquerade) {
			got = append(got, mac.String())
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %v, want %s", name, got, tc.want)
		}
	}
}

// TestOfRouter_MACOrAddress: on networks that have a router, or may get that of a chain.
func TestOfRouter_MACOrAddress(t *testing.T) {
	pod := func(address, mac string) *PodNetwork {
		n := &PodNetwork{Addresses: []netip.Prefix{netip.MustParsePrefix(address)}}
		if err := n.MAC.UnmarshalText([]byte(mac)); err != nil {
			t.Fatal(err)
		}
		return n
	}
	gateway := routed(Layer2, "10.1.0.1/16", "10.2.0.1/16")
	gateway.Exits = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	forwards, plain := routed(Layer2, "10.1.0.1/16"), routed(Layer2, "10.1.0.1/16")
	forwards.Forward = true
	for _, tc := range []struct {
		network Network
		pod     *PodNetwork
		want    string
	}{
		{gateway, pod("10.1.0.7/16", "0a:58:0a:01:00:01"), "MAC 0a:58:0a:01:00:01"},
		{gateway, pod("10.1.0.7/16", "0a:58:0a:02:00:01"), ""}, // the port has the first gateway's
		{gateway, pod("10.2.0.1/16", "02:00:00:00:00:01"), "address 10.2.0.1"},
		{gateway, pod("10.1.0.7/16", "02:00:00:00:00:01"), ""},
		{gateway, nil, ""},
		{forwards, pod("10.1.0.7/16", "0a:58:0a:01:00:01"), "MAC 0a:58:0a:01:00:01"},
		{plain, pod("10.1.0.1/16", "0a:58:0a:01:00:01"), ""},
	} {
		if got := OfRouter(tc.network, tc.pod); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.pod, got, tc.want)
		}
	}
}
