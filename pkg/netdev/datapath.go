package netdev

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// LeaveDatapath takes a link out of Open vSwitch's datapath in the kernel, with the rules of TC that ovs-vswitchd has put
// at its ingress and, of a bond, at that of its ports. The host receives what comes in by the link then. It is for the
// time when no ovs-vswitchd runs: a running one puts its ports back. It is fine if the link is in no datapath.
//
// Format: OVS_VPORT_CMD_DEL of linux/openvswitch.h, by the port's name in any datapath.
func (n *NS) LeaveDatapath(link string) error {
	const del, version, name = 2, 1, 3
	l, err := find(n, link)
	if err != nil {
		return err
	}
	if master, err := n.handle.LinkByIndex(l.Attrs().MasterIndex); err != nil || master.Type() != "openvswitch" {
		return nil
	}
	if err := n.deleteIngress(l); err != nil {
		return err
	}
	handle, err := openHandle(n.ns, unix.NETLINK_GENERIC)
	if err != nil {
		return fmt.Errorf("opening generic netlink: %w", err)
	}
	defer func() { _ = handle.Close() }()
	family, err := handle.GenlFamilyGet("ovs_vport")
	if err != nil {
		return fmt.Errorf("finding the datapath of Open vSwitch: %w", err)
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.AddData(&nl.Genlmsg{Command: del, Version: version})
	request.AddRawData(make([]byte, datapathHeader))
	request.AddData(nl.NewRtAttr(name, nl.ZeroTerminated(link)))
	err = inside(n, func() error {
		_, err := request.Execute(unix.NETLINK_GENERIC, 0)
		return err
	})
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("taking %s out of the datapath of Open vSwitch: %w", link, err)
	}
	return nil
}

// deleteIngress deletes the rules of TC at the ingress of a link and of its ports.
func (n *NS) deleteIngress(l netlink.Link) error {
	links, err := retryDump(n.handle.LinkList)
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	for _, other := range links {
		if other.Attrs().Index == l.Attrs().Index || other.Attrs().MasterIndex == l.Attrs().Index {
			if err := n.deleteRules(other.Attrs().Name, "ingress"); err != nil {
				return err
			}
		}
	}
	return nil
}
