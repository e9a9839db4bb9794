package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/device"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

func TestPodMTU_DerivedOrConfigured(t *testing.T) {
	v4, v6 := netip.MustParseAddr("172.18.0.3"), netip.MustParseAddr("fc00::3")
	pods4, dual := []contract.Family{contract.IPv4}, []contract.Family{contract.IPv4, contract.IPv6}
	for name, c := range map[string]struct {
		override, underlay int
		encap              netip.Addr
		pods               []contract.Family
		want               int
		err                string
	}{
		"derived, IPv4 tunnels":  {underlay: 1500, encap: v4, pods: pods4, want: 1442},
		"derived, IPv6 tunnels":  {underlay: 1500, encap: v6, pods: dual, want: 1422},
		"override that fits":     {override: 1400, underlay: 1500, encap: v4, pods: dual, want: 1400},
		"override just fits":     {override: 1442, underlay: 1500, encap: v4, pods: pods4, want: 1442},
		"override too large":     {override: 1443, underlay: 1500, encap: v4, pods: pods4, err: "1443 and the tunnel's 58 bytes are 1501, more than the underlay's MTU of 1500"},
		"underlay too small, v6": {underlay: 1337, encap: v4, pods: dual, err: "pod MTU 1279 (underlay 1337, tunnel 58) is below the least of 1280"},
		"small, but IPv4 only":   {underlay: 1337, encap: v4, pods: pods4, want: 1279},
		"underlay too small":     {underlay: 600, encap: v4, pods: pods4, err: "below the least of 576"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := node.PodMTU(c.override, c.underlay, c.encap, c.pods)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func TestEncapAddress_IsNodesAddressInConfiguredNetwork(t *testing.T) {
	node4, storage := netip.MustParsePrefix("172.18.0.3/16"), netip.MustParsePrefix("192.0.2.3/24")
	state := State{State: node.State{Addrs: map[string][]netip.Prefix{"breth0": {node4}, "eth1": {storage}}}}
	for network, want := range map[string]string{
		"192.0.2.0/24": "192.0.2.3", "172.18.0.3/32": "172.18.0.3", "198.51.100.0/24": "no interface has an encapsulation address in 198.51.100.0/24",
	} {
		got, err := encapAddress(Config{EncapNetwork: netip.MustParsePrefix(network)}, state, Gateway{Bridge: "breth0"})
		if text := fmt.Sprint(got, err); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", network, text, want)
		}
	}
}

func defaultRoute(link string, metric int) netdev.Route {
	return netdev.Route{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("172.18.0.1"), Link: link, Table: node.TableMain, Metric: metric}
}

func TestChooseGateway_RoutesAndSettingsDecide(t *testing.T) {
	links := map[string]netdev.Link{"eth0": {Name: "eth0"}, "eth1": {Name: "eth1"}, "bond0p1": {Name: "bond0p1", Master: 7}, "br-ex": {Name: "br-ex"},
		"enP22p3s0f0np0": {Name: "enP22p3s0f0np0"}, "enP22p3s0f0np1": {Name: "enP22p3s0f0np1"}, "enP22p3s0f0n": {Name: "enP22p3s0f0n"},
		"p0": {Name: "p0", Index: 3, Master: 9}, "pf0hpf": {Name: "pf0hpf", Index: 4}, "bond0": {Name: "bond0", Index: 9},
		"bond0.7": {Name: "bond0.7", Index: 10, Type: "vlan", Lower: 9}, "oob_net0": {Name: "oob_net0", Index: 11}, "oob_net0.7": {Name: "oob_net0.7", Index: 12, Type: "vlan", Lower: 11}}
	dpu := func(link string) State {
		return State{
			State: node.State{
				Routes: []netdev.Route{defaultRoute(link, 0)},
			}, Bridges: []string{"br-ex"}, Ports: map[string]string{"br-ex": "br-ex", "p0": "br-ex", "pf0hpf": "br-ex"},
			Eswitch: Eswitch{DPU: true, Uplinks: []string{"p0"}, Guests: []string{"pf0hpf"}},
		}
	}
	early := dpu("oob_net0")
	early.Eswitch = Eswitch{DPU: true}
	two := []netdev.Route{defaultRoute("eth1", 200), defaultRoute("eth0", 100)}
	for name, c := range map[string]struct {
		configured string
		encap      netip.Prefix
		state      State
		want       Gateway
		err        string
	}{
		"the better default route": {state: State{State: node.State{Routes: two}}, want: Gateway{"breth0", "eth0"}},
		"configured":               {configured: "eth1", state: State{State: node.State{Routes: two}}, want: Gateway{"breth1", "eth1"}},
		"no default route, the node's address": {
			state: State{State: node.State{Addrs: map[string][]netip.Prefix{"eth1": {nodeV4}}}, NodeAddrs: []netip.Addr{nodeV4.Addr()}}, want: Gateway{"breth1", "eth1"}},
		"the host's bridge has the route":      {state: State{State: node.State{Routes: []netdev.Route{defaultRoute("br-ex", 0)}}, Bridges: []string{"br-int", "br-ex"}}, want: Gateway{Bridge: "br-ex"}},
		"configured port of the host's bridge": {configured: "eth0", state: State{Bridges: []string{"br-int", "br-ex"}, Ports: map[string]string{"br-ex": "br-ex", "eth0": "br-ex"}}, want: Gateway{Bridge: "br-ex"}},
		"port of one of two bridges":           {configured: "eth0", state: State{Bridges: []string{"br-a", "br-b"}, Ports: map[string]string{"eth0": "br-b"}}, want: Gateway{Bridge: "br-b"}},
		"port of the integration bridge":       {configured: "eth0", state: State{Bridges: []string{"br-int", "br-b"}, Ports: map[string]string{"eth0": "br-int"}}, err: "it is a port of br-int"},
		"taken over":                           {state: State{Saved: &Checkpoint{Identity: device.Identity{Interface: "eth0"}, Bridge: "breth0"}}, want: Gateway{"breth0", "eth0"}},
		"another one is taken over":            {configured: "eth1", state: State{Saved: &Checkpoint{Identity: device.Identity{Interface: "eth0"}, Bridge: "breth0"}}, err: "eth0 is taken over already"},
		"our bridge, its file lost": {state: State{State: node.State{Routes: []netdev.Route{defaultRoute("breth0", 0)}, Ours: map[string]bool{"breth0": true}}, Bridges: []string{"breth0"}},
			want: Gateway{"breth0", "eth0"}},
		"port of a bond":                               {configured: "bond0p1", err: "port of another device"},
		"a name of 14 characters":                      {configured: "enP22p3s0f0np0", want: Gateway{"brenP22p3b56b89", "enP22p3s0f0np0"}},
		"one that differs at the end":                  {configured: "enP22p3s0f0np1", want: Gateway{"brenP22p34299e9", "enP22p3s0f0np1"}},
		"a name of 12 characters":                      {configured: "enP22p3s0f0n", want: Gateway{"brenP22p3s0f0n", "enP22p3s0f0n"}},
		"our bridge of a long name, its file lost":     {state: State{State: node.State{Routes: []netdev.Route{defaultRoute("brenP22p3b56b89", 0)}, Ours: map[string]bool{"brenP22p3b56b89": true}}, Bridges: []string{"brenP22p3b56b89"}}, want: Gateway{"brenP22p3b56b89", "enP22p3s0f0np0"}},
		"DPU, the uplink's bridge has the route":       {state: dpu("br-ex"), want: Gateway{Bridge: "br-ex"}},
		"DPU, a bond of the uplink":                    {state: dpu("bond0"), want: Gateway{"brbond0", "bond0"}},
		"DPU, a VLAN on that bond":                     {state: dpu("bond0.7"), want: Gateway{"brbond0.7", "bond0.7"}},
		"DPU, the administration's port":               {state: dpu("oob_net0"), err: "oob_net0, which has the default route, is not on an uplink of the NIC with the host's functions (p0)"},
		"DPU, a VLAN on the administration's port":     {state: dpu("oob_net0.7"), err: "not on an uplink"},
		"DPU, the administration's port is configured": {configured: "oob_net0", state: dpu("oob_net0"), want: Gateway{"broob_net0", "oob_net0"}},
		"DPU, tunnels end elsewhere":                   {encap: nodeV4.Masked(), state: dpu("oob_net0"), want: Gateway{"broob_net0", "oob_net0"}},
		"DPU, its NIC is not known yet":                {state: early, err: "no NIC in switchdev mode has functions of the host yet"},
		"absent":                                       {configured: "eth9", err: "absent"},
		"nothing to find":                              {err: "no default route"},
	} {
		t.Run(name, func(t *testing.T) {
			c.state.Links = links
			got, err := chooseGateway(Config{GatewayInterface: c.configured, EncapNetwork: c.encap}, c.state)
			if err != nil && c.err != "" && strings.Contains(err.Error(), c.err) {
				return
			}
			if err != nil || c.err != "" || got != c.want {
				t.Errorf("got %+v, %v; want %+v, %q", got, err, c.want, c.err)
			}
		})
	}
}

// What an administrator changes on the bridge is followed; what a new link of
// the bridge lacks is restored; virtual addresses are their owner's alone.
func TestGateway_FollowsChangesByAdministrator(t *testing.T) {
	second, vip := netip.MustParsePrefix("172.18.0.33/16"), netip.MustParsePrefix("172.18.0.200/32")
	b := newBench(t)
	b.cfg.Zone.ServiceSubnets = nil // no masquerade addresses among the addresses
	b.ovnController()
	nodetest.Must(t, b.host.FakeNS.ReplaceAddr("eth0", vip, netdev.AddrOptions{}))
	s := b.setup(t)
	converge(t, s)
	addrs, err := b.host.Addrs("eth0")
	nodetest.Must(t, err)
	if diff := cmp.Diff([]string{vip.String()}, texts(addrs)); diff != "" {
		t.Errorf("eth0 (-want +got):\n%s", diff)
	}
	nodetest.Must(t, b.host.FakeNS.ReplaceAddr("breth0", second, netdev.AddrOptions{}))
	nodetest.Must(t, b.host.FakeNS.DeleteAddr("breth0", nodeV4))
	converge(t, s)
	b.removeSwitchLinks()
	b.makeSwitchLinks()
	converge(t, s)
	addrs, err = b.host.Addrs("breth0")
	nodetest.Must(t, err)
	if diff := cmp.Diff([]string{nodeV6.String(), second.String()}, texts(addrs)); diff != "" {
		t.Errorf("breth0 (-want +got):\n%s", diff)
	}
	// The last address of a family is not given up.
	nodetest.Must(t, b.host.FakeNS.DeleteAddr("breth0", second))
	converge(t, s)
	if addrs, _ = b.host.Addrs("breth0"); len(addrs) != 2 {
		t.Errorf("breth0 has %v", addrs)
	}
}

func texts(prefixes []netip.Prefix) []string {
	var out []string
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return out
}

func TestCheckpoint_IsRestoredWhenLost(t *testing.T) {
	b := newBench(t)
	before := b.describe(t)
	b.ovnController()
	converge(t, b.setup(t))
	nodetest.Must(t, os.Remove(b.cfg.Checkpoint))
	s := b.setup(t)
	converge(t, s)
	nodetest.Equal(t, "host", b.describe(t), settled)
	nodetest.Must(t, s.Cleanup(t.Context()))
	nodetest.Must(t, b.host.DeleteLink(contract.IntegrationBridge))
	nodetest.Equal(t, "host after the clean-up", b.describe(t), before)
}

// A bridge that the host brings is used as it is.
func TestGateway_UsesHostBridgeAsItIs(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	for _, addr := range []netip.Prefix{nodeV4, nodeV6} {
		nodetest.Must(t, b.host.FakeNS.DeleteAddr("eth0", addr))
	}
	b.host.fake.AddLink("", netdev.Link{Name: "br-ex", Up: true, Carrier: true, MTU: 1500})
	nodetest.Must(t, b.host.FakeNS.ReplaceAddr("br-ex", nodeV4, netdev.AddrOptions{}))
	nodetest.Must(t, b.host.FakeNS.ReplaceRoute(defaultRoute("br-ex", 0)))
	b.db.foreign = []any{
		&vswitch.Bridge{Name: "br-ex", Ports: []string{"p1", "p2"}}, &vswitch.Port{UUID: "p1", Name: "br-ex"}, &vswitch.Port{UUID: "p2", Name: "eth0"},
	}
	s := b.setup(t)
	tables := flowTables{}
	s.deps.Flows = tables
	converge(t, s)
	if len(tables["br-ex"]) < 3 {
		t.Errorf("br-ex has the flows %q", tables["br-ex"])
	}
	if len(b.db.rows["Node/n1"]) != 0 {
		t.Errorf("rows %v", b.db.rows)
	}
	if got := b.db.settings["ovn-bridge-mappings"]; got != "physnet:br-ex" {
		t.Errorf("bridge mappings %q", got)
	}
	if _, err := os.Stat(b.cfg.Checkpoint); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("checkpoint: %v", err)
	}
	nodetest.Must(t, s.Cleanup(t.Context()))
	if addrs, _ := b.host.Addrs("br-ex"); len(addrs) != 1 {
		t.Errorf("after the clean-up br-ex has %v", addrs)
	}
	if len(tables["br-ex"]) != 1 {
		t.Errorf("after the clean-up br-ex has the flows %q", tables["br-ex"])
	}
}

func TestUplink_OfOwnAndHostBridge(t *testing.T) {
	links := map[string]netdev.Link{"eth0": {Type: "device"}, "eth1": {Type: "device"}, "br-ex": {Type: "openvswitch"},
		"p0": {Type: "device"}, "pf0hpf": {Type: "device"}, "en3f0pf0sf0": {Type: "device"}}
	for name, test := range map[string]struct {
		cfg   Config
		state State
		g     Gateway
		want  string
	}{
		"ours":             {g: Gateway{Bridge: "breth0", NIC: "eth0"}, want: "eth0"},
		"the only NIC":     {state: State{State: node.State{Links: links}, Bridges: []string{"br-ex"}, Ports: on("br-ex", "br-ex", "eth0")}, g: Gateway{Bridge: "br-ex"}, want: "eth0"},
		"two NICs":         {state: State{State: node.State{Links: links}, Bridges: []string{"br-ex"}, Ports: on("br-ex", "br-ex", "eth0", "eth1")}, g: Gateway{Bridge: "br-ex"}},
		"none":             {state: State{State: node.State{Links: links}, Bridges: []string{"br-ex"}, Ports: on("br-ex", "br-ex")}, g: Gateway{Bridge: "br-ex"}},
		"two, one is ours": {state: State{State: node.State{Links: links, Ours: map[string]bool{"eth0": true}}, Ports: on("br-ex", "eth0", "eth1")}, g: Gateway{Bridge: "br-ex"}, want: "eth1"},
		"named": {state: State{State: node.State{Links: links}, Ports: on("br-ex", "eth0", "eth1"), Uplinks: map[string]string{"br-ex": "eth1"}},
			g: Gateway{Bridge: "br-ex"}, want: "eth1"},
		"a representor of a pod": {state: State{State: node.State{Links: links}, Ports: map[string]string{"eth0": "br-ex", "eth1": contract.IntegrationBridge}}, g: Gateway{Bridge: "br-ex"}, want: "eth0"},
		"a bridge of a DPU as delivered": {
			state: State{State: node.State{Links: links}, Ports: on("ovsbr1", "p0", "pf0hpf", "en3f0pf0sf0"), Eswitch: Eswitch{Functions: []string{"en3f0pf0sf0", "pf0hpf"}}},
			g:     Gateway{Bridge: "ovsbr1"}, want: "p0"},
		"the same, of unknown switches": {state: State{State: node.State{Links: links}, Ports: on("ovsbr1", "p0", "pf0hpf", "en3f0pf0sf0")}, g: Gateway{Bridge: "ovsbr1"}},
		"configured":                    {cfg: Config{GatewayInterface: "eth1"}, state: State{State: node.State{Links: links}, Ports: on("br-ex", "eth0", "eth1")}, g: Gateway{Bridge: "br-ex"}, want: "eth1"},
	} {
		got, err := uplinkOf(test.cfg, test.state, test.g)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, test.want)
		}
	}
}

