package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// datapathHeader is the length of struct ovs_header of linux/openvswitch.h: the index of a datapath, 0 for any.
const datapathHeader = 4

// RecirculationShared reports whether a datapath of the kernel shares its recirculation ids with TC, without which
// ovs-vswitchd gives TC no flow before or after connection tracking. The kernel refuses to share them if it was built
// without CONFIG_NET_TC_SKB_EXT. It is not known without a datapath.
//
// Format: OVS_DP_CMD_GET of linux/openvswitch.h.
func RecirculationShared(n *NS) (shared, known bool) {
	const get, version, userFeatures, sharing = 3, 2, 5, 1 << 2 // OVS_DP_F_TC_RECIRC_SHARING
	answers, _ := n.askDatapath("ovs_datapath", nl.Genlmsg{Command: get, Version: version}, unix.NLM_F_DUMP)
	for _, answer := range answers {
		attributes, err := nl.ParseRouteAttrAsMap(answer[min(len(answer), nl.SizeofGenlmsg+datapathHeader):])
		if features := attributes[userFeatures].Value; err == nil && len(features) == 4 {
			shared, known = shared || binary.NativeEndian.Uint32(features)&sharing != 0, true
		}
	}
	return shared, known
}

// LeaveDatapath takes a link out of Open vSwitch's datapath in the kernel, with the rules of TC that ovs-vswitchd has put
// at its ingress and, of a bond, at that of its ports. The host receives what comes in by the link then. It is for the
// time when no ovs-vswitchd runs: a running one puts its ports back. It is fine if the link is in no datapath.
//
// Format: OVS_VPORT_CMD_DEL of linux/openvswitch.h, by the port's name in any datapath.
func (n *NS) LeaveDatapath(link string) error {
	const del, version, name = 2, 1, 3
	links, err := n.Links()
	if err != nil {
		return err
	}
	var nic Link
	types := map[int]string{}
	for _, l := range links {
		types[l.Index] = l.Type
		if l.Name == link {
			nic = l
		}
	}
	if types[nic.Master] != "openvswitch" {
		return nil
	}
	for _, l := range links {
		if l.Index != nic.Index && l.Master != nic.Index {
			continue
		}
		if err := n.deleteRules(l.Name, "ingress"); err != nil {
			return err
		}
	}
	_, err = n.askDatapath("ovs_vport", nl.Genlmsg{Command: del, Version: version}, unix.NLM_F_ACK, nl.NewRtAttr(name, nl.ZeroTerminated(link)))
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("taking %s out of the datapath of Open vSwitch: %w", link, err)
	}
	return nil
}

// askDatapath sends a request about any datapath. The error is the kernel's number; ENOENT is a kernel without one.
func (n *NS) askDatapath(family string, message nl.Genlmsg, flags int, attributes ...*nl.RtAttr) (answers [][]byte, err error) {
	handle, err := openHandle(n.ns, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	defer func() { _ = handle.Close() }()
	known, err := handle.GenlFamilyGet(family)
	if err != nil {
		return nil, err
	}
	request := nl.NewNetlinkRequest(int(known.ID), flags)
	request.AddData(&message)
	body := make([]byte, datapathHeader)
	for _, attribute := range attributes {
		body = append(body, attribute.Serialize()...)
	}
	request.AddRawData(body)
	err = inside(n, func() error {
		answers, err = request.Execute(unix.NETLINK_GENERIC, 0)
		return err
	})
	return answers, err
}
