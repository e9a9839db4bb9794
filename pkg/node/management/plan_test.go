package management

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// TestPlanFunction_ManagementPortIsVF: a VF is the management port, on a node that has both of its
// ends, on a DPU and on its host.
func TestPlanFunction_ManagementPortIsVF(t *testing.T) {
	const device = "0000:03:00.2"
	mac, _ := net.ParseMAC("02:00:00:00:00:05")
	cfg := node.Config{
		Node: "n1", Network: nodetest.Network("10.244.0.0/16"),
		Zone: contract.Zone{ServiceSubnets: nodetest.Prefixes("10.96.0.0/16", "fd00:96::/112")},
	}
	unused := netdev.Link{Name: "eth5", Index: 5, MTU: 1500, MAC: mac, Parent: device, Up: true}
	borrowed := unused
	borrowed.Name, borrowed.Alias = node.ManagementInterface, borrowedAlias+"eth5 02:00:00:00:00:05 1500"
	internal := netdev.Link{Name: node.ManagementInterface, Type: "openvswitch"}
	bridge, rep := netdev.Link{Name: contract.IntegrationBridge}, netdev.Link{Name: "rep2", MTU: 1500}
	both := &node.VF{Device: device, Representor: "rep2"}
	addresses := []string{
		"set link ovn-k8s-mp0 mtu 1400 mac 0a:58:0a:f4:01:02", "add address 10.244.1.2/24 to ovn-k8s-mp0",
		"add route 10.244.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0", "pin neighbour 10.244.1.1 of ovn-k8s-mp0",
	}
	restored := func(name string) []string {
		return []string{"set link ovn-k8s-mp0 mtu 1500 mac 02:00:00:00:00:05 down", "rename link ovn-k8s-mp0 to " + name, "set link " + name + " noalias"}
	}
	taken := []string{`set link eth5 alias "ovn-offload management port, was eth5 02:00:00:00:00:05 1500" down`, "rename link eth5 to ovn-k8s-mp0"}
	for name, c := range map[string]struct {
		function *node.VF
		links    []netdev.Link
		ours     string
		want     []string
		waiting  string
	}{
		"both ends, first pass": {both, []netdev.Link{bridge, rep, unused}, "",
			append([]string{"commit rows of ManagementPort/n1: rep2", "set link rep2 mtu 1400 up"}, taken...), "has just got its name"},
		"both ends, second pass": {both, []netdev.Link{bridge, {Name: "rep2", MTU: 1400, Up: true, NoARP: true}, borrowed}, "rep2", addresses, ""},
		"in place of an internal port": {both, []netdev.Link{bridge, rep, unused, internal}, node.ManagementInterface,
			[]string{"commit rows of ManagementPort/n1: rep2", "set link rep2 mtu 1400 up"}, "is a link of type openvswitch still"},
		"no representor": {both, []netdev.Link{bridge, unused}, "", []string{"commit rows of ManagementPort/n1: rep2"}, "representor rep2 is absent"},
		"DPU":            {&node.VF{Representor: "rep2"}, []netdev.Link{bridge, rep}, "rep2", []string{"set link rep2 mtu 1400 up"}, ""},
		"host":           {&node.VF{Device: device}, []netdev.Link{unused}, "", taken, "has just got its name"},
		"host, second pass": {&node.VF{Device: device}, []netdev.Link{borrowed}, "",
			append(append(addresses[:3:3], "add route 10.96.0.0/16 via 10.244.1.1 dev ovn-k8s-mp0"), addresses[3]), ""},
		"host, VF is absent": {&node.VF{Device: device}, nil, "", nil, "VF 0000:03:00.2, which is to be ovn-k8s-mp0, has no netdev here"},
		"another VF":         {&node.VF{Device: "0000:03:00.3"}, []netdev.Link{borrowed}, "", restored("eth5"), "was a VF's name"},
		"subnets of namespaces": {&node.VF{Representor: "rep2", Device: device}, []netdev.Link{bridge, {Name: "rep2", MTU: 1400, Up: true, NoARP: true}, borrowed}, "rep2",
			append(append(addresses[:3:3], "add route 10.9.0.0/24 via 10.244.1.1 dev ovn-k8s-mp0"), addresses[3]), ""},
		"none any more, former name in use":   {nil, []netdev.Link{bridge, borrowed, {Name: "eth5", Index: 9}}, "rep2", restored("dev5"), "was a VF's name"},
		"none any more, a further name of it": {nil, []netdev.Link{bridge, borrowed, {Name: "p0", Index: 9, AltNames: []string{"eth5"}}}, "rep2", restored("dev5"), "was a VF's name"},
		"none any more":                       {nil, []netdev.Link{bridge, borrowed}, "rep2", restored("eth5"), "was a VF's name"},
	} {
		t.Run(name, func(t *testing.T) {
			s := state{
				State: node.State{Links: map[string]netdev.Link{}, Ours: map[string]bool{c.ours: true},
					Subnets: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
				},
				VF: c.function,
			}
			if name == "subnets of namespaces" {
				s.Namespaces = []contract.NamespaceSubnet{{Prefixes: nodetest.Prefixes("10.9.0.0/24", "fd09::/64")}}
			}
			for _, l := range c.links {
				s.Links[l.Name] = l
			}
			steps, err := plan(cfg, s, 1400)
			var got []string
			for _, step := range steps {
				got = append(got, step.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (c.waiting == "") || err != nil && !strings.Contains(err.Error(), c.waiting) {
				t.Errorf("waits: %v, want %q", err, c.waiting)
			}
		})
	}
}

func TestParseBorrowed_ValidAndInvalid(t *testing.T) {
	mac, _ := net.ParseMAC("02:00:00:00:00:05")
	want := borrowed{"enp3s0f0v2", mac, 1500}
	if got, ok := parseBorrowed(want.String()); !ok || got.String() != want.String() {
		t.Errorf("%+v, %t", got, ok)
	}
	for _, alias := range []string{"", "sandbox 1", borrowedAlias, borrowedAlias + "eth0 x 1500", borrowedAlias + "eth0 02:00:00:00:00:05"} {
		if got, ok := parseBorrowed(alias); ok {
			t.Errorf("%q is read as %+v", alias, got)
		}
	}
}
