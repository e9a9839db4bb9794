//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestService_AnswersAtExternalAddresses: what clients find at external addresses of services and at those that a load
// balancer gave, and that nothing answers there when the service is deleted.
func TestService_AnswersAtExternalAddresses(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	w := world.Shared(t)
	rows := append(addressesOfNodes(t, w), externalAddresses(t, w), sourceRanges(t, w), withoutNodePorts(t, w))
	world.Check(t, append(rows, affinities(t, w)...)...)
}

// externalAddresses: a service answers the external host and pods at its external address and at the address that a load
// balancer gave. The next address does not answer.
func externalAddresses(t *testing.T, w *world.World) *world.Row {
	external, given := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("203.0.113.8")
	r := newServiceRow(t, w, "external and given addresses answer", func(spec *corev1.ServiceSpec) {
		selecting("server", "server-2")(spec)
		spec.Type, spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, []string{external.String()}
	})
	r.web = world.GiveAddresses(t, r.web, given.String())
	world.RouteOutside(t, "203.0.113.0/28", world.InternalIP(t, nodes[0]))
	r.then(nil, func() []world.Finding {
		spots := world.SpotsAt([]netip.Addr{external, given}, world.ServicePort, []string{"server-2"}, nil)
		beside := world.SpotsAt([]netip.Addr{netip.MustParseAddr("203.0.113.9")}, world.ServicePort, nil, nil)
		return append(found(spots, w.Clients[1]), world.Finding{From: w.External, Spots: append(spots, beside...)})
	})
	r.Repeats = true
	return r.row()
}

// sourceRanges: at the address that a load balancer gave, the sources that the service names are answered and no
// others, which are as soon as they are named; node ports, other addresses and pods know no such limit.
func sourceRanges(t *testing.T, w *world.World) *world.Row {
	external, given := netip.MustParseAddr("203.0.113.17"), []netip.Addr{netip.MustParseAddr("203.0.113.18")}
	own := w.External.Addresses(t)
	var asker []string
	for _, addr := range own {
		asker = append(asker, netip.PrefixFrom(addr, addr.BitLen()).String())
	}
	if len(own) > 1 {
		given = append(given, netip.MustParseAddr("2001:db8:113::18"))
	}
	r := newServiceRow(t, w, "source ranges limit clients outside", func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, []string{external.String()}
		spec.LoadBalancerSourceRanges = asker
		withNodePorts(spec)
	})
	r.web = world.GiveAddresses(t, r.web, textsOf(given)...)
	for _, addr := range w.Machines[0].Addresses(t) {
		world.RouteOutside(t, map[bool]string{true: "203.0.113.16/28", false: "2001:db8:113::/64"}[addr.Is4()], addr)
	}
	servers := namesOf(w.Servers...)
	finds := func(outside []string) func() []world.Finding {
		return func() []world.Finding {
			spots := world.SpotsAt(given, world.ServicePort, outside, nil)
			spots = append(spots, world.SpotsAt([]netip.Addr{external}, world.ServicePort, servers, nil)...)
			spots = append(spots, r.atNodePort(t, w.Machines[0], servers, nil)...)
			return append(found(world.SpotsAt(given, world.ServicePort, servers, nil), w.Clients[1]),
				world.Finding{From: w.External, Spots: spots})
		}
	}
	limit := func(ranges ...string) func(*corev1.ServiceSpec) {
		return func(spec *corev1.ServiceSpec) { spec.LoadBalancerSourceRanges = ranges }
	}
	r.then(nil, finds(servers))
	r.then(limit("198.51.100.0/24", "2001:db8:9::/64"), finds(nil))
	r.then(limit(), finds(servers))
	r.Repeats = true
	return r.row()
}

