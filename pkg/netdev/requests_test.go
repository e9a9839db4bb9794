package netdev_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// asksForVFs reports whether a request for links wants those of the VFs of each PF as well.
func asksForVFs(r netdevtest.Request) bool {
	attributes, err := nl.ParseRouteAttrAsMap(r.Data[min(len(r.Data), unix.SizeofIfInfomsg):])
	mask := attributes[unix.IFLA_EXT_MASK].Value
	return err == nil && len(mask) == 4 && binary.NativeEndian.Uint32(mask)&nl.RTEXT_FILTER_VF != 0
}

// TestRequests_AskForNoVFs goes through all that speaks of links: an answer with the VFs' statistics costs a command of
// the firmware for each VF under the kernel's lock of links, and from 222 VFs on it does not fit its message.
func TestRequests_AskForNoVFs(t *testing.T) {
	podPath := netdevtest.NewNS(t)
	sent := netdevtest.Requests(t, netdevtest.NewNS(t), func() { everyCall(t, podPath) })
	asked := netdevtest.OfType(sent, unix.NETLINK_ROUTE, unix.RTM_GETLINK)
	for _, r := range asked {
		if asksForVFs(r) {
			t.Errorf("a request for links, flags %#x, asks for the VFs: %x", r.Header.Flags, r.Data)
		}
	}
	if len(asked) < 15 {
		t.Errorf("%d requests for links: the recorder has missed some of %d", len(asked), len(sent))
	}
}

// TestRequests_DoNotGrowWithLinks: of no call.
func TestRequests_DoNotGrowWithLinks(t *testing.T) {
	sent := map[int]int{}
	for _, pairs := range []int{1, 64} {
		path, podPath := netdevtest.NewNS(t), netdevtest.NewNS(t)
		ns := open(t, path)
		for i := range pairs {
			must(t, ns.AddVeth(netdev.Veth{Name: fmt.Sprint("more", i), Peer: netdev.Peer{Name: fmt.Sprint("peers", i)}}))
		}
		sent[pairs] = len(netdevtest.Requests(t, path, func() { everyCall(t, podPath) }))
	}
	if sent[1] == 0 || sent[1] != sent[64] {
		t.Errorf("requests of all calls, by pairs of links: %v", sent)
	}
}

// everyCall makes each call that finds or lists links, in the thread's own namespace.
func everyCall(t *testing.T, podPath string) {
	ns, err := netdev.Open("")
	if err != nil {
		t.Error(err)
		return
	}
	defer ns.Close()
	d, err := netdev.OpenDevices(ns)
	if err != nil {
		t.Error(err)
		return
	}
	defer d.Close()
	v4 := netip.MustParsePrefix("10.244.1.5/24")
	check := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("AddVeth", ns.AddVeth(netdev.Veth{Name: "veth0", Alias: "ours", MTU: 1400, Peer: netdev.Peer{Name: "peer0", MAC: podMAC}}))
	check("SetLink", ns.SetLink("veth0", netdev.Settings{MTU: 1300, NoLinkLocal: true, NoARP: true, NoMaster: true, State: netdev.Up}))
	check("SetLink", ns.SetLink("peer0", netdev.Settings{NoFlags: true, State: netdev.Up}))
	link, err := ns.Link("veth0")
	check("Link", err)
	_, err = ns.Links()
	check("Links", err)
	check("ReplaceAddr", ns.ReplaceAddr("veth0", v4, netdev.AddrOptions{NoDAD: true}))
	_, err = ns.Addrs("veth0")
	check("Addrs", err)
	_, err = ns.AllAddrs()
	check("AllAddrs", err)
	_, err = netdev.Lifetimes(ns, "veth0")
	check("Lifetimes", err)
	route := netdev.Route{Dest: netip.MustParsePrefix("192.0.2.0/24"), NextHop: netip.MustParseAddr("10.244.1.1"), Link: "veth0"}
	check("ReplaceRoute", ns.ReplaceRoute(route))
	_, err = ns.Routes("veth0")
	check("Routes", err)
	check("DeleteRoute", ns.DeleteRoute(route))
	check("ReplaceNeighbor", ns.ReplaceNeighbor(netdev.Neighbor{Link: "veth0", Addr: netip.MustParseAddr("10.244.1.9"), MAC: podMAC}))
	_, err = ns.Counters("veth0")
	check("Counters", err)
	check("DeleteRules", ns.DeleteRules("veth0"))
	check("DeleteAddr", ns.DeleteAddr("veth0", v4))
	check("SetAltNames", ns.SetAltNames(link.Index, []string{"a-name-of-more-than-15-characters"}))
	_, err = ns.Link("a-name-of-more-than-15-characters")
	check("Link by a further name", err)
	if err := d.SetVFMAC("veth0", 0, net.HardwareAddr{2, 0, 0, 0, 0, 1}); err == nil || errors.Is(err, netdev.ErrNotFound) {
		t.Errorf("SetVFMAC of a link that is no PF: %v", err)
	}
	check("MoveLink", ns.MoveLink(netdev.Move{Index: link.Index, To: podPath, Name: "eth0"}))
	check("DeleteLink", ns.DeleteLink("peer0"))
}

// TestLinks_CostOneRequest: the kernel's lock of links is taken once, however many links there are.
func TestLinks_CostOneRequest(t *testing.T) {
	for _, pairs := range []int{4, 64} {
		path := netdevtest.NewNS(t)
		ns := open(t, path)
		for i := range pairs {
			must(t, ns.AddVeth(netdev.Veth{Name: fmt.Sprint("veth", i), Peer: netdev.Peer{Name: fmt.Sprint("peer", i)}}))
		}
		var links []netdev.Link
		sent := netdevtest.Requests(t, path, func() {
			own, err := netdev.Open("")
			if err != nil {
				t.Error(err)
				return
			}
			defer own.Close()
			links, err = own.Links()
			if err != nil {
				t.Error(err)
			}
			if _, err := own.AllAddrs(); err != nil {
				t.Error(err)
			}
		})
		if len(links) != 2*pairs+1 || len(sent) != 2 {
			t.Errorf("%d links and their addresses cost %d requests, want one for each list", len(links), len(sent))
		}
	}
}
