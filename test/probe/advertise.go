package main

import (
	"net"

	"golang.org/x/sys/unix"
)

// advertise sends router advertisements that a host takes a default route from: the
// lifetime is half an hour, the preference high.
func advertise(link string) error {
	iface, fd, err := discovery(link)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	packet := make([]byte, 16) // the kernel adds the checksum
	packet[0], packet[4], packet[5], packet[6], packet[7] = 134, 64, 0x08, 0x07, 0x08
	packet = append(append(packet, 1, 1), iface.HardwareAddr...) // the sender's MAC
	to := &unix.SockaddrInet6{Addr: [16]byte{0xff, 2, 15: 1}, ZoneId: uint32(iface.Index)}
	for range 3 {
		if err := unix.Sendto(fd, packet, 0, to); err != nil {
			return err
		}
	}
	return nil
}

// discovery is a link, and a socket for messages of neighbor discovery: these have a hop limit of 255 (RFC 4861).
func discovery(link string) (*net.Interface, int, error) {
	iface, err := net.InterfaceByName(link)
	if err != nil {
		return nil, 0, err
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return nil, 0, err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
		unix.Close(fd)
		return nil, 0, err
	}
	return iface, fd, nil
}
