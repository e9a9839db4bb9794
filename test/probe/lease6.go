package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	"golang.org/x/sys/unix"
)

// lease6 asks for an address by DHCPv6 on a link, as a virtual machine does, and prints what it is given.
func lease6(link string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := nclient6.New(link)
	if err != nil {
		return err
	}
	defer client.Close()
	offer, err := client.Solicit(ctx)
	if err != nil {
		return err
	}
	got, err := client.Request(ctx, offer)
	if err != nil {
		return err
	}
	given := got.Options.OneIANA()
	if given == nil || given.Options.OneAddress() == nil {
		return fmt.Errorf("no address in %s", got.Summary())
	}
	_, err = fmt.Printf("%s dns=%v\n", given.Options.OneAddress().IPv6Addr, got.Options.DNS())
	return err
}

// solicit asks the routers of a link for an advertisement, and prints the first one.
func solicit(link string) error {
	iface, fd, err := discovery(link)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	second := unix.NsecToTimeval(timeout.Nanoseconds())
	if err := errors.Join(
		unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, link),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second),
	); err != nil {
		return err
	}
	question := append([]byte{133, 0, 0, 0, 0, 0, 0, 0, 1, 1}, iface.HardwareAddr...) // the kernel adds the checksum
	to := &unix.SockaddrInet6{Addr: [16]byte{0xff, 2, 15: 2}, ZoneId: uint32(iface.Index)}
	packet := make([]byte, 1500)
	for end := time.Now().Add(5 * timeout); time.Now().Before(end); {
		if err := unix.Sendto(fd, question, 0, to); err != nil {
			return err
		}
		for {
			n, from, err := unix.Recvfrom(fd, packet, 0)
			if err != nil {
				break // a second has passed: it asks again
			}
			if router, ok := from.(*unix.SockaddrInet6); ok && n >= 16 && packet[0] == 134 {
				fmt.Println(advertised(netip.AddrFrom16(router.Addr), packet[:n]))
				return nil
			}
		}
	}
	return errors.New("no router has advertised itself")
}

// advertised are the fields of a router's advertisement (RFC 4861, 4.2).
func advertised(router netip.Addr, packet []byte) string {
	text := fmt.Sprintf("router=%s managed=%t preference=%s lifetime=%t", router, packet[5]&0x80 != 0,
		map[byte]string{0: "medium", 1: "high", 3: "low"}[packet[5]>>3&3], binary.BigEndian.Uint16(packet[6:]) > 0)
	for options := packet[16:]; len(options) >= 8 && options[1] > 0 && len(options) >= 8*int(options[1]); options = options[8*int(options[1]):] {
		switch {
		case options[0] == 1:
			text += fmt.Sprint(" mac=", net.HardwareAddr(options[2:8]))
		case options[0] == 5:
			text += fmt.Sprint(" mtu=", binary.BigEndian.Uint32(options[4:]))
		case options[0] == 3 && options[1] == 4:
			text += fmt.Sprintf(" prefix=%s autonomous=%t", netip.PrefixFrom(netip.AddrFrom16([16]byte(options[16:32])), int(options[2])), options[3]&0x40 != 0)
		}
	}
	return text
}
