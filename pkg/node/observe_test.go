package node_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// TestObserveHost_RequestsDoNotGrowWithLinks: each netlink request takes the kernel's lock of links, and a host with VFs
// has two links for each.
func TestObserveHost_RequestsDoNotGrowWithLinks(t *testing.T) {
	netdevtest.SameRequests(t, func(own *netdev.NS, links int) {
		h := node.Host{Deps: node.Deps{Netns: node.Local{NS: own}}}
		var st node.State
		if err := h.ObserveHost(&st); err != nil || len(st.Links) != links {
			t.Errorf("%d links, want %d; %v", len(st.Links), links, err)
		}
	})
}

// TestObserveHost_LinkLocalAddressesOfAdministrator: one with scope global is an address of the node, one with scope
// link is not, and one within the masquerade subnets is a conflict, unless it is the agent's.
func TestObserveHost_LinkLocalAddressesOfAdministrator(t *testing.T) {
	path := netdevtest.NewNS(t)
	handle := netdevtest.Handle(t, path)
	for link, addrs := range map[string][]netlink.Addr{
		"nodelocaldns": {{IPNet: ipNet(t, "169.254.20.10/32")}, {IPNet: ipNet(t, "169.254.200.1/32")}, {IPNet: ipNet(t, "192.0.2.77/32")}},
		"eth0":         {{IPNet: ipNet(t, "172.18.0.3/16")}, {IPNet: ipNet(t, "169.254.201.1/16"), Scope: int(netlink.SCOPE_LINK)}},
		"breth0":       {{IPNet: ipNet(t, "169.254.0.2/17")}, {IPNet: ipNet(t, "fd69::2/112")}, {IPNet: ipNet(t, "fd69::20/128")}},
	} {
		nodetest.Must(t, handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: link}}))
		made, err := handle.LinkByName(link)
		nodetest.Must(t, err)
		for i := range addrs {
			nodetest.Must(t, handle.AddrAdd(made, &addrs[i]))
		}
	}
	ns, err := netdev.Open(path)
	nodetest.Must(t, err)
	t.Cleanup(func() { _ = ns.Close() })
	h := node.Host{
		Config: node.Config{Zone: contract.Zone{MasqueradeSubnets: nodetest.Prefixes("169.254.0.0/17", "fd69::/112")}},
		Deps:   node.Deps{Netns: node.Local{NS: ns}},
	}
	if h.MasqueradeProblem() != nil {
		t.Errorf("before a look: %v", h.MasqueradeProblem())
	}
	var st node.State
	nodetest.Must(t, h.ObserveHost(&st))
	nodetest.Equal(t, "host-cidrs", fmt.Sprint(st.HostCIDRs()), "[169.254.200.1/32 172.18.0.3/16 192.0.2.77/32]")
	nodetest.Equal(t, "problem", fmt.Sprint(h.MasqueradeProblem()), "pods do not reach an address of the node: breth0 has fd69::20, within the masquerade subnet fd69::/112, "+
		"nodelocaldns (NodeLocal DNSCache) has 169.254.20.10, within the masquerade subnet 169.254.0.0/17; set network.masqueradeCIDRs to a range that is not in use")
	h.Config.Zone.MasqueradeSubnets = nodetest.Prefixes("198.18.0.0/17", "fd6a::/112")
	nodetest.Must(t, h.ObserveHost(&st))
	if !slices.Contains(st.HostCIDRs(), netip.MustParsePrefix("169.254.20.10/32")) || h.MasqueradeProblem() != nil {
		t.Errorf("with another masquerade subnet: %v, %v", st.HostCIDRs(), h.MasqueradeProblem())
	}
}

func ipNet(t *testing.T, prefix string) *net.IPNet {
	t.Helper()
	addr, err := netlink.ParseIPNet(prefix)
	nodetest.Must(t, err)
	return addr
}

// TestHost_CarriedMTU: what leaves the node by tunnels, whatever MTU pods are given, and by the bridge of a localnet.
func TestHost_CarriedMTU(t *testing.T) {
	var h node.Host
	links := netdevtest.NewFake()
	links.AddLink("", netdev.Link{Name: "br-tenants", MTU: 9000})
	host, err := links.Open("")
	nodetest.Must(t, err)
	carried := func() string {
		const mappings = "physnet:breth0,tenants:br-tenants"
		return fmt.Sprint(h.CarriedMTU(mappings, "", host), h.CarriedMTU(mappings, "tenants", host), h.CarriedMTU(mappings, "physnet", host), h.CarriedMTU(mappings, "other", host))
	}
	nodetest.Equal(t, "before the set-up", carried(), "0 9000 0 0")
	for encap, want := range map[string]string{"172.18.0.3": "8942 9000 0 0", "fd00::3": "8922 9000 0 0"} {
		mtu, err := h.PodMTU(1400, 9000, netip.MustParseAddr(encap), nil)
		nodetest.Must(t, err)
		nodetest.Equal(t, "pods have", fmt.Sprint(mtu), "1400")
		nodetest.Equal(t, "tunnels at "+encap, carried(), want)
	}
}
