package gateway

import (
	"slices"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// TestAdvertised_BridgeFollowsRouters: the router of the time of the takeover is replaced, and then none is left.
func TestAdvertised_BridgeFollowsRouters(t *testing.T) {
	by := func(hop, link string, protocol, metric int) netdev.Route {
		r := via("::/0", hop, link, protocol)
		r.Metric = metric
		return r
	}
	b := newBench(t)
	b.ovnController()
	nodetest.Must(t, b.host.FakeNS.ReplaceRoute(by("fc00:18::1", "eth0", node.ProtocolRA, 1024)))
	s := b.setup(t)
	converge(t, s)
	if b.hasRoute(t, by("fc00:18::1", "eth0", node.ProtocolRA, 1024)) || !b.hasRoute(t, by("fc00:18::1", "breth0", node.ProtocolPermanent, 1025)) {
		t.Errorf("after the takeover:\n%s", b.describe(t))
	}
	for pattern, want := range map[string]string{node.AcceptRA: "2", node.Autoconf: "0"} {
		if got, _ := b.host.SysctlValue(node.SysctlKey(pattern, "breth0")); got != want {
			t.Errorf("%s of breth0 is %s", pattern, got)
		}
	}
	nextHop := func(want string) {
		t.Helper()
		st, err := s.observe(t.Context())
		nodetest.Must(t, err)
		if got := gatewayConfig(s.cfg, st, Gateway{Bridge: "breth0", NIC: "eth0"}).NextHops; !slices.Equal(got, hops("172.18.0.1", want)) {
			t.Errorf("next hop %v, want %s", got, want)
		}
	}
	nextHop("fc00:18::1")
	nodetest.Must(t, b.host.FakeNS.ReplaceRoute(by("fc00:18::2", "breth0", node.ProtocolRA, 1024)))
	converge(t, s)
	nextHop("fc00:18::2")
	nodetest.Must(t, b.host.FakeNS.DeleteRoute(by("fc00:18::2", "breth0", node.ProtocolRA, 1024)))
	converge(t, s)
	if b.hasRoute(t, by("fc00:18::2", "breth0", node.ProtocolRA, 1024)) {
		t.Error("the route of a router that is gone is back")
	}
	nextHop("fc00:18::1")
	if c, err := loadCheckpoint(b.cfg.Checkpoint); err != nil || !c.advertised() {
		t.Errorf("the checkpoint is %+v, %v", c, err)
	}
}
