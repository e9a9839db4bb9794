package nexthop

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

func hops(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// by is a default route of the main table.
func by(hop, link string, metric int, others ...netip.Addr) netdev.Route {
	r := netdev.Route{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr(hop), Others: others, Link: link, Table: node.TableMain, Metric: metric}
	if r.NextHop.Is6() {
		r.Dest = netip.MustParsePrefix("::/0")
	}
	return r
}

// TestUplink_NextHopsOrProblem: a server or a BlueField may have its default route at a port for administration.
func TestUplink_NextHopsOrProblem(t *testing.T) {
	table7 := by("172.18.0.1", "breth0", 0)
	table7.Table = 7
	for name, tt := range map[string]struct {
		configured []netip.Addr
		routes     []netdev.Route
		want       []netip.Addr
		problem    string
	}{
		"best of several": {nil, []netdev.Route{
			by("172.18.0.9", "breth0", 7), by("172.18.0.1", "breth0", 5, hops("172.18.0.254")...), by("fe80::1", "breth0", 1024), by("172.18.0.1", "eth1", 1), table7,
		}, hops("172.18.0.1", "172.18.0.254", "fe80::1"), ""},
		"on both":                   {nil, []netdev.Route{by("192.0.2.1", "oob_net0", 0), by("172.18.0.1", "breth0", 9)}, hops("172.18.0.1"), ""},
		"elsewhere":                 {nil, []netdev.Route{by("192.0.2.1", "oob_net0", 0)}, nil, "the IPv4 default route is on oob_net0, and not on gateway interface eth0: pods reach no IPv4 address beyond 172.18.0.0/16; set gateway_next_hop"},
		"elsewhere, IPv6":           {nil, []netdev.Route{by("172.18.0.1", "breth0", 0), by("fe80::1", "oob_net0", 0)}, hops("172.18.0.1"), "the IPv6 default route is on oob_net0"},
		"one family only":           {nil, []netdev.Route{by("172.18.0.1", "breth0", 0)}, hops("172.18.0.1"), ""},
		"none at all":               {nil, nil, nil, "the host has no default route: pods reach no address beyond 172.18.0.0/16 and fc00:18::/64"},
		"configured":                {hops("172.18.0.254"), []netdev.Route{by("192.0.2.1", "oob_net0", 0)}, hops("172.18.0.254"), ""},
		"configured, both":          {hops("172.18.0.254", "fc00:18::1"), []netdev.Route{by("192.0.2.1", "oob_net0", 0), by("fe80::1", "oob_net0", 0)}, hops("172.18.0.254", "fc00:18::1"), ""},
		"configured, one of two":    {hops("172.18.0.254"), []netdev.Route{by("fe80::1", "oob_net0", 0)}, hops("172.18.0.254"), "the IPv6 default route is on oob_net0"},
		"configured wins":           {hops("172.18.0.254"), []netdev.Route{by("172.18.0.1", "breth0", 0)}, hops("172.18.0.254"), ""},
		"still on the bridge's NIC": {nil, []netdev.Route{by("172.18.0.1", "eth0", 0)}, nil, "the host has no default route"},
	} {
		t.Run(name, func(t *testing.T) {
			u := Uplink{Name: "eth0", Link: "breth0", Links: []string{"breth0", "eth0"}, Addrs: nodetest.Prefixes("172.18.0.3/16", "fc00:18::3/64"), Configured: tt.configured}
			if got := u.Of(tt.routes); !slices.Equal(got, tt.want) {
				t.Errorf("next hops %v, want %v", got, tt.want)
			}
			problem := ""
			if err := u.Problem(tt.routes); err != nil {
				problem = err.Error()
			}
			if (problem == "") != (tt.problem == "") || !strings.Contains(problem, tt.problem) {
				t.Errorf("problem %q, want %q", problem, tt.problem)
			}
		})
	}
}
