//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

func askFrom(machine, network, address string) (answer, error) {
	return readAnswer(onNode(machine, "probe", "dial", network, address))
}

// TestService_ExternalTrafficPolicyChoosesEndpoints: from outside, every node answers at the node port with
// policy Cluster; with Local those alone that have an endpoint, by their own one,
// which sees the outside's address.
func TestService_ExternalTrafficPolicyChoosesEndpoints(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := namespace(t)
	serversOn(t, ns, nodes[:2]...)
	web := service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	each := func(check func(i int, network, address string, like netip.Addr)) {
		for i, node := range nodes {
			for _, addr := range machineAddresses(t, node) {
				for j, network := range []string{"tcp", "udp"} {
					check(i, network, netip.AddrPortFrom(addr, uint16(web.Spec.Ports[j].NodePort)).String(), addr)
				}
			}
		}
	}
	each(func(_ int, network, address string, _ netip.Addr) {
		eventually(t, serviceWithin, network+" "+address+" answers the outside", func() (bool, string) {
			got, err := askFrom(outside, network, address)
			return err == nil, fmt.Sprint(got, err)
		})
	})
	web = updateService(t, web, func(spec *corev1.ServiceSpec) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	own := machineAddresses(t, outside)
	each(func(i int, network, address string, like netip.Addr) {
		want := answer{seen: ofFamily(own, like).String(), server: fmt.Sprintf("server-%d", i)}
		eventually(t, serviceWithin, fmt.Sprintf("%s %s: the node's own endpoint, if any", network, address), func() (bool, string) {
			got, err := askFrom(outside, network, address)
			if i == 2 {
				return err != nil, fmt.Sprint(got)
			}
			return err == nil && got == want, fmt.Sprint(got, err)
		})
	})
}

// TestNodePort_AnswersPodsOfEachNode: a pod of each node reaches the node port of each node, and
// is seen as itself by way of its own node only; a port beside it answers on none.
func TestNodePort_AnswersPodsOfEachNode(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := namespace(t)
	web := service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	objects := []*corev1.Pod{serverObject(ns, "server", nodes[2])}
	for _, node := range nodes {
		objects = append(objects, podObject(ns, "from-"+node, node))
	}
	for _, from := range allRunning(t, objects...)[1:] {
		node := from.Spec.NodeName
		for _, target := range nodes {
			for _, addr := range machineAddresses(t, target) {
				port := uint16(web.Spec.Ports[0].NodePort)
				got := answers(t, from, "tcp", netip.AddrPortFrom(addr, port).String())
				if seen := netip.MustParseAddr(got.seen); hasAddress(t, from, seen) != (target == node) {
					t.Errorf("a pod of %s that asked %s was seen as %s", node, target, seen)
				}
				dial := func(port uint16) attempt {
					return podTries(from, "probe", "dial", "tcp", netip.AddrPortFrom(addr, port).String())
				}
				failsBeside(t, addr.String()+" answers at a port without a service", dial(29999), dial(port))
			}
		}
	}
}

// routeOutside gives the external host a route to a network by an address, until the test ends. The external host ignores ICMP
// redirects: a node sends them for the address of a service whose flows it does not have yet (docs/limits.md).
func routeOutside(t *testing.T, to string, via netip.Addr) {
	t.Helper()
	mustOnNode(t, outside, "sysctl", "-qw", "net.ipv4.conf.all.accept_redirects=0", "net.ipv4.conf.eth0.accept_redirects=0",
		"net.ipv6.conf.all.accept_redirects=0", "net.ipv6.conf.eth0.accept_redirects=0")
	mustOnNode(t, outside, "ip", "route", "replace", to, "via", via.String())
	t.Cleanup(func() { onNode(outside, "ip", "route", "del", to) })
}

// TestService_ExternalAddressesAnswer: an external address and one that a load balancer gave
// answer the outside through any node, and pods; an address beside them does not.
func TestService_ExternalAddressesAnswer(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := namespace(t)
	from := allRunning(t, serverObject(ns, "server", nodes[2]), podObject(ns, "from", nodes[1]))[1]
	web := service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, []string{"203.0.113.7"}
	})
	giveAddresses(t, web, "203.0.113.8")
	routeOutside(t, "203.0.113.0/28", nodeAddress(t, nodes[0]))
	for _, address := range []string{"203.0.113.7:80", "203.0.113.8:80"} {
		answers(t, from, "tcp", address)
		eventually(t, serviceWithin, address+" answers the outside", func() (bool, string) {
			got, err := askFrom(outside, "tcp", address)
			return err == nil, fmt.Sprint(got, err)
		})
	}
	dial := func(address string) attempt { return nodeTries(outside, "probe", "dial", "tcp", address) }
	failsBeside(t, "an address that no service has answers", dial("203.0.113.9:80"), dial("203.0.113.8:80"))
}

