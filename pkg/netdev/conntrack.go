package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ForgetUDP deletes the conntrack entries of UDP in zone 0 that are stale, by who
// asked, where, and who answers, and says how many. It reads the whole table.
func (n *NS) ForgetUDP(stale func(client, asked, server netip.AddrPort) bool) (int, error) {
	handle, err := netlink.NewHandleAt(n.ns, unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("opening conntrack: %w", err)
	}
	defer func() { _ = handle.Close() }()
	var errs []error
	ended := 0
	for _, family := range []netlink.InetFamily{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		of, err := handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, staleUDP(stale))
		ended += int(of)
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting conntrack entries: %w", err))
		}
	}
	return ended, errors.Join(errs...)
}

type staleUDP func(client, asked, server netip.AddrPort) bool

// MatchConntrackFlow is what netlink asks of each entry.
func (f staleUDP) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP || flow.Zone != 0 {
		return false
	}
	return f(
		netip.AddrPortFrom(toAddr(flow.Forward.SrcIP), flow.Forward.SrcPort), netip.AddrPortFrom(toAddr(flow.Forward.DstIP), flow.Forward.DstPort),
		netip.AddrPortFrom(toAddr(flow.Reverse.SrcIP), flow.Reverse.SrcPort),
	)
}
