package netdev

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

func TestWatch_ReportsLinksAddressesAndRoutes(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		ctx, cancel := context.WithCancel(t.Context())
		events, err := w.pod.Watch(ctx)
		must(t, err)
		addPair(t, w)
		waitEvent(t, events, func(e Event) bool { return e.Kind == LinkEvent && e.Link == "eth0" && !e.Gone })
		up(t, w)
		must(t, w.pod.ReplaceAddr("eth0", netip.MustParsePrefix("10.244.1.5/24"), AddrOptions{}))
		waitEvent(t, events, func(e Event) bool { return e.Kind == AddrEvent && !e.Gone })
		must(t, w.pod.ReplaceRoute(Route{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("10.244.1.1"), Link: "eth0"}))
		waitEvent(t, events, func(e Event) bool { return e.Kind == RouteEvent })
		links, err := w.pod.Links()
		must(t, err)
		index := links[slices.IndexFunc(links, func(l Link) bool { return l.Name == "eth0" })].Index
		must(t, w.pod.ReplaceRoute(Route{Dest: netip.MustParsePrefix("192.0.2.0/24"), NextHop: netip.MustParseAddr("10.244.1.1"),
			Others: []netip.Addr{netip.MustParseAddr("10.244.1.9")}, Link: "eth0"}))
		waitEvent(t, events, func(e Event) bool { return e.Kind == RouteEvent && e.Index == index })
		must(t, w.host.DeleteLink("veth0"))
		waitEvent(t, events, func(e Event) bool { return e.Kind == LinkEvent && e.Link == "eth0" && e.Gone })
		cancel()
		waitClosed(t, events)
	})
}

// TestWatch_LostEventsFollowNewSubscription: who looks again because events were lost must hear of what
// changes from then on.
func TestWatch_LostEventsFollowNewSubscription(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	empty := func() *subscription {
		return &subscription{make(chan struct{}), make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate), make(chan netlink.RouteUpdate)}
	}
	overrun := empty()
	close(overrun.links)
	subscribed := make(chan struct{})
	events := make(chan Event)
	go watch(ctx, overrun, func() (*subscription, error) {
		subscribed <- struct{}{}
		return empty(), nil
	}, events)
	select {
	case <-subscribed:
	case e := <-events:
		t.Fatalf("%+v is told before there is another subscription", e)
	}
	waitEvent(t, events, func(e Event) bool { return e.Kind == Lost })
	cancel()
	waitClosed(t, events)
}

// TestSubscribe_FailureLeavesNoGoroutine: a subscription is tried each second.
func TestSubscribe_FailureLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		if _, err := subscribe(&NS{ns: 1 << 20}); err == nil {
			t.Fatal("subscribed to no namespace")
		}
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, and %d before", runtime.NumGoroutine(), before)
		}
	}
}

func waitEvent(t *testing.T, events <-chan Event, ok func(Event) bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case e, open := <-events:
			if !open {
				t.Fatal("the channel is closed")
			}
			if ok(e) {
				return
			}
		case <-deadline:
			t.Fatal("no such event within 10s")
		}
	}
}

func waitClosed(t *testing.T, events <-chan Event) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case _, open := <-events:
			if !open {
				return
			}
		case <-deadline:
			t.Fatal("the channel is open 10s after its context ended")
		}
	}
}