// TestHostPort_AnswersOutsideAndNodes: a pod's port on its node answers the outside, the node
// itself and pods of another node, and the pod sees who asks from outside; it is
// gone with the pod.
func TestHostPort_AnswersOutsideAndNodes(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	const hostPort = 29998
	ns := namespace(t)
	hostPortPod(t, ns, "server", "serve",
		corev1.ContainerPort{HostPort: hostPort, Protocol: corev1.ProtocolTCP}, corev1.ContainerPort{HostPort: hostPort, Protocol: corev1.ProtocolUDP})
	from := running(t, ns, "from", nodes[2])
	own := machineAddresses(t, outside)
	for _, addr := range machineAddresses(t, nodes[1]) {
		address := netip.AddrPortFrom(addr, hostPort).String()
		for _, network := range []string{"tcp", "udp"} {
			eventually(t, serviceWithin, network+" "+address+" answers the outside", func() (bool, string) {
				got, err := askFrom(outside, network, address)
				return err == nil && got.seen == ofFamily(own, addr).String(), fmt.Sprint(got, err)
			})
			answers(t, from, network, address)
		}
		eventually(t, serviceWithin, address+" answers its own node", func() (bool, string) {
			got, err := askFrom(nodes[1], "tcp", address)
			return err == nil, fmt.Sprint(got, err)
		})
	}
	deletePod(t, ns, "server")
	address := netip.AddrPortFrom(nodeAddress(t, nodes[1]), hostPort).String()
	eventually(t, podWithin, "the host port is closed", func() (bool, string) {
		got, err := askFrom(outside, "tcp", address)
		return err != nil, got.server
	})
}

// TestService_LoadBalancerSourceRangesLimitClients: at the address that a load balancer gave, the
// sources that the service names are answered and no others, who are as soon as
// they are named; node ports, other addresses and pods know no such limit.
func TestService_LoadBalancerSourceRangesLimitClients(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := namespace(t)
	from := allRunning(t, serverObject(ns, "server", nodes[2]), podObject(ns, "from", nodes[1]))[1]
	own := machineAddresses(t, outside)
	var asker []string
	for _, addr := range own {
		asker = append(asker, netip.PrefixFrom(addr, addr.BitLen()).String())
	}
	web := service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalIPs, spec.LoadBalancerSourceRanges = corev1.ServiceTypeLoadBalancer, []string{"203.0.113.17"}, asker
	})
	given := []string{"203.0.113.18"}
	if len(own) > 1 {
		given = append(given, "2001:db8:113::18")
	}
	giveAddresses(t, web, given...)
	for _, addr := range machineAddresses(t, nodes[0]) {
		routeOutside(t, map[bool]string{true: "203.0.113.16/28", false: "2001:db8:113::/64"}[addr.Is4()], addr)
	}
	asked := func(address string, answered bool) {
		t.Helper()
		for _, network := range []string{"tcp", "udp"} {
			eventually(t, serviceWithin, fmt.Sprintf("%s %s answers the outside: %t", network, address, answered), func() (bool, string) {
				got, err := askFrom(outside, network, address)
				return (err == nil) == answered, fmt.Sprint(got, err)
			})
		}
	}
	everywhere := func(answered bool) {
		t.Helper()
		for _, ip := range given {
			address := netip.AddrPortFrom(netip.MustParseAddr(ip), servicePort).String()
			asked(address, answered)
			answers(t, from, "tcp", address)
		}
		asked("203.0.113.17:80", true)
	}
	everywhere(true)
	limit := func(ranges ...string) {
		updateService(t, web, func(spec *corev1.ServiceSpec) { spec.LoadBalancerSourceRanges = ranges })
	}
	limit("198.51.100.0/24", "2001:db8:9::/64")
	everywhere(false)
	nodePort := netip.AddrPortFrom(nodeAddress(t, nodes[0]), uint16(web.Spec.Ports[0].NodePort)).String()
	asked(nodePort, true)
	limit()
	everywhere(true)
}
