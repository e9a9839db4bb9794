package gateway

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

func hops(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// TestSetup_ReportsMissingNextHopOnce: the node is ready, for its pods reach each other and their nodes.
func TestSetup_ReportsMissingNextHopOnce(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	b.host.fake.AddLink("", netdev.Link{Name: "oob_net0", Up: true, MTU: 1500})
	nodetest.Must(t, b.host.FakeNS.ReplaceAddr("oob_net0", netip.MustParsePrefix("192.0.2.3/24"), netdev.AddrOptions{}))
	nodetest.Must(t, b.host.FakeNS.DeleteRoute(defaultRoute("eth0", 0)))
	nodetest.Must(t, b.host.FakeNS.ReplaceRoute(via("0.0.0.0/0", "192.0.2.1", "oob_net0", 4)))
	b.cfg.GatewayInterface = "eth0"
	s := b.setup(t)
	var warned []string
	s.deps.NoNextHop = func(problem string) { warned = append(warned, problem) }
	converge(t, s)
	converge(t, s)
	if err := s.NextHopProblem(); err == nil || !strings.Contains(err.Error(), "on oob_net0") || s.Ready() != nil || !slices.Equal(warned, []string{err.Error()}) {
		t.Errorf("problem %v, ready %v, warned %v", err, s.Ready(), warned)
	}
	if got := b.annotated[contract.GatewayConfigKey]; strings.Contains(got, `"next-hops"`) {
		t.Errorf("annotation %s", got)
	}
	b.cfg.NextHops = hops("172.18.0.1")
	s = b.setup(t)
	converge(t, s)
	if got := b.annotated[contract.GatewayConfigKey]; s.NextHopProblem() != nil || !strings.Contains(got, `"next-hops":["172.18.0.1"]`) {
		t.Errorf("with the setting: %v, annotation %s", s.NextHopProblem(), got)
	}
}

func TestConfig_NextHopsAreAddresses(t *testing.T) {
	for _, hop := range []string{"fe80::1%eth0", "::ffff:192.0.2.1"} {
		cfg := Defaults()
		cfg.Node, cfg.Remote, cfg.Network, cfg.NextHops = "n1", "none", nodetest.Network("10.244.0.0/16"), hops(hop)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "next hops") {
			t.Errorf("%s: %v", hop, err)
		}
	}
}
