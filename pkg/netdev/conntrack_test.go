package netdev_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

func TestForget_StaleUDPAndUnansweredTCPOnly(t *testing.T) {
	ns := open(t, netdevtest.NewNS(t))
	handle, err := netlink.NewHandleAt(ns.Handle(), unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = handle.Close() })
	for port, entry := range map[uint16]netlink.ConntrackFlow{
		1: {Forward: netlink.IPTuple{Protocol: unix.IPPROTO_UDP}},
		2: {Forward: netlink.IPTuple{Protocol: unix.IPPROTO_UDP}}, // not stale
		3: {Forward: netlink.IPTuple{Protocol: unix.IPPROTO_UDP}, Zone: 7},
		4: {Forward: netlink.IPTuple{Protocol: unix.IPPROTO_TCP}, ProtoInfo: &netlink.ProtoInfoTCP{State: nl.TCP_CONNTRACK_SYN_SENT}},
		5: {Forward: netlink.IPTuple{Protocol: unix.IPPROTO_TCP}, ProtoInfo: &netlink.ProtoInfoTCP{State: nl.TCP_CONNTRACK_ESTABLISHED}},
	} {
		client, server := net.IPv4(10, 0, 0, 1), net.IPv4(10, 0, 0, 2)
		entry.FamilyType, entry.TimeOut = unix.AF_INET, 100
		entry.Forward.SrcIP, entry.Forward.DstIP, entry.Forward.SrcPort, entry.Forward.DstPort = client, server, 4000, port
		entry.Reverse = netlink.IPTuple{Protocol: entry.Forward.Protocol, SrcIP: server, DstIP: client, SrcPort: port, DstPort: 4000}
		if err := handle.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, &entry); err != nil {
			t.Fatalf("entry %d: %v", port, err)
		}
	}
	ended, err := ns.Forget(func(_ string, _, asked, _ netip.AddrPort) bool { return asked.Port() != 2 })
	if ended != 2 || err != nil {
		t.Errorf("%d entries deleted, %v; want 2", ended, err)
	}
	left, err := handle.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	if err != nil {
		t.Fatal(err)
	}
	var ports []uint16
	for _, flow := range left {
		ports = append(ports, flow.Forward.DstPort)
	}
	slices.Sort(ports)
	if diff := cmp.Diff([]uint16{2, 3, 5}, ports); diff != "" {
		t.Error(diff)
	}
}
