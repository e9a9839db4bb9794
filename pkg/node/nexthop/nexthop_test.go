package nexthop

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
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

// TestUplink_RoutesOfHost: what pods use beside the default route, and what they do not.
func TestUplink_RoutesOfHost(t *testing.T) {
	to := func(dest, hop, link string, change func(*netdev.Route)) netdev.Route {
		r := netdev.Route{Dest: netip.MustParsePrefix(dest), NextHop: netip.MustParseAddr(hop), Link: link, Table: node.TableMain, Protocol: unix.RTPROT_BOOT}
		if change != nil {
			change(&r)
		}
		return r
	}
	routes := []netdev.Route{
		by("172.18.0.1", "breth0", 0),
		to("198.51.100.0/24", "172.18.0.100", "breth0", nil),
		to("192.0.2.0/24", "172.18.0.9", "breth0", func(r *netdev.Route) { r.Protocol = unix.RTPROT_ZEBRA }),
		to("fc00:9::/64", "fe80::9", "breth0", nil),
		to("203.0.113.0/24", "172.18.0.8", "breth0", func(r *netdev.Route) { r.Metric = 20 }),
		to("203.0.113.0/24", "172.18.0.7", "breth0", func(r *netdev.Route) { r.Metric = 10 }),
		// Not those:
		to("198.18.0.0/24", "172.18.0.100", "breth0", func(r *netdev.Route) { r.Table = 7 }),
		to("198.18.1.0/24", "172.18.0.100", "eth1", nil),
		to("198.18.2.0/24", "172.18.0.100", "breth0", func(r *netdev.Route) { r.NextHop = netip.Addr{} }),
		to("10.96.0.0/16", "169.254.0.4", "breth0", func(r *netdev.Route) { r.Protocol = node.ProtocolOurs }),
		to("198.18.3.0/24", "172.18.0.100", "breth0", func(r *netdev.Route) { r.Metric = 20 }),
		to("198.18.3.0/24", "192.0.2.1", "eth1", nil),
		to("198.18.4.0/24", "fe80::1", "breth0", nil),
	}
	u := Uplink{Name: "eth0", Link: "breth0", Addrs: nodetest.Prefixes("172.18.0.3/16", "fc00:18::3/64")}
	want := "[{198.51.100.0/24 172.18.0.100} {203.0.113.0/24 172.18.0.7} {fc00:9::/64 fe80::9} {192.0.2.0/24 172.18.0.9}]"
	nodetest.Equal(t, "routes", fmt.Sprint(u.Routes(routes)), want)
	nodetest.Equal(t, "a problem", fmt.Sprint(u.Problem(routes)), "<nil>")
	u.Addrs = u.Addrs[:1]
	nodetest.Equal(t, "of one family", fmt.Sprint(u.Routes(routes)), strings.Replace(want, "{fc00:9::/64 fe80::9} ", "", 1))
	for i := range contract.MaxGatewayRoutes {
		routes = append(routes, to(fmt.Sprintf("100.99.%d.0/24", i), "172.18.0.9", "breth0", func(r *netdev.Route) { r.Protocol = unix.RTPROT_ZEBRA }))
	}
	got := u.Routes(routes)
	if len(got) != contract.MaxGatewayRoutes || got[1].Dest.String() != "203.0.113.0/24" {
		t.Errorf("of many, %d: %v", len(got), got)
	}
	nodetest.Equal(t, "many", fmt.Sprint(u.Problem(routes)), "the host has 67 routes on eth0, of which pods use 64: summarize the routes")
}
