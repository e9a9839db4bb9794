package netdev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// DeviceEvent is a reason to look at the devices again. Source is link, address,
// devlink, uevent, or lost when messages were dropped: anything may have
// changed. What names it for a log: a link, or a path in sysfs. Index is the
// link's.
type DeviceEvent struct {
	Source, What string
	Index        int
}

const ueventKernelGroup = 1 // group 2 carries what udev says afterwards

// Watch reports changes of NICs until ctx ends, which closes the channel. Links
// that are made by software are left out, bonds excepted, so that a node's veth
// pairs make no noise. An error closes the channel early.
func (d *Devices) Watch(ctx context.Context) (<-chan DeviceEvent, error) {
	type source struct {
		protocol int
		groups   []uint32
		events   func([]byte) ([]DeviceEvent, error)
	}
	sources := []source{
		{unix.NETLINK_ROUTE, []uint32{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}, eachMessage(linkOrAddress)},
		{unix.NETLINK_KOBJECT_UEVENT, []uint32{ueventKernelGroup}, uevents},
	}
	group, err := devlinkGroup(d.generic)
	if err != nil {
		return nil, err
	}
	if group != 0 {
		sources = append(sources, source{unix.NETLINK_GENERIC, []uint32{group}, devlinkEvents})
	}
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan DeviceEvent, 64)
	var readers sync.WaitGroup
	for _, s := range sources {
		socket, err := groupSocket(d.ns, s.protocol, s.groups...)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("subscribing to device changes, netlink protocol %d: %w", s.protocol, err)
		}
		context.AfterFunc(ctx, func() { _ = socket.Close() })
		readers.Go(func() {
			defer cancel() // one source that ends, ends all
			readEvents(ctx, socket, s.events, DeviceEvent{Source: "lost"}, out)
		})
	}
	go func() {
		readers.Wait()
		cancel()
		close(out)
	}()
	return out, nil
}

// devlinkGroup gives 0 for a kernel without devlink.
func devlinkGroup(h *netlink.Handle) (uint32, error) {
	family, err := h.GenlFamilyGet(nl.GENL_DEVLINK_NAME)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("looking for devlink: %w", err)
	}
	for _, g := range family.Groups {
		if g.Name == "config" {
			return g.ID, nil
		}
	}
	return 0, nil
}

// linkOrAddress leaves out the addresses that the kernel gives to every link.
func linkOrAddress(m syscall.NetlinkMessage) (DeviceEvent, bool) {
	switch m.Header.Type {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return DeviceEvent{Source: "address"}, nl.DeserializeIfAddrmsg(m.Data).Scope < unix.RT_SCOPE_LINK
	}
	link, err := netlink.LinkDeserialize((*unix.NlMsghdr)(&m.Header), m.Data)
	if err != nil || link.Type() != "device" && link.Type() != "bond" {
		return DeviceEvent{}, false
	}
	return DeviceEvent{Source: "link", What: link.Attrs().Name, Index: link.Attrs().Index}, true
}

func devlinkEvents([]byte) ([]DeviceEvent, error) { return []DeviceEvent{{Source: "devlink"}}, nil }

// uevents reads the kernel's message: ACTION@PATH, then KEY=VALUE, each ended
// by a zero byte.
func uevents(raw []byte) ([]DeviceEvent, error) {
	head, rest, _ := bytes.Cut(raw, []byte{0})
	_, path, ok := strings.Cut(string(head), "@")
	if !ok || strings.HasPrefix(path, "/devices/virtual/") {
		return nil, nil
	}
	for field := range bytes.SplitSeq(rest, []byte{0}) {
		subsystem, ok := bytes.CutPrefix(field, []byte("SUBSYSTEM="))
		if !ok {
			continue
		}
		switch string(subsystem) {
		case "pci", "net", "infiniband", "auxiliary":
			return []DeviceEvent{{Source: "uevent", What: strings.TrimPrefix(path, "/")}}, nil
		}
	}
	return nil, nil
}
