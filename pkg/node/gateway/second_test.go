package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

var (
	secondV4 = netip.MustParsePrefix("10.60.0.3/24")
	secondV6 = netip.MustParsePrefix("fd60::3/64")
)

// newSecondBench is a node with a second NIC, which its settings name.
func newSecondBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.ovnController()
	b.addSecond(t)
	b.cfg.SecondInterface = "eth1"
	return b
}

func (b *bench) addSecond(t *testing.T) {
	t.Helper()
	b.host.fake.AddLink("", netdev.Link{Name: "eth1", Up: true, MTU: 1500})
	for _, addr := range []netip.Prefix{secondV4, secondV6} {
		nodetest.Must(t, b.host.FakeNS.ReplaceAddr("eth1", addr, netdev.AddrOptions{}))
	}
	nodetest.Must(t, b.host.FakeNS.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("10.61.0.0/16"), NextHop: netip.MustParseAddr("10.60.0.9"), Link: "eth1"}))
}

// settledWith is the host with all that is to be, its second NIC's on link.
func settledWith(link string) string {
	lines := strings.Split(settled, "\n")
	lines = append(lines, "eth1 up=true mtu=1500 []", "route 10.61.0.0/16 via 10.60.0.9 dev "+link+" metric 0 proto 4")
	if link != "eth1" {
		lines = append(lines, link+" up=true mtu=1500 []")
	}
	for i, line := range lines {
		if strings.HasPrefix(line, link+" ") {
			lines[i] = strings.Replace(line, "[]", fmt.Sprint([]netip.Prefix{secondV4, secondV6}), 1)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (b *bench) wantAnnotated(t *testing.T, mappings, second string) {
	t.Helper()
	if got := b.db.settings["ovn-bridge-mappings"]; got != mappings {
		t.Errorf("bridge mappings %q, want %q", got, mappings)
	}
	got := b.annotated[contract.GatewayConfigKey]
	if _, got, _ := strings.Cut(got, `"next-hop":"172.18.0.9"}]`); got != second+"}}" {
		t.Errorf("gateways %s, want %q of the second", got, second)
	}
}

// The second NIC is taken over, the Node's annotation has it, and without the
// setting it is given back.
func TestSecondBridge_TakesNICOverAndGivesItBack(t *testing.T) {
	b := newSecondBench(t)
	nic, err := b.host.Link("eth1")
	nodetest.Must(t, err)
	s := b.setup(t)
	converge(t, s)
	nodetest.Equal(t, "host", b.describe(t), settledWith("breth1"))
	b.wantAnnotated(t, "physnet:breth0,exgwphysnet:breth1", `,"exgw-interface-id":"breth1_n1","exgw-mac-address":"`+nic.MAC.String()+
		`","exgw-ip-addresses":["10.60.0.3/24","fd60::3/64"]`)
	tables, _ := s.deps.Flows.(flowTables)
	if want := "table=0,priority=10,dl_src=" + nic.MAC.String() + " actions=drop"; !slices.Contains(tables["breth1"], want) {
		t.Errorf("breth1 has the flows %q, want %s", tables["breth1"], want)
	}
	for link, want := range map[string]string{"breth0": "1", "breth1": "0"} {
		if got, err := b.host.SysctlValue(node.SysctlKey(node.Forwarding, link)); got != want || err != nil {
			t.Errorf("forwarding of %s: %s, %v", link, got, err)
		}
	}
	before := b.host.changes
	converge(t, s)
	if got := b.host.changes - before; got != 3 { // the owners' rows, which the engine compares
		t.Errorf("a pass over a settled node makes %d changes", got)
	}
	b.cfg.SecondInterface = ""
	converge(t, b.setup(t))
	nodetest.Equal(t, "host without the setting", b.describe(t), settledWith("eth1"))
	b.wantAnnotated(t, "physnet:breth0", "")
	if c, err := loadCheckpoint(b.cfg.ofSecond().Checkpoint); c != nil || err != nil {
		t.Errorf("checkpoint %v, %v", c, err)
	}
}

// When the router's port is there, the second bridge tells host and router apart.
func TestSecondBridge_FlowsSeparateHostAndRouter(t *testing.T) {
	st := State{
		State: node.State{
			Links: map[string]netdev.Link{"breth1": {MAC: []byte{2, 0, 0, 0, 0, 1}}},
			Addrs: map[string][]netip.Prefix{"breth1": {secondV4}},
		},
		OFPorts: map[string]int{"eth1": 1, "patch-breth1_n1-to-br-int": 2},
	}
	b := newSecondBench(t)
	w, err := bridgeOf(b.cfg.ofSecond(), st, Gateway{"breth1", "eth1"})
	nodetest.Must(t, err)
	table := flows.Table(w)
	for _, want := range []string{
		"table=0,priority=80,in_port=2,dl_src=02:00:00:00:00:01,ip actions=ct(commit,zone=64000,exec(set_field:1->ct_mark)),output:1",
		"table=1,priority=100,ct_state=+rpl,ct_mark=1 actions=output:2",
		"table=1,priority=0 actions=output:LOCAL",
		"table=0,priority=115,in_port=1,ip,nw_src=169.254.0.0/17 actions=drop",
	} {
		if !slices.Contains(table, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(table, "\n"))
		}
	}
	if slices.ContainsFunc(table, func(flow string) bool {
		return strings.HasPrefix(flow, "table=4") || strings.Contains(flow, "169.254.") && !strings.HasSuffix(flow, "drop")
	}) {
		t.Errorf("flows for services in\n%s", strings.Join(table, "\n"))
	}
}

// Wherever the process is killed, the host has each of its addresses, and the
// next one ends at the same state.
func TestSecondBridge_CrashAtEachStepRecovers(t *testing.T) {
	for crash := 1; ; crash++ {
		b := newSecondBench(t)
		b.host.naked = func() error {
			for _, name := range []string{"eth1", "breth1"} {
				if addrs, err := b.host.Addrs(name); err == nil && slices.Contains(addrs, secondV4) {
					return hasAddress(b.host)
				}
			}
			return errors.New("the host has lost its second address")
		}
		b.host.crashAt = crash
		first := b.setup(t)
		for range 6 {
			if first.pass(t.Context()) == nil {
				break
			}
		}
		if b.host.changes < crash {
			if crash < 25 {
				t.Fatalf("only %d changes", crash)
			}
			return
		}
		b.host.crashAt = 0
		converge(t, b.setup(t))
		nodetest.Equal(t, fmt.Sprintf("host after a crash at change %d", crash), b.describe(t), settledWith("breth1"))
	}
}

// What is wrong with the second bridge is said, and holds up nothing else.
func TestSecondBridge_ProblemDelaysNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		cause func(*testing.T, *bench)
		want  string
		waits bool
	}{
		"the gateway interface": {func(_ *testing.T, b *bench) { b.cfg.SecondInterface = "eth0" }, "interface eth0 is the gateway interface already, by bridge breth0", false},
		"the gateway bridge":    {func(_ *testing.T, b *bench) { b.cfg.SecondInterface = "breth0" }, "interface breth0 is the gateway interface already", false},
		"absent":                {func(_ *testing.T, b *bench) { b.cfg.SecondInterface = "eth9" }, "second external bridge: gateway interface eth9 is absent", true},
		"without an address": {func(t *testing.T, b *bench) {
			nodetest.Must(t, b.host.FakeNS.DeleteAddr("eth1", secondV4))
			nodetest.Must(t, b.host.FakeNS.DeleteAddr("eth1", secondV6))
		}, "gateway interface eth1 has no address", true},
		"the first one's network": {func(t *testing.T, b *bench) {
			nodetest.Must(t, b.host.FakeNS.ReplaceAddr("eth1", netip.MustParsePrefix("172.18.9.9/24"), netdev.AddrOptions{}))
			nodetest.Must(t, b.host.FakeNS.DeleteAddr("eth1", secondV4))
			nodetest.Must(t, b.host.FakeNS.DeleteRoute(netdev.Route{Dest: netip.MustParsePrefix("10.61.0.0/16"), NextHop: netip.MustParseAddr("10.60.0.9"), Link: "eth1"}))
		}, "172.18.9.9/24 of bridge breth1 is in the network of 172.18.0.3/16 of bridge breth0", false},
		"it cannot be opened": {func(_ *testing.T, b *bench) { b.db.refuse = "eth1" }, "could not open network device eth1", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSecondBench(t)
			c.cause(t, b)
			s := b.setup(t)
			var err error
			for range 6 {
				if err = s.pass(t.Context()); s.Ready() == nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, reconcile.ErrNotReady) != c.waits {
				t.Errorf("pass: %v, want %q, to be waited for: %t", err, c.want, c.waits)
			}
			if s.Ready() != nil || s.MTU() != 1442 {
				t.Errorf("the node is not ready: %v", s.Ready())
			}
			b.expect(t, "breth0")
			b.wantAnnotated(t, "physnet:breth0", "")
		})
	}
}

