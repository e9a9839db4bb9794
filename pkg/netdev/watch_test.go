package netdev

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
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

// TestWatch_GoesOnAfterLostEvents: a watch that lost events reports all later changes.
func TestWatch_GoesOnAfterLostEvents(t *testing.T) {
	ns, err := Open(netdevtest.NewNS(t))
	must(t, err)
	defer func() { must(t, ns.Close()) }()
	socket, err := groupSocket(ns, unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_ROUTE)
	must(t, err)
	must(t, ns.SetLink("lo", Settings{State: Up}))
	conn, err := socket.SyscallConn()
	must(t, err)
	must(t, conn.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1) }))
	must(t, err)
	route := func(i int) Route {
		return Route{Dest: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32), Link: "lo"}
	}
	for i := range 100 {
		must(t, ns.ReplaceRoute(route(i)))
	}
	events := make(chan Event, 64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		readEvents(t.Context(), socket, eachMessage(routeEvent), Event{Kind: Lost}, events)
	}()
	waitEvent(t, events, func(e Event) bool { return e.Kind == Lost })
	must(t, ns.DeleteRoute(route(1)))
	waitEvent(t, events, func(e Event) bool { return e.Kind == RouteEvent && e.Gone && e.Index == 1 })
	must(t, socket.Close())
	<-ended
}

// TestWatch_OfNoNamespaceIsAnError at once, not a closed channel.
func TestWatch_OfNoNamespaceIsAnError(t *testing.T) {
	if _, err := (&NS{ns: 1 << 20}).Watch(t.Context()); err == nil {
		t.Error("watches no namespace")
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
