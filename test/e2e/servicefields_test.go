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

// hostPortPod serves on nodes[1] under its name, at ports of the node.
func hostPortPod(t *testing.T, ns, name, serve string, ports ...corev1.ContainerPort) *corev1.Pod {
	t.Helper()
	pod := world.Pod(ns, name, nodes[1], world.Command("probe", serve, fmt.Sprint(world.EchoPort), name))
	for i := range ports {
		ports[i].ContainerPort = world.EchoPort
	}
	pod.Spec.Containers[0].Ports = ports
	return world.Run(t, pod)[0]
}

// TestService_LoadBalancerWithAddressOfNode: a service with a node's own addresses in the status of its load balancer
// answers there to all clients, with either policy: the node itself, a host-network pod and an ordinary one, another
// node, and an external client. At another port, and without the service, there is no answer.
func TestService_LoadBalancerWithAddressOfNode(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	world.Run(t, world.Pod(ns, "server", nodes[1], world.Behind("web")))
	own := world.NodeAddresses(t, nodes[1])
	clients := []world.Client{world.FromNode(outside), world.FromPod(world.Run(t, world.Pod(ns, "pod", nodes[1]))[0]),
		world.FromPod(world.Run(t, world.Pod(ns, "host", nodes[1], world.OnHost()))[0])}
	for _, node := range nodes {
		clients = append(clients, world.FromNode(node))
	}
	for _, policy := range []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal} {
		web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, policy
		})
		web = world.GiveAddresses(t, web, textsOf(own)...)
		for _, servers := range [][]string{{"server"}, nil} {
			for _, c := range clients {
				c.Finds(t, append(world.SpotsAt(own, world.ServicePort, servers, nil),
					world.SpotsAt(own, world.ServicePort+1, nil, nil)...))
			}
			if servers != nil {
				world.DeleteService(t, ns, web.Name)
			}
		}
	}
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
	ns := world.Namespace(t)
	thieving := world.Pod(ns, "thief", nodes[0], world.Behind("web"))
	thieving.Labels["app"] = "thief"
	from := world.Run(t, world.Pod(ns, "server", nodes[2], world.Behind("web")), thieving, world.Pod(ns, "from", nodes[1]))[2]
	victim := world.Service(t, ns, at)
	own, free := world.NodeAddresses(t, nodes[1]), []netip.Addr{netip.MustParseAddr("198.51.100.202"),
		netip.MustParseAddr("2001:db8:51::202")}[:len(world.ClusterAddresses(victim))]
	thief := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		at(spec)
		spec.Selector = map[string]string{"app": "thief"}
		spec.ExternalIPs = textsOf(slices.Concat(own, free, world.ClusterAddresses(victim)))
	})
	for _, c := range []world.Client{world.FromPod(from), world.FromNode(nodes[0])} {
		c.Finds(t, slices.Concat(world.SpotsAt(free, port, []string{"thief"}, nil), world.SpotsAt(own, port, nil, nil),
			world.SpotsAt(world.ClusterAddresses(victim), port, []string{"server"}, nil)))
	}
	world.Eventually(t, world.ServiceWithin, "an Event says so", func() (bool, string) {
		events, err := cluster.client.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{})
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
	ns := world.Namespace(t)
	host := world.Pod(ns, "host", nodes[1], world.OnHost())
	world.Run(t, world.Pod(ns, "server", nodes[2], world.Behind("web")), host)
	const nodePort = 30011 // of those that the API server gives last
	for _, own := range world.NodeAddresses(t, nodes[1]) {
		external := netip.MustParseAddr(map[bool]string{true: "198.51.100.201", false: "2001:db8:51::201"}[own.Is4()])
		var streams []*flow
		targets := []netip.AddrPort{netip.AddrPortFrom(own, nodePort), netip.AddrPortFrom(external, world.ServicePort)}
		for _, to := range targets {
			streams = append(streams, beginFlow(t, ns, host.Name, "udp", to))
		}
		for _, to := range targets {
			remembers(t, nodes[1], to)
		}
		web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
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
		world.DeleteService(t, ns, web.Name)
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

// TestHostPort_AnswersAtItsHostIP: host ports with the node's address answer there to an external client, the node itself
// and a pod of another node. Host ports with an unused address do not, although their pod answers. Two pods of a node
// have the same port in two protocols, and the end of one pod closes only its own port.
func TestHostPort_AnswersAtItsHostIP(t *testing.T) {
	world.Test(t, world.Services)
	const named, nobodys, shared = 29990, 29991, 29992
	ns := world.Namespace(t)
	own := world.NodeAddresses(t, nodes[1])
	var here, nowhere []corev1.ContainerPort
	for _, addr := range own {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			here = append(here, corev1.ContainerPort{HostPort: named, HostIP: addr.String(), Protocol: protocol})
			other := map[bool]string{true: "203.0.113.200", false: "2001:db8:113::200"}[addr.Is4()]
			nowhere = append(nowhere, corev1.ContainerPort{HostPort: nobodys, HostIP: other, Protocol: protocol})
		}
	}
	hostPortPod(t, ns, "here", "serve", here...)
	elsewhere := hostPortPod(t, ns, "nowhere", "serve", nowhere...)
	hostPortPod(t, ns, "tcp", "serve", corev1.ContainerPort{HostPort: shared, Protocol: corev1.ProtocolTCP})
	hostPortPod(t, ns, "udp", "serve", corev1.ContainerPort{HostPort: shared, Protocol: corev1.ProtocolUDP})
	from := world.FromPod(world.Run(t, world.Pod(ns, "from", nodes[2]))[0])
	spots := func(seen []netip.Addr, udp ...string) []world.Spot {
		out := append(world.SpotsAt(own, named, []string{"here"}, seen), world.SpotsAt(own, nobodys, nil, nil)...)
		for _, s := range world.SpotsAt(own, shared, []string{"tcp"}, seen) {
			if strings.HasPrefix(s.Target, "udp") {
				s.Servers = udp
			}
			out = append(out, s)
		}
		return out
	}
	to, itself := world.FromNode(outside), world.FromNode(nodes[1])
	to.Finds(t, spots(to.Addresses(t), "udp"))
	itself.Finds(t, spots(nil, "udp"))
	from.Finds(t, append(spots(world.NodeAddresses(t, nodes[2]), "udp"),
		world.SpotsAt(world.Addresses(elsewhere), world.EchoPort, []string{"nowhere"}, from.Addresses(t))...))
	world.DeletePod(t, ns, "udp")
	to.Finds(t, spots(to.Addresses(t)))
	itself.Finds(t, spots(nil))
	from.Finds(t, spots(world.NodeAddresses(t, nodes[2])))
}

// TestHostPort_SCTPAssociationBegins: an association with a host port begins, from outside, whose
// address the pod sees, and from a pod of another node; it does not when the pod is
// gone.
func TestHostPort_SCTPAssociationBegins(t *testing.T) {
	world.Test(t, world.Services)
	const hostPort = 29993
	ns := world.Namespace(t)
	hostPortPod(t, ns, "server", "serve-sctp", corev1.ContainerPort{HostPort: hostPort, Protocol: corev1.ProtocolSCTP})
	clients := []world.Client{world.FromNode(outside), world.FromPod(world.Run(t, world.Pod(ns, "from", nodes[2]))[0])}
	check := func(answered bool) {
		t.Helper()
		for _, c := range clients {
			for _, addr := range world.NodeAddresses(t, nodes[1]) {
				address := netip.AddrPortFrom(addr, hostPort).String()
				world.Eventually(t, world.ServiceWithin, fmt.Sprintf("%s answers %s: %t", address, c.Name, answered),
					func() (bool, string) {
						got, err := world.ReadAnswer(c.Run("probe", "dial", "sctp", address))
						kept := c.InPodNetwork || got.Seen == world.OfFamily(c.Addresses(t), addr).String()
						return (err == nil) == answered && (kept || !answered), fmt.Sprint(got, err)
					})
			}
		}
	}
	check(true)
	world.DeletePod(t, ns, "server")
	check(false)
}

// TestService_LoadBalancerWithoutNodePorts: the address that a load balancer gave answers, with
// node ports beside it and when they have been given up, which then do not.
func TestService_LoadBalancerWithoutNodePorts(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	world.Run(t, world.Pod(ns, "server", nodes[2], world.Behind("web")))
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeLoadBalancer })
	var given []netip.Addr
	for _, via := range world.NodeAddresses(t, nodes[0]) {
		addr := netip.MustParseAddr(map[bool]string{true: "198.51.100.200", false: "2001:db8:51::200"}[via.Is4()])
		given = append(given, addr)
		world.RouteOutside(t, addr.String(), via)
	}
	var texts []string
	for _, addr := range given {
		texts = append(texts, addr.String())
	}
	web = world.GiveAddresses(t, web, texts...)
	ports := web.Spec.Ports
	clients := []world.Client{world.FromNode(outside), world.FromNode(nodes[1]),
		world.FromPod(world.Run(t, world.Pod(ns, "from", nodes[1]))[0])}
	check := func(servers ...string) {
		t.Helper()
		spots := world.SpotsAt(given, world.ServicePort, []string{"server"}, nil)
		for _, node := range nodes {
			spots = append(spots, nodePortSpots(t, node, ports, servers)...)
		}
		for _, c := range clients {
			c.Finds(t, spots)
		}
	}
	check("server")
	none := false
	web = world.UpdateService(t, web, func(spec *corev1.ServiceSpec) {
		spec.AllocateLoadBalancerNodePorts = &none
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	})
	if web.Spec.Ports[0].NodePort != 0 {
		t.Fatalf("the API has kept the node ports: %v", web.Spec.Ports)
	}
	check()
}

