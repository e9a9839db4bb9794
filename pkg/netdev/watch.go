package netdev

import (
	"context"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// EventKind says what has changed.
type EventKind string

// The kinds of events. Lost means that events were dropped: anything may have
// changed.
const (
	LinkEvent  EventKind = "link"
	AddrEvent  EventKind = "address"
	RouteEvent EventKind = "route"
	Lost       EventKind = "lost"
)

// Event is a reason to look again; it carries no state, which may be outdated
// by the time it is read.
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

// Watch reports changes of links, addresses and routes until ctx ends, which
// closes the channel. The reader must keep reading.
func (n *NS) Watch(ctx context.Context) (<-chan Event, error) {
	first, err := subscribe(n)
	if err != nil {
		return nil, err
	}
	out := make(chan Event, 64)
	go watch(ctx, first, func() (*subscription, error) { return resubscribe(ctx, n) }, out)
	return out, nil
}

// watch says that events were lost once it has subscribed again: what changes
// while somebody looks is told of.
func watch(ctx context.Context, sub *subscription, again func() (*subscription, error), out chan<- Event) {
	defer close(out)
	for {
		sub.forward(ctx, out)
		sub.close()
		if ctx.Err() != nil {
			return
		}
		var err error
		if sub, err = again(); err != nil {
			return
		}
		send(ctx, out, Event{Kind: Lost})
	}
}

// subscription is one set of netlink group memberships; an error in any of
// them closes its channel.
type subscription struct {
	done   chan struct{}
	links  chan netlink.LinkUpdate
	addrs  chan netlink.AddrUpdate
	routes chan netlink.RouteUpdate
}

func subscribe(n *NS) (*subscription, error) {
	s := &subscription{
		done:   make(chan struct{}),
		links:  make(chan netlink.LinkUpdate),
		addrs:  make(chan netlink.AddrUpdate),
		routes: make(chan netlink.RouteUpdate),
	}
	ignore := func(error) {} // the closed channel tells
	starts := []func() error{
		func() error {
			return netlink.LinkSubscribeWithOptions(s.links, s.done, netlink.LinkSubscribeOptions{
				Namespace: &n.ns, ErrorCallback: ignore, ReceiveBufferSize: watchBuffer})
		},
		func() error {
			return netlink.AddrSubscribeWithOptions(s.addrs, s.done, netlink.AddrSubscribeOptions{
				Namespace: &n.ns, ErrorCallback: ignore, ReceiveBufferSize: watchBuffer})
		},
		func() error {
			return netlink.RouteSubscribeWithOptions(s.routes, s.done, netlink.RouteSubscribeOptions{
				Namespace: &n.ns, ErrorCallback: ignore, ReceiveBufferSize: watchBuffer})
		},
	}
	ends := []func(){func() { close(s.links) }, func() { close(s.addrs) }, func() { close(s.routes) }}
	for i, start := range starts {
		err := start()
		if err == nil {
			continue
		}
		for _, end := range ends[i:] {
			end() // nobody else does
		}
		s.close()
		return nil, fmt.Errorf("subscribing to link, address and route changes: %w", err)
	}
	return s, nil
}

// close drains the channels, because the netlink library would leave its
// goroutines blocked on unread ones.
func (s *subscription) close() {
	close(s.done)
	go drain(s.links)
	go drain(s.addrs)
	go drain(s.routes)
}

func resubscribe(ctx context.Context, n *NS) (*subscription, error) {
	for {
		s, err := subscribe(n)
		if err == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}

// forward ends when ctx does or when one of the channels fails.
func (s *subscription) forward(ctx context.Context, out chan<- Event) {
	for {
		var e Event
		select {
		case <-ctx.Done():
			return
		case u, ok := <-s.links:
			if !ok {
				return
			}
			e = Event{Kind: LinkEvent, Link: u.Attrs().Name, Index: u.Attrs().Index, Gone: u.Header.Type == unix.RTM_DELLINK}
		case u, ok := <-s.addrs:
			if !ok {
				return
			}
			e = Event{Kind: AddrEvent, Index: u.LinkIndex, Gone: !u.NewAddr}
		case u, ok := <-s.routes:
			if !ok {
				return
			}
			e = Event{Kind: RouteEvent, Index: u.LinkIndex, Gone: u.Type == unix.RTM_DELROUTE}
			if len(u.MultiPath) > 0 {
				e.Index = u.MultiPath[0].LinkIndex
			}
		}
		if !send(ctx, out, e) {
			return
		}
	}
}

func send(ctx context.Context, out chan<- Event, e Event) bool {
	select {
	case out <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

func drain[T any](c <-chan T) {
	for range c { //nolint:revive // only emptied
	}
}
