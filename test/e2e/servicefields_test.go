//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// nodePortSpots are those at a node's addresses, each protocol's with its own port.
func nodePortSpots(t *testing.T, node string, ports []corev1.ServicePort, servers []string) []world.Spot {
	t.Helper()
	var out []world.Spot
	for _, addr := range world.NodeAddresses(t, node) {
		for _, port := range ports {
			target := strings.ToLower(string(port.Protocol)) + ":" + netip.AddrPortFrom(addr, uint16(port.NodePort)).String()
			out = append(out, world.Spot{Target: target, Servers: servers})
		}
	}
	return out
}

func textsOf(addrs []netip.Addr) []string {
	var out []string
	for _, addr := range addrs {
		out = append(out, addr.String())
	}
	return out
}

// TestExternalIPs_AddressesOfOthersAreRefused: a service does not answer at external IPs that are addresses of a node or
// of another service, and an Event has the reason. It answers at an unused address. The owners of the refused addresses
// continue to answer.
func TestExternalIPs_AddressesOfOthersAreRefused(t *testing.T) {
	world.Test(t, world.Services, world.Strict)
	const port = 83 // services of tests beside this one have addresses of nodes, too, at other ports
	at := func(spec *corev1.ServiceSpec) {
		for i := range spec.Ports {
			spec.Ports[i].Port = port
		}
	}
	const owner, thieving = "server-2", "server-0"
	w := world.Shared(t)
	victim := world.Service(t, w.Namespace, func(spec *corev1.ServiceSpec) {
		at(spec)
		selecting("server", owner)(spec)
	})
	own, free := world.NodeAddresses(t, nodes[1]), []netip.Addr{netip.MustParseAddr("198.51.100.202"),
		netip.MustParseAddr("2001:db8:51::202")}[:len(world.ClusterAddresses(victim))]
	thief := world.Service(t, w.Namespace, func(spec *corev1.ServiceSpec) {
		at(spec)
		selecting("server", thieving)(spec)
		spec.ExternalIPs = textsOf(slices.Concat(own, free, world.ClusterAddresses(victim)))
	})
	for _, c := range []world.Client{world.FromPod(w.Clients[1]), w.Machines[0]} {
		c.Finds(t, slices.Concat(world.SpotsAt(free, port, []string{thieving}, nil), world.SpotsAt(own, port, nil, nil),
			world.SpotsAt(world.ClusterAddresses(victim), port, []string{owner}, nil)))
	}
	world.Eventually(t, world.ServiceWithin, "an Event says so", func() (bool, string) {
		events, err := cluster.client.EventsV1().Events(w.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, e := range events.Items {
			if e.Reason == "ExternalIPRefused" && e.Regarding.Name == thief.Name && strings.Contains(e.Note, own[0].String()) {
				return true, ""
			}
		}
		return false, fmt.Sprint(len(events.Items), " Events")
	})
}

// TestService_EarlierUDPStreamIsAnswered: what a process of a node sends by UDP to a node port
// and an external address of a service, since before there is any, is answered once
// there is one, although no datagram of it begins a connection.
func TestService_EarlierUDPStreamIsAnswered(t *testing.T) {
	world.Test(t, world.Services)
	w := world.Shared(t)
	const nodePort = 30011 // of those that the API server gives last
	for _, own := range world.NodeAddresses(t, nodes[1]) {
		external := netip.MustParseAddr(map[bool]string{true: "198.51.100.201", false: "2001:db8:51::201"}[own.Is4()])
		var streams []*flow
		targets := []netip.AddrPort{netip.AddrPortFrom(own, nodePort), netip.AddrPortFrom(external, world.ServicePort)}
		for _, to := range targets {
			streams = append(streams, beginFlow(t, w.Namespace, w.Hosts[1].Name, "udp", to))
		}
		for _, to := range targets {
			remembers(t, nodes[1], to)
		}
		web := world.Service(t, w.Namespace, func(spec *corev1.ServiceSpec) {
			selecting("server", "server-2")(spec)
			spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
			spec.ExternalIPs = []string{external.String()}
			for i := range spec.Ports {
				if spec.Ports[i].Protocol == corev1.ProtocolUDP {
					spec.Ports[i].NodePort = nodePort
				}
			}
		})
		for _, stream := range streams {
			stream.wantAnswer(t, world.ServiceWithin)
			stream.stop()
		}
		world.DeleteService(t, w.Namespace, web.Name)
	}
}

// remembers waits until a node's connection tracking has a UDP flow to an address.
func remembers(t *testing.T, node string, to netip.AddrPort) {
	t.Helper()
	family := map[bool]string{true: "ipv4", false: "ipv6"}[to.Addr().Is4()]
	world.Eventually(t, world.ServiceWithin, fmt.Sprintf("%s remembers a flow to %s", node, to), func() (bool, string) {
		out, err := world.OnNode(node, "conntrack", "-L", "-f", family, "-p", "udp", "-d", to.Addr().String(), "--dport",
			fmt.Sprint(to.Port()))
		return err == nil && strings.Contains(out, "dport="), out
	})
}

// TestService_NewConnectionsAvoidRemovedEndpoint: while pods, a node and the outside begin
// connections without pause one of three endpoints goes, with its pod or without
// it. When the nodes have that in their flows no further connection is lost or led
// there; when the last endpoints have gone none succeeds. A service of the pod that asks is the witness of the machine.
func TestService_NewConnectionsAvoidRemovedEndpoint(t *testing.T) {
	world.Test(t, world.Services)
	for what, end := range map[string]func(*testing.T, *corev1.Pod){
		"deleted": func(t *testing.T, pod *corev1.Pod) { world.DeletePod(t, pod.Namespace, pod.Name) },
		"retired": func(t *testing.T, pod *corev1.Pod) { world.LabelPod(t, pod, `{"app":"retired"}`) },
	} {
		t.Run(what, func(t *testing.T) { endpointEnds(t, end) })
	}
}

func endpointEnds(t *testing.T, end func(*testing.T, *corev1.Pod)) {
	ns := world.Namespace(t)
	names := []string{"server-0", "server-1", "server-2"}
	pods := serversOn(t, ns, nodes...)
	w := world.Shared(t)
	const kept = "server-2"
	witness := world.Service(t, w.Namespace, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.Selector = corev1.ServiceTypeNodePort, map[string]string{"server": kept}
	})
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	of := func(service *corev1.Service, c world.Client, servers ...string) []world.Spot {
		if c.Node != "" {
			return world.SpotsAt(world.ClusterAddresses(service), world.ServicePort, servers, nil)
		}
		return nodePortSpots(t, nodes[1], service.Spec.Ports, servers)
	}
	spots := func(c world.Client, servers []string) []world.Spot { return of(web, c, servers...) }
	clients := []world.Client{w.External, w.Machines[1], world.FromPod(w.Clients[1])}
	var stops []func()
	for _, c := range clients {
		c.Finds(t, of(witness, c, kept))
		c.Finds(t, spots(c, names))
		stops = append(stops, world.KeepAsking(t, c, spots(c, names)))
	}
	end(t, pods[2])
	awaitWithout(t, web, world.Addresses(pods[2]))
	for _, stop := range stops { // or they would take the processors from the connections that count
		stop()
	}
	for _, c := range clients {
		c.FindsBeside(t, tier.Pick(40, 100), spots(c, names[:2]), of(witness, c, kept))
	}
	for _, pod := range pods[:2] {
		end(t, pod)
		awaitWithout(t, web, world.Addresses(pod))
	}
	for _, c := range clients {
		if wrong := world.Mismatches(c, 5, true, spots(c, nil)); wrong != "" {
			t.Errorf("without endpoints %s finds\n%s", c.Name, wrong)
		}
	}
}

// awaitWithout waits until every node has flows without an endpoint, those of its
// datapath included.
func awaitWithout(t *testing.T, service *corev1.Service, gone []netip.Addr) {
	t.Helper()
	world.Eventually(t, world.ServiceWithin, fmt.Sprintf("%s has no endpoint %s", service.Name, gone), func() (bool, string) {
		out := vipsOf(t, service)
		for _, addr := range gone {
			if strings.Contains(out, netip.AddrPortFrom(addr, world.EchoPort).String()) {
				return false, out
			}
		}
		return true, ""
	})
	synced(t)
}
