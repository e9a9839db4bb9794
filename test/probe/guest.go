package main

import (
	"net"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"
)

// guest is the first process of a virtual machine: it gives its only network card an address of IPv4, which it asks for by DHCP
// when the address is "dhcp", and serves.
func guest(address, port string, name []string) error {
	card, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(card); err != nil {
		return err
	}
	if address == "dhcp" {
		if err := takeLease(card); err != nil {
			return err
		}
		return serve(port, name)
	}
	own, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(card, own); err != nil {
		return err
	}
	return serve(port, name)
}

// takeLease gives a card what the first answer of a DHCP server says.
func takeLease(card netlink.Link) error {
	got, err := requested(card.Attrs().Name, time.Minute, nclient4.WithRetry(20))
	if err != nil {
		return err
	}
	own := &netlink.Addr{IPNet: &net.IPNet{IP: got.ACK.YourIPAddr, Mask: got.ACK.SubnetMask()}}
	if err := netlink.AddrAdd(card, own); err != nil {
		return err
	}
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, got.ACK.Options); err == nil {
		if err := netlink.LinkSetMTU(card, int(mtu)); err != nil {
			return err
		}
	}
	for _, router := range got.ACK.Router() {
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: card.Attrs().Index, Gw: router}); err != nil {
			return err
		}
	}
	return nil
}
