package gateway

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/device"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// TestForesee_EachStageOfNode: what a Setup would begin with, from a bare host to one that has booted after a takeover.
func TestForesee_EachStageOfNode(t *testing.T) {
	address := netip.MustParsePrefix("192.0.2.10/24")
	cfg := Defaults()
	cfg.Network = nodetest.Network("10.244.0.0/16")
	host := func(on string) State {
		return State{State: node.State{
			Links: map[string]netdev.Link{
				"eth0":   {Name: "eth0", Index: 2, Type: "device", MTU: 1500},
				"breth0": {Name: "breth0", Index: 9, Type: "openvswitch", MTU: 1500},
				"br-ex":  {Name: "br-ex", Index: 10, Type: "openvswitch", MTU: 9000},
			},
			Addrs:  map[string][]netip.Prefix{on: {address}},
			Routes: []netdev.Route{{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("192.0.2.1"), Link: on, Table: node.TableMain}},
		}}
	}
	saved := &Checkpoint{Identity: device.Identity{Interface: "eth0"}, Bridge: "breth0", MTU: 1500, Verified: true, LastPlace: LastPlace{Index: 9}}
	for name, tt := range map[string]struct {
		on        string
		change    func(*Config, *State)
		bridge    string
		nic       string
		mtu       int
		takenOver bool
		problem   string
	}{
		"bare":          {"eth0", func(*Config, *State) {}, "breth0", "eth0", 1442, false, ""},
		"taken over":    {"breth0", func(_ *Config, s *State) { s.Saved = saved }, "breth0", "eth0", 1442, true, ""},
		"booted since":  {"eth0", func(_ *Config, s *State) { s.Saved = saved }, "breth0", "eth0", 1442, true, ""},
		"host's bridge": {"br-ex", func(*Config, *State) {}, "br-ex", "", 8942, false, ""},
		"absent NIC":    {"eth0", func(c *Config, _ *State) { c.GatewayInterface = "ens1" }, "", "", 0, false, "gateway interface ens1 is absent"},
		"no address":    {"br-ex", func(c *Config, _ *State) { c.GatewayInterface = "eth0" }, "breth0", "eth0", 0, false, "eth0 has no address"},
		"a port of OVS": {"br-ex", func(c *Config, s *State) {
			c.GatewayInterface = "eth0"
			s.Links["ovs-system"] = netdev.Link{Name: "ovs-system", Index: 5}
			s.Links["eth0"] = netdev.Link{Name: "eth0", Index: 2, Master: 5, MTU: 1500}
		}, "of eth0", "", 0, false, ""},
	} {
		c, s := cfg, host(tt.on)
		tt.change(&c, &s)
		o := foresee(c, s)
		problem := ""
		if o.Problem != nil {
			problem = o.Problem.Error()
		}
		if o.Bridge != tt.bridge || o.NIC != tt.nic || o.MTU != tt.mtu || o.TakenOver != tt.takenOver || (problem == "") != (tt.problem == "") || !strings.Contains(problem, tt.problem) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