// A second NIC that comes later is taken over then.
func TestSecondBridge_LateNICIsTakenOver(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	b.cfg.SecondInterface = "eth1"
	s := b.setup(t)
	for range 6 {
		_ = s.pass(t.Context())
	}
	if !s.links.Matters(netdev.Event{Kind: netdev.LinkEvent, Link: "eth1"}) {
		t.Error("the set-up does not wait for eth1")
	}
	b.addSecond(t)
	converge(t, s)
	nodetest.Equal(t, "host", b.describe(t), settledWith("breth1"))
}

// While ovs-vswitchd does not run, the address is on the NIC, and the Node has no annotation of a bridge.
func TestSecondBridge_FailsBackWithoutVswitchd(t *testing.T) {
	b := newSecondBench(t)
	s := b.setup(t)
	converge(t, s)
	nodetest.Must(t, b.setup(t).FailBack(t.Context()))
	for link, want := range map[string]int{"eth1": 2, "breth1": 0} {
		if addrs, err := b.host.Addrs(link); err != nil || len(addrs) != want {
			t.Errorf("%s has %v, %v", link, addrs, err)
		}
	}
	b.expect(t, "eth0")
	converge(t, s)
	nodetest.Equal(t, "host", b.describe(t), settledWith("breth1"))
	b.host.deadLink = "breth1"
	if err := s.pass(t.Context()); !errors.Is(err, reconcile.ErrNotReady) || s.Ready() != nil {
		t.Errorf("pass without the second bridge: %v, ready: %v", err, s.Ready())
	}
	b.wantAnnotated(t, "physnet:breth0", "")
	b.host.deadLink = ""
	converge(t, s)
	nodetest.Equal(t, "host", b.describe(t), settledWith("breth1"))
}

