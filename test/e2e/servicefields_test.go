//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// spotsAt are those at the addresses with a port, one for each protocol.
func spotsAt(addrs []netip.Addr, port uint16, servers []string, seen []netip.Addr) []spot {
	var out []spot
	for _, addr := range addrs {
		for _, network := range []string{"tcp", "udp"} {
			out = append(out, spot{network + ":" + netip.AddrPortFrom(addr, port).String(), servers, ofFamily(seen, addr)})
		}
	}
	return out
}

// nodePortSpots are those at a node's addresses, each protocol's with its own port.
func nodePortSpots(t *testing.T, node string, ports []corev1.ServicePort, servers []string) []spot {
	t.Helper()
	var out []spot
	for _, addr := range machineAddresses(t, node) {
		for _, port := range ports {
			target := strings.ToLower(string(port.Protocol)) + ":" + netip.AddrPortFrom(addr, uint16(port.NodePort)).String()
			out = append(out, spot{target: target, servers: servers})
		}
	}
	return out
}

// hostPortPod serves on nodes[1] under its name, at ports of the node.
func hostPortPod(t *testing.T, ns, name, serve string, ports ...corev1.ContainerPort) *corev1.Pod {
	t.Helper()
	pod := podObject(ns, name, nodes[1], "probe", serve, fmt.Sprint(echoPort), name)
	for i := range ports {
		ports[i].ContainerPort = echoPort
	}
	pod.Spec.Containers[0].Ports = ports
	return streaming(t, pod)
}

