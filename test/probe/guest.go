package main

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// guest is the first process of a virtual machine: it gives its only network card an address of IPv4, and serves.
func guest(address, port string, name []string) error {
	prefix, err := netip.ParsePrefix(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mask := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), prefix.Bits()).Masked().Addr()
	for request, addr := range map[uint]netip.Addr{unix.SIOCSIFADDR: prefix.Addr(), unix.SIOCSIFNETMASK: mask} {
		card, err := unix.NewIfreq("eth0")
		if err != nil {
			return err
		}
		if err := card.SetInet4Addr(addr.AsSlice()); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, request, card); err != nil {
			return err
		}
	}
	card, err := unix.NewIfreq("eth0")
	if err != nil {
		return err
	}
	card.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, card); err != nil {
		return err
	}
	return serve(port, name)
}