func TestSecondBridge_CleanupRestoresHost(t *testing.T) {
	b := newSecondBench(t)
	before := b.describe(t)
	s := b.setup(t)
	converge(t, s)
	for range 2 {
		nodetest.Must(t, s.Cleanup(t.Context()))
		nodetest.Equal(t, "host after the clean-up", b.describe(t), before)
	}
	if _, ok := b.db.settings["ovn-bridge-mappings"]; ok {
		t.Errorf("settings %v", b.db.settings)
	}
	if _, err := os.Stat(b.cfg.ofSecond().Checkpoint); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("checkpoint: %v", err)
	}
}

// A second bridge that the host brings is used as it is, and left as a switch.
func TestSecondBridge_UsesHostBridgeAsItIs(t *testing.T) {
	b := newSecondBench(t)
	b.cfg.SecondInterface = "br-ex"
	b.host.fake.AddLink("", netdev.Link{Name: "br-ex", Up: true, Carrier: true, MTU: 1500})
	nodetest.Must(t, b.host.FakeNS.DeleteAddr("eth1", secondV4))
	nodetest.Must(t, b.host.FakeNS.ReplaceAddr("br-ex", secondV4, netdev.AddrOptions{}))
	b.db.foreign = []any{
		&vswitch.Bridge{Name: "br-ex", Ports: []string{"p1", "p2"}}, &vswitch.Port{UUID: "p1", Name: "br-ex"}, &vswitch.Port{UUID: "p2", Name: "eth1"},
	}
	tables := flowTables{}
	setup := func() *Setup {
		s := b.setup(t)
		s.deps.Flows, s.second.deps.Flows = tables, tables
		return s
	}
	converge(t, setup())
	b.wantAnnotated(t, "physnet:breth0,exgwphysnet:br-ex", `,"exgw-interface-id":"br-ex_n1","exgw-mac-address":"`+b.mac(t, "br-ex")+`","exgw-ip-addresses":["10.60.0.3/24"]`)
	if len(tables["br-ex"]) < 3 || len(b.db.rows["SecondGateway/n1"]) != 0 {
		t.Errorf("br-ex has the flows %q, and rows of ours are %v", tables["br-ex"], b.db.rows["SecondGateway/n1"])
	}
	b.cfg.SecondInterface = ""
	converge(t, setup())
	b.wantAnnotated(t, "physnet:breth0", "")
	if !slices.Equal(tables["br-ex"], flows.Plain()) {
		t.Errorf("without the setting br-ex has the flows %q", tables["br-ex"])
	}
	tables["br-ex"] = []string{"its owner's"}
	converge(t, setup())
	if !slices.Equal(tables["br-ex"], []string{"its owner's"}) {
		t.Errorf("later br-ex has the flows %q", tables["br-ex"])
	}
}

func (b *bench) mac(t *testing.T, link string) string {
	t.Helper()
	l, err := b.host.Link(link)
	nodetest.Must(t, err)
	return l.MAC.String()
}
