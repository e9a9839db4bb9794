package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Forget deletes the conntrack entries in zone 0 that are stale, by protocol ("udp" or
// "tcp"), who asked, where, and who answers, and says how many. Of TCP it deletes only
// entries without an answer, since TCP asks again. It reads the whole table.
func (n *NS) Forget(stale func(protocol string, client, asked, server netip.AddrPort) bool) (int, error) {
	handle, err := openHandle(n.ns, unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("opening conntrack: %w", err)
	}
	defer func() { _ = handle.Close() }()
	var errs []error
	ended := 0
	for _, family := range []netlink.InetFamily{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		of, err := handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, staleEntry(stale))
		ended += int(of)
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting conntrack entries: %w", err))
		}
	}
	return ended, errors.Join(errs...)
}

type staleEntry func(protocol string, client, asked, server netip.AddrPort) bool

// MatchConntrackFlow is what netlink asks of each entry.
func (f staleEntry) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	protocol := "udp"
	tcp, _ := flow.ProtoInfo.(*netlink.ProtoInfoTCP)
	switch {
	case flow.Zone != 0:
		return false
	case flow.Forward.Protocol == unix.IPPROTO_TCP && tcp != nil && tcp.State == nl.TCP_CONNTRACK_SYN_SENT:
		protocol = "tcp"
	case flow.Forward.Protocol != unix.IPPROTO_UDP:
		return false
	}
	return f(protocol,
		netip.AddrPortFrom(toAddr(flow.Forward.SrcIP), flow.Forward.SrcPort), netip.AddrPortFrom(toAddr(flow.Forward.DstIP), flow.Forward.DstPort),
		netip.AddrPortFrom(toAddr(flow.Reverse.SrcIP), flow.Reverse.SrcPort),
	)
}
