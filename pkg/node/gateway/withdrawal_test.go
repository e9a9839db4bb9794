package gateway

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

const protocolBGP = 186

// via is a route of a routing daemon, or of an administrator (4).
func via(dest, hop, link string, protocol int) netdev.Route {
	return netdev.Route{Dest: netip.MustParsePrefix(dest), NextHop: netip.MustParseAddr(hop), Link: link, Protocol: protocol, Table: node.TableMain}
}

func (b *bench) hasRoute(t *testing.T, want netdev.Route) bool {
	t.Helper()
	routes, err := b.host.Routes(want.Link)
	nodetest.Must(t, err)
	return slices.ContainsFunc(routes, func(r netdev.Route) bool { return node.SameRoute(r, want) })
}

// TestRoutes_WithdrawnOnesLeave: what a routing daemon or an administrator has added to the bridge is gone when they take it.
func TestRoutes_WithdrawnOnesLeave(t *testing.T) {
	six := via("2001:db8::/32", "fc00:18::77", "breth0", 4)
	six.Metric = 1024
	for name, route := range map[string]netdev.Route{
		"of a routing daemon":  via("198.51.100.0/24", "172.18.0.77", "breth0", protocolBGP),
		"of an administrator":  via("198.51.100.0/24", "172.18.0.77", "breth0", 4),
		"of IPv6":              six,
		"default of a daemon":  {Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("172.18.0.77"), Link: "breth0", Protocol: protocolBGP, Metric: 20, Table: node.TableMain},
		"a further default":    {Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("172.18.0.77"), Link: "breth0", Protocol: 16, Metric: 20, Table: node.TableMain},
		"taken over from eth0": {Dest: netip.MustParsePrefix("10.9.0.0/16"), NextHop: netip.MustParseAddr("172.18.0.9"), Others: []netip.Addr{netip.MustParseAddr("172.18.0.8")}, Link: "breth0", Metric: 7, Table: node.TableMain},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.ovnController()
			s := b.setup(t)
			converge(t, s)
			nodetest.Must(t, b.host.FakeNS.ReplaceRoute(route))
			converge(t, s)
			if !b.hasRoute(t, route) {
				t.Error("the agent has removed the route")
			}
			nodetest.Must(t, b.host.FakeNS.DeleteRoute(route))
			converge(t, s)
			if b.hasRoute(t, route) {
				t.Error("the route is back")
			}
			b.removeSwitchLinks() // OVS starts again
			b.makeSwitchLinks()
			converge(t, s)
			if b.hasRoute(t, route) {
				t.Error("the route is back on a new link")
			}
			if !b.hasRoute(t, defaultRoute("breth0", 0)) {
				t.Error("the default route is lost")
			}
		})
	}
}

// tell is an event of a link.
func (b *bench) tell(t *testing.T, link string) {
	t.Helper()
	l, err := b.host.Link(link)
	nodetest.Must(t, err)
	events := make(chan netdev.Event, 1)
	events <- netdev.Event{Kind: netdev.LinkEvent, Link: link, Index: l.Index}
	close(events)
	b.running.links.Follow(events, b.running.loop)
}

// TestRoutes_OnesThatTheKernelRemovedComeBack: neither the host nor a daemon has withdrawn them.
func TestRoutes_OnesThatTheKernelRemovedComeBack(t *testing.T) {
	static := via("10.9.0.0/16", "172.18.0.9", "breth0", 4)
	static.Metric, static.Others = 7, []netip.Addr{netip.MustParseAddr("172.18.0.8")}
	for name, lose := range map[string]func(*testing.T, *bench){
		"the link was set down": func(t *testing.T, b *bench) {
			nodetest.Must(t, b.host.FakeNS.SetLink("breth0", netdev.Settings{State: netdev.Down}))
			nodetest.Must(t, b.host.FakeNS.DeleteRoute(static))
			nodetest.Must(t, b.host.FakeNS.DeleteRoute(defaultRoute("breth0", 0)))
		},
		"the last address of the family went": func(t *testing.T, b *bench) {
			nodetest.Must(t, b.host.FakeNS.DeleteAddr("breth0", nodeV4))
			nodetest.Must(t, b.host.FakeNS.DeleteRoute(static))
			nodetest.Must(t, b.host.FakeNS.DeleteRoute(defaultRoute("breth0", 0)))
		},
		"the link was down and is up again": func(t *testing.T, b *bench) {
			nodetest.Must(t, b.host.FakeNS.DeleteRoute(static))
			b.tell(t, "breth0")
		},
		"the last default route": func(t *testing.T, b *bench) {
			nodetest.Must(t, b.host.FakeNS.DeleteRoute(defaultRoute("breth0", 0)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.ovnController()
			s := b.setup(t)
			converge(t, s)
			b.running = s
			lose(t, b)
			converge(t, s)
			if !b.hasRoute(t, static) || !b.hasRoute(t, defaultRoute("breth0", 0)) {
				t.Errorf("the host is\n%s", b.describe(t))
			}
			nodetest.Must(t, b.host.FakeNS.DeleteRoute(static))
			converge(t, s)
			if b.hasRoute(t, static) {
				t.Error("a route that is withdrawn afterwards is back")
			}
		})
	}
}

// TestRoutes_OfRoutingDaemonsAreTheirs: they stay where they are at a takeover, and the checkpoint of a former version, which
// has them, does not bring them back.
func TestRoutes_OfRoutingDaemonsAreTheirs(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	nodetest.Must(t, b.host.FakeNS.ReplaceRoute(via("198.51.100.0/24", "172.18.0.77", "eth0", protocolBGP)))
	s := b.setup(t)
	converge(t, s)
	if b.hasRoute(t, via("198.51.100.0/24", "172.18.0.77", "breth0", protocolBGP)) {
		t.Error("the route has moved")
	}
	c, err := loadCheckpoint(b.cfg.Checkpoint)
	nodetest.Must(t, err)
	c.Routes = append(c.Routes, via("203.0.113.0/24", "172.18.0.77", "", protocolBGP))
	nodetest.Must(t, durable.Save(b.cfg.Checkpoint, c))
	converge(t, b.setup(t))
	nodetest.Must(t, s.FailBack(t.Context()))
	for _, link := range []string{"breth0", "eth0"} {
		if b.hasRoute(t, via("203.0.113.0/24", "172.18.0.77", link, protocolBGP)) {
			t.Errorf("%s has a route of an earlier time", link)
		}
	}
}