// TestService_LoadBalancerWithAddressOfNode: a service with a node's own addresses in the status of its load balancer
// answers there to all clients, with either policy: the node itself, a host-network pod and an ordinary one, another
// node, and an external client. At another port, and without the service, there is no answer.
func TestService_LoadBalancerWithAddressOfNode(t *testing.T) {
	world.Test(t, world.Services)
	ns := namespace(t)
	server(t, ns, "server", nodes[1])
	own := machineAddresses(t, nodes[1])
	clients := []client{machineClient(t, outside), podClient(t, running(t, ns, "pod", nodes[1])), podClient(t, hostPod(t, ns, "host", nodes[1]))}
	for _, node := range nodes {
		clients = append(clients, machineClient(t, node))
	}
	for _, policy := range []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal} {
		web := service(t, ns, func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, policy
		})
		web = giveAddresses(t, web, textsOf(own)...)
		for _, servers := range [][]string{{"server"}, nil} {
			for _, c := range clients {
				c.finds(t, append(spotsAt(own, servicePort, servers, nil), spotsAt(own, servicePort+1, nil, nil)...))
			}
			if servers != nil {
				deleteService(t, ns, web.Name)
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
	ns := namespace(t)
	thieving := serverObject(ns, "thief", nodes[0])
	thieving.Labels["app"] = "thief"
	from := allRunning(t, serverObject(ns, "server", nodes[2]), thieving, podObject(ns, "from", nodes[1]))[2]
	victim := service(t, ns, at)
	own, free := machineAddresses(t, nodes[1]), []netip.Addr{netip.MustParseAddr("198.51.100.202"), netip.MustParseAddr("2001:db8:51::202")}[:len(clusterAddresses(victim))]
	thief := service(t, ns, func(spec *corev1.ServiceSpec) {
		at(spec)
		spec.Selector = map[string]string{"app": "thief"}
		spec.ExternalIPs = textsOf(slices.Concat(own, free, clusterAddresses(victim)))
	})
	for _, c := range []client{podClient(t, from), machineClient(t, nodes[0])} {
		c.finds(t, slices.Concat(spotsAt(free, port, []string{"thief"}, nil), spotsAt(own, port, nil, nil),
			spotsAt(clusterAddresses(victim), port, []string{"server"}, nil)))
	}
	eventually(t, serviceWithin, "an Event says so", func() (bool, string) {
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
	ns := namespace(t)
	server(t, ns, "server", nodes[2])
	host := hostPod(t, ns, "host", nodes[1])
	const nodePort = 30011 // of those that the API server gives last
	for _, own := range machineAddresses(t, nodes[1]) {
		external := netip.MustParseAddr(map[bool]string{true: "198.51.100.201", false: "2001:db8:51::201"}[own.Is4()])
		var streams []*flow
		targets := []netip.AddrPort{netip.AddrPortFrom(own, nodePort), netip.AddrPortFrom(external, servicePort)}
		for _, to := range targets {
			streams = append(streams, beginFlow(t, ns, host.Name, "udp", to))
		}
		for _, to := range targets {
			remembers(t, nodes[1], to)
		}
		web := service(t, ns, func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
			spec.ExternalIPs = []string{external.String()}
			for i := range spec.Ports {
				if spec.Ports[i].Protocol == corev1.ProtocolUDP {
					spec.Ports[i].NodePort = nodePort
				}
			}
		})
		for _, stream := range streams {
			stream.wantAnswer(t, serviceWithin)
			stream.stop()
		}
		deleteService(t, ns, web.Name)
	}
}

// remembers waits until a node's connection tracking has a UDP flow to an address.
func remembers(t *testing.T, node string, to netip.AddrPort) {
	t.Helper()
	family := map[bool]string{true: "ipv4", false: "ipv6"}[to.Addr().Is4()]
	eventually(t, serviceWithin, fmt.Sprintf("%s remembers a flow to %s", node, to), func() (bool, string) {
		out, err := onNode(node, "conntrack", "-L", "-f", family, "-p", "udp", "-d", to.Addr().String(), "--dport", fmt.Sprint(to.Port()))
		return err == nil && strings.Contains(out, "dport="), out
	})
}

// TestHostPort_AnswersAtItsHostIP: host ports with the node's address answer there to an external client, the node itself
// and a pod of another node. Host ports with an unused address do not, although their pod answers. Two pods of a node
// have the same port in two protocols, and the end of one pod closes only its own port.
func TestHostPort_AnswersAtItsHostIP(t *testing.T) {
	world.Test(t, world.Services)
	const named, nobodys, shared = 29990, 29991, 29992
	ns := namespace(t)
	own := machineAddresses(t, nodes[1])
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
	from := podClient(t, running(t, ns, "from", nodes[2]))
	spots := func(seen []netip.Addr, udp ...string) []spot {
		out := append(spotsAt(own, named, []string{"here"}, seen), spotsAt(own, nobodys, nil, nil)...)
		for _, s := range spotsAt(own, shared, []string{"tcp"}, seen) {
			if strings.HasPrefix(s.target, "udp") {
				s.servers = udp
			}
			out = append(out, s)
		}
		return out
	}
	to, itself := machineClient(t, outside), machineClient(t, nodes[1])
	to.finds(t, spots(to.own, "udp"))
	itself.finds(t, spots(nil, "udp"))
	from.finds(t, append(spots(machineAddresses(t, nodes[2]), "udp"), spotsAt(addresses(t, elsewhere), echoPort, []string{"nowhere"}, from.own)...))
	deletePod(t, ns, "udp")
	to.finds(t, spots(to.own))
	itself.finds(t, spots(nil))
	from.finds(t, spots(machineAddresses(t, nodes[2])))
}

// TestHostPort_SCTPAssociationBegins: an association with a host port begins, from outside, whose
// address the pod sees, and from a pod of another node; it does not when the pod is
// gone.
func TestHostPort_SCTPAssociationBegins(t *testing.T) {
	world.Test(t, world.Services)
	const hostPort = 29993
	ns := namespace(t)
	hostPortPod(t, ns, "server", "serve-sctp", corev1.ContainerPort{HostPort: hostPort, Protocol: corev1.ProtocolSCTP})
	clients := []client{machineClient(t, outside), podClient(t, running(t, ns, "from", nodes[2]))}
	check := func(answered bool) {
		t.Helper()
		for _, c := range clients {
			for _, addr := range machineAddresses(t, nodes[1]) {
				address := netip.AddrPortFrom(addr, hostPort).String()
				eventually(t, serviceWithin, fmt.Sprintf("%s answers %s: %t", address, c.name, answered), func() (bool, string) {
					got, err := readAnswer(c.run("probe", "dial", "sctp", address))
					kept := c.pod || got.seen == ofFamily(c.own, addr).String()
					return (err == nil) == answered && (kept || !answered), fmt.Sprint(got, err)
				})
			}
		}
	}
	check(true)
	deletePod(t, ns, "server")
	check(false)
}

// TestService_LoadBalancerWithoutNodePorts: the address that a load balancer gave answers, with
// node ports beside it and when they have been given up, which then do not.
func TestService_LoadBalancerWithoutNodePorts(t *testing.T) {
	world.Test(t, world.Services)
	ns := namespace(t)
	server(t, ns, "server", nodes[2])
	web := service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeLoadBalancer })
	var given []netip.Addr
	for _, via := range machineAddresses(t, nodes[0]) {
		addr := netip.MustParseAddr(map[bool]string{true: "198.51.100.200", false: "2001:db8:51::200"}[via.Is4()])
		given = append(given, addr)
		routeOutside(t, addr.String(), via)
	}
	var texts []string
	for _, addr := range given {
		texts = append(texts, addr.String())
	}
	web = giveAddresses(t, web, texts...)
	ports := web.Spec.Ports
	clients := []client{machineClient(t, outside), machineClient(t, nodes[1]), podClient(t, running(t, ns, "from", nodes[1]))}
	check := func(servers ...string) {
		t.Helper()
		spots := spotsAt(given, servicePort, []string{"server"}, nil)
		for _, node := range nodes {
			spots = append(spots, nodePortSpots(t, node, ports, servers)...)
		}
		for _, c := range clients {
			c.finds(t, spots)
		}
	}
	check("server")
	none := false
	web = updateService(t, web, func(spec *corev1.ServiceSpec) {
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
	ns := namespace(t)
	pod := podObject(ns, "unready", nodes[2], "probe", "serve", fmt.Sprint(echoPort), "unready")
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}}
	streaming(t, pod)
	publish := func(spec *corev1.ServiceSpec) { spec.PublishNotReadyAddresses = true }
	published, plain := clusterAddresses(service(t, ns, publish)), service(t, ns, nil)
	clients := []client{podClient(t, running(t, ns, "from", nodes[1])), machineClient(t, nodes[1])}
	check := func(servers ...string) {
		t.Helper()
		for _, c := range clients {
			c.finds(t, append(spotsAt(published, servicePort, []string{"unready"}, nil), spotsAt(clusterAddresses(plain), servicePort, servers, nil)...))
		}
	}
	check()
	updateService(t, plain, publish)
	check("unready")
}

