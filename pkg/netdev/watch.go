package netdev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// EventKind says what has changed.
type EventKind string

// The kinds of events. Lost means that events were dropped: anything may have changed.
const (
	LinkEvent  EventKind = "link"
	AddrEvent  EventKind = "address"
	RouteEvent EventKind = "route"
	Lost       EventKind = "lost"
)

// Event is a reason to look again; it carries no state, which may be outdated by the time it is read.
type Event struct {
	Kind EventKind
	// Link is the name where the kernel tells it: link events only.
	Link string
	// Index is the link's index for link and address events.
	Index int
	// Gone says that the link or address was removed.
	Gone bool
}

// watchBuffer holds a burst such as a hundred pods with all their addresses.
const watchBuffer = 1 << 20

// Watch reports changes of links, addresses and routes until ctx ends, which closes the channel. The reader must keep
// reading.
func (n *NS) Watch(ctx context.Context) (<-chan Event, error) {
	socket, err := groupSocket(n, unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("subscribing to link, address and route changes: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = socket.Close() })
	out := make(chan Event, 64)
	go func() {
		defer close(out)
		readEvents(ctx, socket, eachMessage(routeEvent), Event{Kind: Lost}, out)
	}()
	return out, nil
}

func routeEvent(m syscall.NetlinkMessage) (Event, bool) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		link, err := netlink.LinkDeserialize((*unix.NlMsghdr)(&m.Header), m.Data)
		if err != nil {
			return Event{Kind: Lost}, true
		}
		return Event{Kind: LinkEvent, Link: link.Attrs().Name, Index: link.Attrs().Index, Gone: m.Header.Type == unix.RTM_DELLINK}, true
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return Event{Kind: AddrEvent, Index: int(nl.DeserializeIfAddrmsg(m.Data).Index), Gone: m.Header.Type == unix.RTM_DELADDR}, true
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return Event{Kind: RouteEvent, Index: outOf(m), Gone: m.Header.Type == unix.RTM_DELROUTE}, true
	}
	return Event{}, false
}

// outOf gives the index of the link that a route leaves by, or that of its first hop.
func outOf(m syscall.NetlinkMessage) int {
	attrs, err := nl.ParseRouteAttr(m.Data[unix.SizeofRtMsg:])
	if err != nil {
		return 0
	}
	const indexOfHop = 4 // in struct rtnexthop
	for _, attr := range attrs {
		switch attr.Attr.Type {
		case unix.RTA_OIF:
			return int(nl.NativeEndian().Uint32(attr.Value))
		case unix.RTA_MULTIPATH:
			return int(nl.NativeEndian().Uint32(attr.Value[indexOfHop:]))
		}
	}
	return 0
}

// groupSocket joins by membership, for the bit mask of an address ends at group 32 and generic netlink's groups do not.
func groupSocket(n *NS, protocol int, groups ...uint32) (*os.File, error) {
	fd := -1
	err := inside(n, func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
		return err
	})
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), "netlink") // waits in the runtime's poller, so Close ends a Read
	// Without the privilege the kernel's default has to do.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, watchBuffer)
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	for _, group := range groups {
		err = cmp.Or(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group)))
	}
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, nil
}

// readEvents ends with the socket. When the kernel has dropped messages, it says that events were lost and continues
// with later changes.
func readEvents[E any](ctx context.Context, socket *os.File, events func([]byte) ([]E, error), lost E, out chan<- E) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := socket.Read(buffer)
		var found []E
		switch {
		case err == nil:
			if found, err = events(buffer[:n]); err != nil {
				found = []E{lost}
			}
		case errors.Is(err, unix.ENOBUFS):
			discard(socket, buffer)
			found = []E{lost}
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

// discard empties a socket that has lost messages: until then the kernel drops all further ones, too, and does not say
// so again.
func discard(socket *os.File, buffer []byte) {
	conn, err := socket.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		for err == nil || errors.Is(err, unix.ENOBUFS) {
			_, _, err = unix.Recvfrom(int(fd), buffer, unix.MSG_DONTWAIT)
		}
	})
}

// eachMessage makes events of the messages that event knows.
func eachMessage[E any](event func(syscall.NetlinkMessage) (E, bool)) func([]byte) ([]E, error) {
	return func(raw []byte) (found []E, err error) {
		messages, err := syscall.ParseNetlinkMessage(raw)
		for _, m := range messages {
			if e, ok := event(m); ok {
				found = append(found, e)
			}
		}
		return found, err
	}
}
