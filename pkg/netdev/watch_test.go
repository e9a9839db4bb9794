package netdev_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

func TestWatch_ReportsLinksAddressesAndRoutes(t *testing.T) {
	onBoth(t, func(t *testing.T, w world) {
		ctx, cancel := context.WithCancel(t.Context())
		events, err := w.pod.Watch(ctx)
		must(t, err)
		addPair(t, w)
		waitEvent(t, events, func(e netdev.Event) bool { return e.Kind == netdev.LinkEvent && e.Link == "eth0" && !e.Gone })
		up(t, w)
		must(t, w.pod.ReplaceAddr("eth0", netip.MustParsePrefix("10.244.1.5/24"), netdev.AddrOptions{}))
		waitEvent(t, events, func(e netdev.Event) bool { return e.Kind == netdev.AddrEvent && !e.Gone })
		must(t, w.pod.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("10.244.1.1"), Link: "eth0"}))
		waitEvent(t, events, func(e netdev.Event) bool { return e.Kind == netdev.RouteEvent })
		links, err := w.pod.Links()
		must(t, err)
		index := links[slices.IndexFunc(links, func(l netdev.Link) bool { return l.Name == "eth0" })].Index
		must(t, w.pod.ReplaceRoute(netdev.Route{Dest: netip.MustParsePrefix("192.0.2.0/24"), NextHop: netip.MustParseAddr("10.244.1.1"),
			Others: []netip.Addr{netip.MustParseAddr("10.244.1.9")}, Link: "eth0"}))
		waitEvent(t, events, func(e netdev.Event) bool { return e.Kind == netdev.RouteEvent && e.Index == index })
		must(t, w.host.DeleteLink("veth0"))
		waitEvent(t, events, func(e netdev.Event) bool { return e.Kind == netdev.LinkEvent && e.Link == "eth0" && e.Gone })
		cancel()
		waitClosed(t, events)
	})
}

// TestWatch_GoesOnAfterLostEvents: a watch that lost events reports all later changes.
func TestWatch_GoesOnAfterLostEvents(t *testing.T) {
	ns, err := netdev.Open(netdevtest.NewNS(t))
	must(t, err)
	defer func() { must(t, ns.Close()) }()
	socket, err := netdev.GroupSocket(ns, unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_ROUTE)
	must(t, err)
	must(t, ns.SetLink("lo", netdev.Settings{State: netdev.Up}))
	conn, err := socket.SyscallConn()
	must(t, err)
	must(t, conn.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1) }))
	must(t, err)
	route := func(i int) netdev.Route {
		return netdev.Route{Dest: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32), Link: "lo"}
	}
	for i := range 100 {
		must(t, ns.ReplaceRoute(route(i)))
	}
	events := make(chan netdev.Event, 64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		netdev.ReadRouteEvents(t.Context(), socket, events)
	}()
	waitEvent(t, events, func(e netdev.Event) bool { return e.Kind == netdev.Lost })
	must(t, ns.DeleteRoute(route(1)))
	waitEvent(t, events, func(e netdev.Event) bool { return e.Kind == netdev.RouteEvent && e.Gone && e.Index == 1 })
	must(t, socket.Close())
	<-ended
}

// TestWatch_OfNoNamespaceIsAnError at once, not a closed channel.
func TestWatch_OfNoNamespaceIsAnError(t *testing.T) {
	if _, err := netdev.NoNamespace().Watch(t.Context()); err == nil {
		t.Error("watches no namespace")
	}
}

func waitEvent(t *testing.T, events <-chan netdev.Event, ok func(netdev.Event) bool) {
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

func waitClosed(t *testing.T, events <-chan netdev.Event) {
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