// TestService_InternalTrafficPolicyLocalForNodes: a node's own processes reach its own endpoint
// alone, and nothing where there is none; without the policy they reach all.
func TestService_InternalTrafficPolicyLocalForNodes(t *testing.T) {
	world.Test(t, world.Services)
	ns := namespace(t)
	for i, node := range nodes[:2] {
		server(t, ns, fmt.Sprintf("server-%d", i), node)
	}
	local := corev1.ServiceInternalTrafficPolicyLocal
	near, wide := service(t, ns, func(spec *corev1.ServiceSpec) { spec.InternalTrafficPolicy = &local }), service(t, ns, nil)
	own := [][]string{{"server-0"}, {"server-1"}, nil}
	for i, node := range nodes {
		spots := append(spotsAt(clusterAddresses(near), servicePort, own[i], nil), spotsAt(clusterAddresses(wide), servicePort, []string{"server-0", "server-1"}, nil)...)
		for _, c := range []client{machineClient(t, node), podClient(t, hostPod(t, ns, "host-"+node, node))} {
			c.finds(t, spots)
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
		"deleted": func(t *testing.T, pod *corev1.Pod) { deletePod(t, pod.Namespace, pod.Name) },
		"retired": func(t *testing.T, pod *corev1.Pod) { label(t, pod, `{"app":"retired"}`) },
	} {
		t.Run(what, func(t *testing.T) { endpointEnds(t, end) })
	}
}

func endpointEnds(t *testing.T, end func(*testing.T, *corev1.Pod)) {
	ns := namespace(t)
	names := []string{"server-0", "server-1", "server-2"}
	pods := serversOn(t, ns, nodes...)
	kept := serverObject(ns, "kept", nodes[2])
	kept.Labels["app"] = "kept"
	from := allRunning(t, podObject(ns, "from", nodes[1]), kept)[0]
	witness := service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.Selector = corev1.ServiceTypeNodePort, map[string]string{"app": "kept"}
	})
	web := service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	of := func(service *corev1.Service, c client, servers ...string) []spot {
		if c.node != "" {
			return spotsAt(clusterAddresses(service), servicePort, servers, nil)
		}
		return nodePortSpots(t, nodes[1], service.Spec.Ports, servers)
	}
	spots := func(c client, servers []string) []spot { return of(web, c, servers...) }
	clients := []client{machineClient(t, outside), machineClient(t, nodes[1]), podClient(t, from)}
	var stops []func()
	for _, c := range clients {
		c.finds(t, of(witness, c, "kept"))
		c.finds(t, spots(c, names))
		stops = append(stops, c.asking(t, spots(c, names)))
	}
	end(t, pods[2])
	awaitWithout(t, web, addresses(t, pods[2]))
	for _, stop := range stops { // or they would take the processors from the connections that count
		stop()
	}
	for _, c := range clients {
		c.findsBeside(t, tier.Pick(40, 100), spots(c, names[:2]), of(witness, c, "kept"))
	}
	for _, pod := range pods[:2] {
		end(t, pod)
		awaitWithout(t, web, addresses(t, pod))
	}
	for _, c := range clients {
		if wrong := c.look(5, true, spots(c, nil)); wrong != "" {
			t.Errorf("without endpoints %s finds\n%s", c.name, wrong)
		}
	}
}

