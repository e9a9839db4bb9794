package netdev

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Lifetimes gives, of the addresses of a link that end, the time until then: DHCP and router advertisements make such
// addresses.
func Lifetimes(n *NS, link string) (map[netip.Prefix]time.Duration, error) {
	l, err := find(n, link)
	if err != nil {
		return nil, err
	}
	list, err := retryDump(func() ([]netlink.Addr, error) { return n.handle.AddrList(l, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses of %s: %w", link, err)
	}
	left := map[netip.Prefix]time.Duration{}
	for _, a := range list {
		if a.Flags&unix.IFA_F_PERMANENT == 0 {
			left[toPrefix(a.IPNet)] = time.Duration(a.ValidLft) * time.Second
		}
	}
	return left, nil
}

// Chain is a chain of nftables; those of iptables-nft are among them.
type Chain struct{ Table, Name string }

// Chains lists the chains of all families. A kernel without nftables has none.
func Chains(n *NS) ([]Chain, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(int(n.ns)))
	if err != nil {
		return nil, fmt.Errorf("opening nftables: %w", err)
	}
	list, err := conn.ListChains()
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing chains of nftables: %w", err)
	}
	chains := make([]Chain, len(list))
	for i, c := range list {
		chains[i] = Chain{Table: c.Table.Name, Name: c.Name}
	}
	return chains, nil
}

// HasGenericFamily reports whether the kernel has a family of generic netlink, such as ovs_datapath of its module
// openvswitch.
func HasGenericFamily(n *NS, name string) bool {
	handle, err := openHandle(n.ns, unix.NETLINK_GENERIC)
	if err != nil {
		return false
	}
	defer func() { _ = handle.Close() }()
	_, err = handle.GenlFamilyGet(name)
	return err == nil
}

// Firmware gives the driver of a link and the version of its firmware; "" where the driver does not say.
func Firmware(d *Devices, link string) (driver, version string) {
	info, err := d.ethtool.DriverInfo(link)
	if err != nil {
		return "", ""
	}
	return info.Driver, info.FwVersion
}
