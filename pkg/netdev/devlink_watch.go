package netdev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
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
		group    uint32
		events   func([]byte) []DeviceEvent
	}
	sources := []source{
		{unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, linkEvents},
		{unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_IFADDR, addressEvents},
		{unix.NETLINK_ROUTE, unix.RTNLGRP_IPV6_IFADDR, addressEvents},
		{unix.NETLINK_KOBJECT_UEVENT, ueventKernelGroup, uevents},
	}
	group, err := devlinkGroup(d.generic)
	if err != nil {
		return nil, err
	}
	if group != 0 {
		sources = append(sources, source{unix.NETLINK_GENERIC, group, devlinkEvents})
	}
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan DeviceEvent, 64)
	var readers sync.WaitGroup
	for _, s := range sources {
		socket, err := groupSocket(d.ns, s.protocol, s.group)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("subscribing to device changes, netlink protocol %d: %w", s.protocol, err)
		}
		context.AfterFunc(ctx, func() { _ = socket.Close() })
		readers.Go(func() {
			defer cancel() // one source that ends, ends all
			readEvents(ctx, socket, s.events, out)
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

// groupSocket joins by membership, for the bit mask of an address ends at
// group 32 and generic netlink's groups do not.
func groupSocket(n *NS, protocol int, group uint32) (*os.File, error) {
	fd := -1
	err := inside(n, func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
		return err
	})
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), "netlink") // waits in the runtime's poller, so Close ends a Read
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group))
	}
	if err == nil {
		// Without the privilege the kernel's default has to do.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, watchBuffer)
		return socket, nil
	}
	return nil, errors.Join(err, socket.Close())
}

func readEvents(ctx context.Context, socket *os.File, events func([]byte) []DeviceEvent, out chan<- DeviceEvent) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := socket.Read(buffer)
		var found []DeviceEvent
		switch {
		case err == nil:
			found = events(buffer[:n])
		case errors.Is(err, unix.ENOBUFS):
			found = lost()
		default:
			return
		}
		for _, e := range found {
			select {
			case out <- e:
			case <-ctx.Done():
				return
			}
		}
	}
}

// lost is what is known of messages that cannot be read.
func lost() []DeviceEvent { return []DeviceEvent{{Source: "lost"}} }

func linkEvents(raw []byte) (found []DeviceEvent) {
	messages, err := syscall.ParseNetlinkMessage(raw)
	if err != nil {
		return lost()
	}
	for _, m := range messages {
		link, err := netlink.LinkDeserialize((*unix.NlMsghdr)(&m.Header), m.Data)
		if err != nil {
			continue
		}
		if kind := link.Type(); kind == "device" || kind == "bond" {
			found = append(found, DeviceEvent{Source: "link", What: link.Attrs().Name, Index: link.Attrs().Index})
		}
	}
	return found
}

// addressEvents leaves out the addresses that the kernel gives to every link.
func addressEvents(raw []byte) []DeviceEvent {
	messages, err := syscall.ParseNetlinkMessage(raw)
	if err != nil {
		return lost()
	}
	const scope = 3 // in struct ifaddrmsg
	for _, m := range messages {
		if len(m.Data) >= unix.SizeofIfAddrmsg && m.Data[scope] < unix.RT_SCOPE_LINK {
			return []DeviceEvent{{Source: "address"}}
		}
	}
	return nil
}

func devlinkEvents([]byte) []DeviceEvent { return []DeviceEvent{{Source: "devlink"}} }

// uevents reads the kernel's message: ACTION@PATH, then KEY=VALUE, each ended
// by a zero byte.
func uevents(raw []byte) []DeviceEvent {
	head, rest, _ := bytes.Cut(raw, []byte{0})
	_, path, ok := strings.Cut(string(head), "@")
	if !ok || strings.HasPrefix(path, "/devices/virtual/") {
		return nil
	}
	for field := range bytes.SplitSeq(rest, []byte{0}) {
		subsystem, ok := bytes.CutPrefix(field, []byte("SUBSYSTEM="))
		if !ok {
			continue
		}
		switch string(subsystem) {
		case "pci", "net", "infiniband", "auxiliary":
			return []DeviceEvent{{Source: "uevent", What: strings.TrimPrefix(path, "/")}}
		}
	}
	return nil
}