// withoutNodePorts: the address that a load balancer gave answers, with node ports beside it and when they have been
// given up, which then do not.
func withoutNodePorts(t *testing.T, w *world.World) *world.Row {
	r := newServiceRow(t, w, "a given address answers without node ports", func(spec *corev1.ServiceSpec) {
		spec.Type, spec.Selector = corev1.ServiceTypeLoadBalancer, map[string]string{"server": "server-2"}
		withNodePorts(spec)
	})
	var given []netip.Addr
	for _, via := range w.Machines[0].Addresses(t) {
		addr := netip.MustParseAddr(map[bool]string{true: "198.51.100.200", false: "2001:db8:51::200"}[via.Is4()])
		given = append(given, addr)
		world.RouteOutside(t, addr.String(), via)
	}
	r.web = world.GiveAddresses(t, r.web, textsOf(given)...)
	had := *r
	finds := func(atNodes ...string) func() []world.Finding {
		return func() []world.Finding {
			spots := world.SpotsAt(given, world.ServicePort, []string{"server-2"}, nil)
			for _, node := range w.Machines {
				spots = append(spots, had.atNodePort(t, node, atNodes, nil)...)
			}
			return append(found(spots, w.Clients[1]), world.Finding{From: w.External, Spots: spots},
				world.Finding{From: w.Machines[1], Spots: spots})
		}
	}
	r.then(nil, finds("server-2"))
	none := false
	r.then(func(spec *corev1.ServiceSpec) {
		spec.AllocateLoadBalancerNodePorts = &none
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}, func() []world.Finding {
		if r.web.Spec.Ports[0].NodePort != 0 {
			t.Errorf("the API has kept the node ports: %v", r.web.Spec.Ports)
		}
		return finds()()
	})
	return r.row()
}

// addressesOfNodes: a service with a node's own addresses in the status of its load balancer answers there to all
// clients, with either policy: the node itself, a host-network pod and an ordinary one, another node, and an external
// client. At another port there is no answer.
func addressesOfNodes(t *testing.T, w *world.World) (rows []*world.Row) {
	for i, policy := range map[int]corev1.ServiceExternalTrafficPolicy{1: corev1.ServiceExternalTrafficPolicyCluster,
		2: corev1.ServiceExternalTrafficPolicyLocal} {
		server := fmt.Sprint("server-", i)
		r := newServiceRow(t, w, "a given address is a node's, policy "+string(policy), func(spec *corev1.ServiceSpec) {
			selecting("server", server)(spec)
			spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, policy
		})
		own := w.Machines[i].Addresses(t)
		r.web = world.GiveAddresses(t, r.web, textsOf(own)...)
		r.then(nil, func() []world.Finding {
			spots := append(world.SpotsAt(own, world.ServicePort, []string{server}, nil),
				world.SpotsAt(own, world.ServicePort+1, nil, nil)...)
			all := append(found(spots, w.Clients[i], w.Hosts[i]), world.Finding{From: w.External, Spots: spots})
			for _, node := range w.Machines {
				all = append(all, world.Finding{From: node, Spots: spots})
			}
			return all
		})
		rows = append(rows, r.row())
	}
	return rows
}

// affinities: two services with affinity share an address, and a third has an endpoint with them; a client of all three
// gets each one's endpoint.
func affinities(t *testing.T, w *world.World) (rows []*world.Row) {
	const shared = "203.0.113.77"
	for name, of := range map[string]struct {
		server, addr string
		port         uint16
	}{
		"affinity at a port of a shared address":       {"server-0", shared, 80},
		"affinity at another port of a shared address": {"server-1", shared, 81},
		"affinity with the endpoint of another":        {"server-1", "203.0.113.78", 80},
	} {
		r := newServiceRow(t, w, name, func(spec *corev1.ServiceSpec) {
			sticky(spec, 600)
			spec.Selector, spec.ExternalIPs = map[string]string{"server": of.server}, []string{of.addr}
			spec.Ports[0].Port, spec.Ports[1].Port = int32(of.port), int32(of.port)
		})
		r.then(nil, func() []world.Finding {
			return found(world.SpotsAt([]netip.Addr{netip.MustParseAddr(of.addr)}, of.port, []string{of.server}, nil),
				w.Clients[1])
		})
		rows = append(rows, r.row())
	}
	return rows
}
