package device

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

const (
	nicAddress   = "0000:03:00.0"
	otherAddress = "0000:04:00.0"
)

var address = netip.MustParsePrefix("172.18.0.3/16")

func TestFind_FollowsDevices(t *testing.T) {
	mac, other := []byte{2, 0, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 0, 2}
	port := func(name string, index int, device string, mac []byte) netdev.Link {
		return netdev.Link{Name: name, Index: index, Type: "device", Parent: device, MAC: mac}
	}
	vlan := func(name string, lower, id int) netdev.Link {
		return netdev.Link{Name: name, Index: 20 + id, Type: "vlan", Lower: lower, VLAN: id, MAC: mac}
	}
	member := func(l netdev.Link, master int) netdev.Link { l.Master = master; return l }
	nic := Identity{Interface: "eth0", Devices: []string{nicAddress}, Kind: "device"}
	tagged := Identity{Interface: "eth0.7", Devices: []string{nicAddress}, Kind: "vlan", VLAN: 7}
	bond := Identity{Interface: "bond0", Devices: []string{nicAddress, "0000:03:00.1"}, Kind: "bond"}
	for name, c := range map[string]struct {
		saved     Identity
		links     []netdev.Link
		functions []string
		addrs     map[string][]netip.Prefix
		want, err string
	}{
		"the same name":                     {saved: nic, links: []netdev.Link{port("eth0", 2, nicAddress, other), port("eno1", 3, otherAddress, mac)}, want: "eth0"},
		"another name":                      {saved: nic, links: []netdev.Link{port("eno1", 2, nicAddress, other)}, want: "eno1"},
		"two names exchanged":               {saved: nic, links: []netdev.Link{port("eth1", 2, nicAddress, mac), port("eth0", 3, otherAddress, other)}, want: "eth1"},
		"a representor has the former name": {saved: nic, links: []netdev.Link{port("eth0", 3, nicAddress, other), port("eno1", 2, nicAddress, mac)}, functions: []string{"eth0"}, want: "eno1"},
		"several ports of a device":         {saved: nic, links: []netdev.Link{port("p0", 2, nicAddress, other), port("p1", 3, nicAddress, mac)}, want: "p1"},
		"several without the MAC":           {saved: nic, links: []netdev.Link{port("p0", 2, nicAddress, other), port("p1", 3, nicAddress, other)}, err: "has another name: one of p0, p1"},
		"a VLAN on the renamed NIC":         {saved: tagged, links: []netdev.Link{port("eno1", 2, nicAddress, mac), vlan("eno1.7", 2, 7), vlan("eno1.8", 2, 8)}, want: "eno1.7"},
		"a VLAN on another NIC":             {saved: tagged, links: []netdev.Link{{Name: "eth0.7", Index: 27, Type: "vlan", Lower: 3, VLAN: 7, MAC: other}, port("eth0", 3, otherAddress, other)}, err: "is another NIC"},
		"a bond with another name":          {saved: bond, links: []netdev.Link{{Name: "lag", Index: 9, Type: "bond"}, member(port("p0", 2, nicAddress, mac), 9), member(port("p1", 3, "0000:03:00.1", mac), 9)}, want: "lag"},
		"a bond without one of its ports":   {saved: bond, links: []netdev.Link{{Name: "lag", Index: 9, Type: "bond"}, member(port("p1", 3, "0000:03:00.1", mac), 9)}, want: "lag"},
		"in another slot, with its MAC":     {saved: nic, links: []netdev.Link{port("eth0", 2, otherAddress, mac)}, want: "eth0"},
		"in another slot, with the address": {saved: nic, links: []netdev.Link{port("eth0", 2, otherAddress, other)}, addrs: map[string][]netip.Prefix{"eth0": {address}}, want: "eth0"},
		"another NIC":                       {saved: nic, links: []netdev.Link{port("eth0", 2, otherAddress, other)}, err: "is another NIC"},
		"absent":                            {saved: nic, links: []netdev.Link{port("eno2", 2, otherAddress, other)}, want: "eth0"},
		"a kernel without devices of links": {saved: nic, links: []netdev.Link{port("eth0", 2, "", other)}, want: "eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := node.State{Links: map[string]netdev.Link{}, Addrs: c.addrs}
			for _, l := range c.links {
				s.Links[l.Name] = l
			}
			got, err := c.saved.Find(s, Traits{MAC: mac, Addresses: []netip.Prefix{address}, Others: c.functions})
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

// TestRecord_BondKeepsLostPort: a bond is found by any of its ports, also by one that it has lost for a while.
func TestRecord_BondKeepsLostPort(t *testing.T) {
	s := node.State{Links: map[string]netdev.Link{
		"bond0": {Name: "bond0", Index: 9, Type: "bond"},
		"p0":    {Name: "p0", Index: 2, Parent: nicAddress, Master: 9}, "p1": {Name: "p1", Index: 3, Parent: otherAddress, Master: 9},
		"bond0.7": {Name: "bond0.7", Index: 10, Type: "vlan", Lower: 9, VLAN: 7},
	}}
	i := Identity{Interface: "bond0.7"}
	i.Record(s)
	delete(s.Links, "p0")
	i.Record(s)
	if want := []string{nicAddress, otherAddress}; !slices.Equal(i.Devices, want) || i.Kind != "vlan" || i.VLAN != 7 {
		t.Errorf("%+v, want the devices %v", i, want)
	}
}