// findsBeside asks so many times without one loss, while a witness asks as often. Where the witness has a loss the machine
// may have lost the others, and both ask again. Answers of other servers, and refusals, are not the machine's.
func (c client) findsBeside(t *testing.T, times int, spots, witness []spot) {
	t.Helper()
	for range 5 {
		var beside string
		var both sync.WaitGroup
		both.Go(func() { beside = c.look(times, false, witness) })
		wrong := c.look(times, false, spots)
		both.Wait()
		if wrong == "" {
			return
		}
		if beside == "" || strings.Contains(wrong, "who see") || strings.Contains(wrong, "refused") {
			t.Errorf("%s finds\n%s", c.name, wrong)
			return
		}
		t.Logf("once more, for the witness finds\n%s", beside)
	}
	t.Errorf("%s: the machine is too busy to tell", c.name)
}

// asking begins connections until stop, or the end of the test.
func (c client) asking(t *testing.T, spots []spot) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			c.look(5, true, spots)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// awaitWithout waits until every node has flows without an endpoint, those of its
// datapath included.
func awaitWithout(t *testing.T, service *corev1.Service, gone []netip.Addr) {
	t.Helper()
	eventually(t, serviceWithin, fmt.Sprintf("%s has no endpoint %s", service.Name, gone), func() (bool, string) {
		out := vipsOf(t, service)
		for _, addr := range gone {
			if strings.Contains(out, netip.AddrPortFrom(addr, echoPort).String()) {
				return false, out
			}
		}
		return true, ""
	})
	synced(t)
}
