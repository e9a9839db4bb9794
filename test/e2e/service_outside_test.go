//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestService_ExternalTrafficPolicyChoosesEndpoints: from outside, every node answers at the node port with
// policy Cluster; with Local those alone that have an endpoint, by their own one,
// which sees the outside's address.
func TestService_ExternalTrafficPolicyChoosesEndpoints(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	serversOn(t, ns, nodes[:2]...)
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	each := func(check func(i int, network, address string, like netip.Addr)) {
		for i, node := range nodes {
			for _, addr := range world.NodeAddresses(t, node) {
				for j, network := range []string{"tcp", "udp"} {
					check(i, network, netip.AddrPortFrom(addr, uint16(web.Spec.Ports[j].NodePort)).String(), addr)
				}
			}
		}
	}
	each(func(_ int, network, address string, _ netip.Addr) {
		world.Eventually(t, world.ServiceWithin, network+" "+address+" answers the outside", func() (bool, string) {
			got, err := world.FromNode(outside).Ask(network, address)
			return err == nil, fmt.Sprint(got, err)
		})
	})
	web = world.UpdateService(t, web, func(spec *corev1.ServiceSpec) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	own := world.NodeAddresses(t, outside)
	each(func(i int, network, address string, like netip.Addr) {
		want := world.Answer{Seen: world.OfFamily(own, like).String(), Server: fmt.Sprintf("server-%d", i)}
		world.Eventually(t, world.ServiceWithin, fmt.Sprintf("%s %s: the node's own endpoint, if any", network, address),
			func() (bool, string) {
				got, err := world.FromNode(outside).Ask(network, address)
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
	ns := world.Namespace(t)
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	objects := []*corev1.Pod{world.Pod(ns, "server", nodes[2], world.Behind("web"))}
	for _, node := range nodes {
		objects = append(objects, world.Pod(ns, "from-"+node, node))
	}
	for _, from := range world.Run(t, objects...)[1:] {
		node := from.Spec.NodeName
		for _, target := range nodes {
			for _, addr := range world.NodeAddresses(t, target) {
				port := uint16(web.Spec.Ports[0].NodePort)
				got := world.FromPod(from).Answered(t, "tcp", netip.AddrPortFrom(addr, port).String())
				if seen := netip.MustParseAddr(got.Seen); world.HasAddress(from, seen) != (target == node) {
					t.Errorf("a pod of %s that asked %s was seen as %s", node, target, seen)
				}
				dial := func(port uint16) world.Attempt {
					return world.FromPod(from).Tries("probe", "dial", "tcp", netip.AddrPortFrom(addr, port).String())
				}
				world.FailsBeside(t, addr.String()+" answers at a port without a service", dial(29999), dial(port))
			}
		}
	}
}

// TestService_ExternalAddressesAnswer: an external address and one that a load balancer gave
// answer the outside through any node, and pods; an address beside them does not.
func TestService_ExternalAddressesAnswer(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	from := world.Run(t, world.Pod(ns, "server", nodes[2], world.Behind("web")), world.Pod(ns, "from", nodes[1]))[1]
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, []string{"203.0.113.7"}
	})
	world.GiveAddresses(t, web, "203.0.113.8")
	world.RouteOutside(t, "203.0.113.0/28", world.InternalIP(t, nodes[0]))
	for _, address := range []string{"203.0.113.7:80", "203.0.113.8:80"} {
		world.FromPod(from).Answered(t, "tcp", address)
		world.Eventually(t, world.ServiceWithin, address+" answers the outside", func() (bool, string) {
			got, err := world.FromNode(outside).Ask("tcp", address)
			return err == nil, fmt.Sprint(got, err)
		})
	}
	dial := func(address string) world.Attempt {
		return world.FromNode(outside).Tries("probe", "dial", "tcp", address)
	}
	world.FailsBeside(t, "an address that no service has answers", dial("203.0.113.9:80"), dial("203.0.113.8:80"))
}

// TestHostPort_AnswersOutsideAndNodes: a pod's port on its node answers the outside, the node
// itself and pods of another node, and the pod sees who asks from outside; it is
// gone with the pod.
func TestHostPort_AnswersOutsideAndNodes(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	const hostPort = 29998
	ns := world.Namespace(t)
	hostPortPod(t, ns, "server", "serve",
		corev1.ContainerPort{HostPort: hostPort, Protocol: corev1.ProtocolTCP}, corev1.ContainerPort{HostPort: hostPort, Protocol: corev1.ProtocolUDP})
	from := world.Run(t, world.Pod(ns, "from", nodes[2]))[0]
	own := world.NodeAddresses(t, outside)
	for _, addr := range world.NodeAddresses(t, nodes[1]) {
		address := netip.AddrPortFrom(addr, hostPort).String()
		for _, network := range []string{"tcp", "udp"} {
			world.Eventually(t, world.ServiceWithin, network+" "+address+" answers the outside", func() (bool, string) {
				got, err := world.FromNode(outside).Ask(network, address)
				return err == nil && got.Seen == world.OfFamily(own, addr).String(), fmt.Sprint(got, err)
			})
			world.FromPod(from).Answered(t, network, address)
		}
		world.Eventually(t, world.ServiceWithin, address+" answers its own node", func() (bool, string) {
			got, err := world.FromNode(nodes[1]).Ask("tcp", address)
			return err == nil, fmt.Sprint(got, err)
		})
	}
	world.DeletePod(t, ns, "server")
	address := netip.AddrPortFrom(world.InternalIP(t, nodes[1]), hostPort).String()
	world.Eventually(t, world.PodWithin, "the host port is closed", func() (bool, string) {
		got, err := world.FromNode(outside).Ask("tcp", address)
		return err != nil, got.Server
	})
}

// TestService_LoadBalancerSourceRangesLimitClients: at the address that a load balancer gave, the
// sources that the service names are answered and no others, who are as soon as
// they are named; node ports, other addresses and pods know no such limit.
func TestService_LoadBalancerSourceRangesLimitClients(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	from := world.Run(t, world.Pod(ns, "server", nodes[2], world.Behind("web")), world.Pod(ns, "from", nodes[1]))[1]
	own := world.NodeAddresses(t, outside)
	var asker []string
	for _, addr := range own {
		asker = append(asker, netip.PrefixFrom(addr, addr.BitLen()).String())
	}
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalIPs, spec.LoadBalancerSourceRanges = corev1.ServiceTypeLoadBalancer, []string{"203.0.113.17"}, asker
	})
	given := []string{"203.0.113.18"}
	if len(own) > 1 {
		given = append(given, "2001:db8:113::18")
	}
	world.GiveAddresses(t, web, given...)
	for _, addr := range world.NodeAddresses(t, nodes[0]) {
		world.RouteOutside(t, map[bool]string{true: "203.0.113.16/28", false: "2001:db8:113::/64"}[addr.Is4()], addr)
	}
	asked := func(address string, answered bool) {
		t.Helper()
		for _, network := range []string{"tcp", "udp"} {
			world.Eventually(t, world.ServiceWithin, fmt.Sprintf("%s %s answers the outside: %t", network, address, answered),
				func() (bool, string) {
					got, err := world.FromNode(outside).Ask(network, address)
					return (err == nil) == answered, fmt.Sprint(got, err)
				})
		}
	}
	everywhere := func(answered bool) {
		t.Helper()
		for _, ip := range given {
			address := netip.AddrPortFrom(netip.MustParseAddr(ip), world.ServicePort).String()
			asked(address, answered)
			world.FromPod(from).Answered(t, "tcp", address)
		}
		asked("203.0.113.17:80", true)
	}
	everywhere(true)
	limit := func(ranges ...string) {
		world.UpdateService(t, web, func(spec *corev1.ServiceSpec) { spec.LoadBalancerSourceRanges = ranges })
	}
	limit("198.51.100.0/24", "2001:db8:9::/64")
	everywhere(false)
	nodePort := netip.AddrPortFrom(world.InternalIP(t, nodes[0]), uint16(web.Spec.Ports[0].NodePort)).String()
	asked(nodePort, true)
	limit()
	everywhere(true)
}
