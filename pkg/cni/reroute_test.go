package cni

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

const (
	outEntry   = `{"ip_addresses":["10.8.0.7/24"],"mac_address":"0a:58:0a:08:00:07",%s"role":"secondary","interface":"net1","network":"red-network"}`
	twoRoutes  = `"routes":[{"dest":"203.0.113.0/24","nextHop":"10.8.0.1"},{"dest":"198.51.100.0/24","nextHop":"10.8.0.1"}],`
	otherRoute = `"routes":[{"dest":"203.0.113.0/24","nextHop":"10.8.0.2"}],`
)

// routesOf are those of net1 but the pod's own, of all tables.
func routesOf(t *testing.T, n *node, name string) string {
	t.Helper()
	pod, err := n.net.Open("/ns/a")
	must(t, err)
	routes, err := pod.Routes(name)
	must(t, err)
	var list []string
	for _, r := range routes {
		list = append(list, netdev.Route{Dest: r.Dest, NextHop: r.NextHop}.String())
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// follow runs what follows the annotations of pods.
func (n *node) follow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = n.srv.Routes().Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func (n *node) wantRoutes(t *testing.T, name, want string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); routesOf(t, n, name) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("routes of %s: %s, want %s", name, routesOf(t, n, name), want)
		}
	}
}

// TestReroute_FollowsTheAnnotation: routes come, change and go while the pod runs; those of the pod itself and of its default
// network stay.
func TestReroute_FollowsTheAnnotation(t *testing.T) {
	put := func(n *node, routes string) {
		n.putPod(web, podOf("red", map[string]string{"default/red": fmt.Sprintf(outEntry, routes)}))
	}
	n := newNode(t)
	put(n, "")
	n.srv.cfg.Native = true
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	pod, err := n.net.Open("/ns/a")
	must(t, err)
	must(t, pod.ReplaceRoute(netdev.Route{Dest: prefixes("192.0.2.0/24")[0], NextHop: prefixes("10.8.0.9/32")[0].Addr(), Link: "net1"}))
	before := routesOf(t, n, "eth0")
	n.follow(t)
	for _, step := range [][2]string{
		{"", "192.0.2.0/24 via 10.8.0.9"},
		{twoRoutes, "192.0.2.0/24 via 10.8.0.9, 198.51.100.0/24 via 10.8.0.1, 203.0.113.0/24 via 10.8.0.1"},
		{otherRoute, "192.0.2.0/24 via 10.8.0.9, 203.0.113.0/24 via 10.8.0.2"},
		{"", "192.0.2.0/24 via 10.8.0.9"},
	} {
		put(n, step[0])
		n.srv.Routes().Changed(web)
		n.wantRoutes(t, "net1", step[1])
	}
	if got := routesOf(t, n, "eth0"); got != before {
		t.Errorf("routes of eth0: %s, before %s", got, before)
	}
}

// TestReroute_AfterARestart: what changed while there was no agent is found at its start.
func TestReroute_AfterARestart(t *testing.T) {
	n := newNode(t)
	n.srv.cfg.Native = true
	n.putPod(web, podOf("red", map[string]string{"default/red": fmt.Sprintf(outEntry, twoRoutes)}))
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	n.putPod(web, podOf("red", map[string]string{"default/red": fmt.Sprintf(outEntry, otherRoute)}))
	n.srv = n.newServer(n.host, func(path string) (PodLinks, error) { return n.net.Open(path) })
	n.follow(t)
	n.wantRoutes(t, "net1", "203.0.113.0/24 via 10.8.0.2")
}

// TestReroute_InterfacesOfOneNetwork have the routes in their own tables, too.
func TestReroute_InterfacesOfOneNetwork(t *testing.T) {
	n := newNative(t, threeNetworks())
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	more := func(i int) string {
		return strings.Replace(fmt.Sprintf(redEntry, i, i), `"routes":[`, fmt.Sprintf(`"routes":[{"dest":"10.7.0.0/16","nextHop":"10.9.%d.1"},`, i), 1)
	}
	n.putPod(web, podOf("red, red, lab/vlan7", map[string]string{"default/red": more(1), "default/red/1": more(2), "lab/vlan7": bareEntry}))
	n.follow(t)
	for name, want := range map[string]string{
		"net1": "10.7.0.0/16 via 10.9.1.1, 10.7.0.0/16 via 10.9.1.1, 10.9.0.0/16 via 10.9.1.1, 10.9.0.0/16 via 10.9.1.1, 10.9.1.0/24",
		"net2": "10.7.0.0/16 via 10.9.2.1, 10.7.0.0/16 via 10.9.2.1, 10.9.0.0/16 via 10.9.2.1, 10.9.0.0/16 via 10.9.2.1, 10.9.2.0/24",
	} {
		n.wantRoutes(t, name, want)
	}
}