// on gives the ports of a bridge.
func on(bridge string, ports ...string) map[string]string {
	out := map[string]string{}
	for _, port := range ports {
		out[port] = bridge
	}
	return out
}

// Before Kubernetes has named the node nothing is touched.
func TestSetup_UnknownNodeChangesNothing(t *testing.T) {
	b := newBench(t)
	b.object = nil
	before := b.describe(t)
	if err := b.setup(t).pass(t.Context()); !errors.Is(err, reconcile.ErrNotReady) {
		t.Errorf("pass: %v", err)
	}
	nodetest.Equal(t, "host", b.describe(t), before)
}

// TestCheckpoint_OfEarlierAgentIsTakenOver: with the checkpoint of an agent before pkg/node
// was split, a node is neither taken over again nor changed.
func TestCheckpoint_OfEarlierAgentIsTakenOver(t *testing.T) {
	b := newVFBench(t)
	converge(t, b.setup(t))
	b.give()
	converge(t, b.setup(t))
	before := b.describe(t)
	want, err := loadCheckpoint(b.cfg.Checkpoint)
	nodetest.Must(t, err)
	earlier, err := os.ReadFile("testdata/checkpoint.json")
	nodetest.Must(t, err)
	nodetest.Must(t, os.WriteFile(b.cfg.Checkpoint, earlier, 0o600))
	converge(t, b.setup(t))
	nodetest.Equal(t, "host", b.describe(t), before)
	if saved, err := loadCheckpoint(b.cfg.Checkpoint); err != nil || !saved.equal(*want) {
		t.Errorf("the checkpoint is %+v, want %+v; %v", saved, want, err)
	}
}

func TestCheckpoint_RoundTripAndDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "node.json")
	if c, err := loadCheckpoint(path); c != nil || err != nil {
		t.Fatalf("no file: %v, %v", c, err)
	}
	want := Checkpoint{
		Identity: device.Identity{Interface: "eth0", Former: []string{"eth7"}, Devices: []string{"0000:03:00.0"}, Kind: "vlan", VLAN: 7}, Bridge: "breth0", MAC: []byte{2, 0, 0, 0, 0, 1}, MTU: 1500, Addresses: []netip.Prefix{nodeV4, nodeV6},
		Routes: []netdev.Route{defaultRoute("", 7), {Dest: netip.MustParsePrefix("10.0.0.0/8"), Table: 7}}, Verified: true, LastPlace: LastPlace{Index: 3},
		Sysctls: map[string]string{"a": "1"}, Baseline: []string{"api"},
	}
	nodetest.Must(t, durable.Save(path, want))
	got, err := loadCheckpoint(path)
	nodetest.Must(t, err)
	if diff := cmp.Diff(want, *got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	nodetest.Must(t, os.WriteFile(path, []byte("{"), 0o600))
	if _, err := loadCheckpoint(path); err == nil {
		t.Error("a damaged checkpoint is taken for a whole one")
	}
}
