package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

const (
	bridgeName = "fabric0"
	nodeLink   = "eth0"
	fabricMTU  = 1500
)

// plug gives the fabric its bridge, and each machine its eth0 on it. A machine
// that has an eth0 keeps what is there: its agent may have moved the addresses.
func (l *Lab) plug(hub *machine.Machine, machines []*machine.Machine) error {
	return inside(hub, func(handle *netlink.Handle, _ netns.NsHandle) error {
		bridge, err := l.fabricBridge(handle)
		if err != nil {
			return fmt.Errorf("making the fabric: %w", err)
		}
		for _, m := range machines {
			err := inside(m, func(own *netlink.Handle, ns netns.NsHandle) error {
				if _, err := own.LinkByName(nodeLink); err == nil {
					return nil
				}
				if err := wire(handle, bridge, ns, l.portOf(m.Name)); err != nil {
					return err
				}
				return l.configure(own, l.cfg.Addresses(m.Name))
			})
			if err != nil {
				return fmt.Errorf("connecting %s to the fabric: %w", m.Name, err)
			}
		}
		return nil
	})
}

// portOf is the name of a machine's link on the fabric's side.
func (l *Lab) portOf(name string) string {
	return fmt.Sprintf("port%d", slices.Index(append(l.cfg.NodeNames(), Outside), name))
}

// inside gives do a door to the links of a machine's network namespace.
func inside(m *machine.Machine, do func(*netlink.Handle, netns.NsHandle) error) error {
	ns, err := m.NetNS()
	if err != nil {
		return fmt.Errorf("opening the network namespace of %s: %w", m.Name, err)
	}
	defer func() { _ = ns.Close() }()
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer func() { _ = handle.Close() }()
	return do(handle, ns)
}

func (l *Lab) fabricBridge(handle *netlink.Handle) (netlink.Link, error) {
	if bridge, err := handle.LinkByName(bridgeName); err == nil {
		return bridge, nil
	}
	if err := loopbackUp(handle); err != nil {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = bridgeName, fabricMTU
	if err := handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return nil, err
	}
	bridge, err := handle.LinkByName(bridgeName)
	if err != nil {
		return nil, err
	}
	if err := l.address(handle, bridge, l.cfg.Addresses(fabric)); err != nil {
		return nil, err
	}
	if l.cfg.ControlPlanes > 1 {
		if err := l.address(handle, bridge, l.cfg.Addresses(balancer)); err != nil {
			return nil, err
		}
	}
	return bridge, handle.LinkSetUp(bridge)
}

// wire makes a link from the fabric into another namespace.
func wire(hub *netlink.Handle, bridge netlink.Link, ns netns.NsHandle, port string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = port, fabricMTU, bridge.Attrs().Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: nodeLink, PeerMTU: fabricMTU, PeerNamespace: netlink.NsFd(int(ns))}
	if err := hub.LinkAdd(veth); err != nil {
		return fmt.Errorf("making the link: %w", err)
	}
	return hub.LinkSetUp(veth)
}

// configure gives a machine's end its addresses and the way out.
func (l *Lab) configure(own *netlink.Handle, addrs []netip.Addr) error {
	if err := loopbackUp(own); err != nil {
		return err
	}
	eth0, err := own.LinkByName(nodeLink)
	if err != nil {
		return err
	}
	if err := l.address(own, eth0, addrs); err != nil {
		return err
	}
	if err := own.LinkSetUp(eth0); err != nil {
		return err
	}
	for _, gateway := range l.cfg.Addresses(fabric) {
		if err := own.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("routing by %s: %w", gateway, err)
		}
	}
	return nil
}

func loopbackUp(handle *netlink.Handle) error {
	lo, err := handle.LinkByName("lo")
	if err != nil {
		return err
	}
	return handle.LinkSetUp(lo)
}

func (l *Lab) address(handle *netlink.Handle, link netlink.Link, addrs []netip.Addr) error {
	for i, addr := range addrs {
		network := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(l.cfg.Subnets[i].Bits(), addr.BitLen())}
		if err := handle.AddrAdd(link, &netlink.Addr{IPNet: network, Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("adding address %s: %w", addr, err)
		}
	}
	return nil
}

// bridgeRoutes connect the pod subnets of nodes that have the bridge network.
func (l *Lab) bridgeRoutes(m *machine.Machine) error {
	return inside(m, func(handle *netlink.Handle, _ netns.NsHandle) error {
		for i, node := range l.cfg.NodeNames() {
			if node == m.Name {
				continue
			}
			addrs := l.cfg.Addresses(node)
			for family, subnet := range bridgeSubnets(l.cfg.PodCIDRs, i) {
				dst := &net.IPNet{IP: subnet.Addr().AsSlice(), Mask: net.CIDRMask(subnet.Bits(), subnet.Addr().BitLen())}
				if err := handle.RouteReplace(&netlink.Route{Dst: dst, Gw: addrs[family].AsSlice()}); err != nil {
					return fmt.Errorf("routing %s by %s: %w", subnet, node, err)
				}
			}
		}
		return nil
	})
}

// bridgeSubnets are the pod subnets of node i: a /24 and a /64.
func bridgeSubnets(cidrs []netip.Prefix, i int) []netip.Prefix {
	var subnets []netip.Prefix
	for _, cidr := range cidrs {
		raw, bits := cidr.Addr().AsSlice(), 24
		if cidr.Addr().Is6() {
			bits = 64
		}
		raw[bits/8-1] = byte(i)
		addr, _ := netip.AddrFromSlice(raw)
		subnets = append(subnets, netip.PrefixFrom(addr, bits))
	}
	return subnets
}

// kernelDatapath is the datapath of a kernel that has openvswitch.
const kernelDatapath = "system"

// datapath is kernelDatapath where the kernel has openvswitch and geneve, else "netdev".
// It asks inside the fabric's namespace, so that the host's links stay untouched.
func datapath(hub *machine.Machine) string {
	const probe = "probe0"
	err := inside(hub, func(handle *netlink.Handle, _ netns.NsHandle) error {
		if _, err := handle.GenlFamilyGet("ovs_datapath"); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = probe
		geneve := &netlink.Geneve{LinkAttrs: attrs, FlowBased: true, Dport: 6081}
		if err := handle.LinkAdd(geneve); err != nil && !errors.Is(err, syscall.EEXIST) {
			return err
		}
		return handle.LinkDel(geneve)
	})
	if err != nil {
		return "netdev"
	}
	return kernelDatapath
}