// TestService_PublishesNotReadyAddresses: a pod that is never ready answers behind a service that
// publishes such, and not behind another until that does so, too.
func TestService_PublishesNotReadyAddresses(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	pod := world.Pod(ns, "unready", nodes[2], world.Named())
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}}
	world.Run(t, pod)
	publish := func(spec *corev1.ServiceSpec) { spec.PublishNotReadyAddresses = true }
	published, plain := world.ClusterAddresses(world.Service(t, ns, publish)), world.Service(t, ns, nil)
	clients := []world.Client{world.FromPod(world.Run(t, world.Pod(ns, "from", nodes[1]))[0]), world.FromNode(nodes[1])}
	check := func(servers ...string) {
		t.Helper()
		for _, c := range clients {
			c.Finds(t, append(world.SpotsAt(published, world.ServicePort, []string{"unready"}, nil),
				world.SpotsAt(world.ClusterAddresses(plain), world.ServicePort, servers, nil)...))
		}
	}
	check()
	world.UpdateService(t, plain, publish)
	check("unready")
}

// TestService_InternalTrafficPolicyLocalForNodes: a node's own processes reach its own endpoint
// alone, and nothing where there is none; without the policy they reach all.
func TestService_InternalTrafficPolicyLocalForNodes(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	for i, node := range nodes[:2] {
		world.Run(t, world.Pod(ns, fmt.Sprintf("server-%d", i), node, world.Behind("web")))
	}
	local := corev1.ServiceInternalTrafficPolicyLocal
	near, wide := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.InternalTrafficPolicy = &local }), world.Service(t, ns, nil)
	own := [][]string{{"server-0"}, {"server-1"}, nil}
	for i, node := range nodes {
		spots := append(world.SpotsAt(world.ClusterAddresses(near), world.ServicePort, own[i], nil),
			world.SpotsAt(world.ClusterAddresses(wide), world.ServicePort, []string{"server-0", "server-1"}, nil)...)
		for _, c := range []world.Client{world.FromNode(node),
			world.FromPod(world.Run(t, world.Pod(ns, "host-"+node, node, world.OnHost()))[0])} {
			c.Finds(t, spots)
		}
	}
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
	kept := world.Pod(ns, "kept", nodes[2], world.Behind("web"))
	kept.Labels["app"] = "kept"
	from := world.Run(t, world.Pod(ns, "from", nodes[1]), kept)[0]
	witness := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.Selector = corev1.ServiceTypeNodePort, map[string]string{"app": "kept"}
	})
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	of := func(service *corev1.Service, c world.Client, servers ...string) []world.Spot {
		if c.Node != "" {
			return world.SpotsAt(world.ClusterAddresses(service), world.ServicePort, servers, nil)
		}
		return nodePortSpots(t, nodes[1], service.Spec.Ports, servers)
	}
	spots := func(c world.Client, servers []string) []world.Spot { return of(web, c, servers...) }
	clients := []world.Client{world.FromNode(outside), world.FromNode(nodes[1]), world.FromPod(from)}
	var stops []func()
	for _, c := range clients {
		c.Finds(t, of(witness, c, "kept"))
		c.Finds(t, spots(c, names))
		stops = append(stops, c.KeepsAsking(t, spots(c, names)))
	}
	end(t, pods[2])
	awaitWithout(t, web, world.Addresses(pods[2]))
	for _, stop := range stops { // or they would take the processors from the connections that count
		stop()
	}
	for _, c := range clients {
		c.FindsBeside(t, tier.Pick(40, 100), spots(c, names[:2]), of(witness, c, "kept"))
	}
	for _, pod := range pods[:2] {
		end(t, pod)
		awaitWithout(t, web, world.Addresses(pod))
	}
	for _, c := range clients {
		if wrong := c.Mismatches(5, true, spots(c, nil)); wrong != "" {
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
