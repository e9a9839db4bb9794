//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestPrimaryNetwork_KeepsTheClientsAddress: an external host asks a service with policy Local, and a host port, on primary
// networks of both topologies. Only nodes with an endpoint answer, by this endpoint, which sees the address of the host. The
// controls are the service with policy Cluster, whose endpoints see an address of a node, the host port of a pod that is
// gone, the pod's own address, and a service of another namespace with a hand-made endpoint at this address.
func TestPrimaryNetwork_KeepsTheClientsAddress(t *testing.T) {
	world.Test(t, world.Primary)
	own := world.NodeAddresses(t, outside)
	for i, topology := range []string{"Layer3", "Layer2"} {
		t.Run(topology, func(t *testing.T) {
			subnet := fmt.Sprintf("10.%d.0.0/16", 60+i)
			if sixes()[min(i, len(sixes())-1)] { // the lab with both families has a network of each
				subnet = fmt.Sprintf("'fd6%d::/%d'", i, []int{48, 64}[i])
			}
			spec := []string{"layer3: {role: Primary, subnets: [{cidr: " + subnet + "}]}", "layer2: {role: Primary, subnets: [" + subnet + "]}"}[i]
			x := tenantWith(t, "{topology: "+topology+", "+spec+"}")
			client := world.OfFamily(own, x.addresses(t, 0)[0])
			each := func(port func(j int) int32, check func(node, network, address string)) {
				for _, node := range nodes[:3] {
					for j, network := range []string{"tcp", "udp"} {
						at := world.OfFamily(world.NodeAddresses(t, node), client)
						check(node, network, netip.AddrPortFrom(at, uint16(port(j))).String())
					}
				}
			}
			x.balanced(t, i)()
			nodePort := func(j int) int32 { return x.web.Spec.Ports[j].NodePort }
			each(nodePort, func(_, network, address string) {
				world.Eventually(t, world.ServiceWithin, network+" "+address+" answers the external host with SNAT",
					func() (bool, string) {
						got, err := world.FromNode(outside).Ask(network, address)
						return err == nil && got.Seen != client.String(), fmt.Sprint(got, err)
					})
			})
			world.UpdateService(t, x.web, func(spec *corev1.ServiceSpec) {
				spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			})
			servers := map[string]string{nodes[1]: x.pods[0].Name, nodes[2]: x.pods[1].Name}
			each(nodePort, func(node, network, address string) { x.keeps(t, client, network, address, servers[node]) })
			const hostPort = 29996
			world.Run(t, world.Pod(x.ns, "host-port", nodes[1], world.Named(), world.HostPorts(
				corev1.ContainerPort{HostPort: hostPort, Protocol: corev1.ProtocolTCP}, corev1.ContainerPort{HostPort: hostPort,
					Protocol: corev1.ProtocolUDP})))
			here := map[string]string{nodes[1]: "host-port"}
			each(func(int) int32 { return hostPort }, func(node, network, address string) {
				x.keeps(t, client, network, address, here[node])
				if here[node] != "" {
					for _, pod := range x.pods { // of this node and of another one
						world.FromPod(pod).Answered(t, network, address)
					}
				}
			})
			world.RouteOutside(t, strings.Trim(subnet, "'"), world.OfFamily(world.NodeAddresses(t, nodes[1]), client))
			world.FailsBeside(t, "the external host reaches a pod without a service",
				world.FromNode(outside).Tries("probe", "dial", "tcp", x.echoes(t, 0)[0].String()), x.anyNodePort(t, nodes[1:2]))
			other := x
			other.web = world.Service(t, world.Namespace(t), func(spec *corev1.ServiceSpec) {
				spec.Type, spec.Selector = corev1.ServiceTypeNodePort, nil
			})
			createSlice(t, other.web.Namespace, other.web, x.addresses(t, 0)[0])
			wantEvent(t, other.web.Namespace, "EndpointRefused", other.web.Name, x.addresses(t, 0)[0].String()) // so the service is looked at
			world.FailsBeside(t, "a service of another namespace leads to the network", other.anyNodePort(t, nodes[1:2]), x.anyNodePort(t, nodes[1:2]))
			world.DeletePod(t, x.ns, "host-port")
			each(func(int) int32 { return hostPort }, func(_, network, address string) { x.keeps(t, client, network, address, "") })
		})
	}
}

// keeps waits until a server answers the external host, whose address the server sees; "" means that no server answers.
func (x tenant) keeps(t *testing.T, client netip.Addr, network, address, server string) {
	t.Helper()
	world.Eventually(t, world.PodWithin, fmt.Sprintf("%s %s: %q answers", network, address, server), func() (bool, string) {
		got, err := world.FromNode(outside).Ask(network, address)
		if server == "" {
			return err != nil, fmt.Sprint(got)
		}
		return err == nil && got == world.Answer{Seen: client.String(), Server: server}, fmt.Sprint(got, err)
	})
}

// anyNodePort asks for an answer of any node port of the service at some nodes.
func (x tenant) anyNodePort(t *testing.T, some []string) world.Attempt {
	t.Helper()
	ask := []string{"probe", "reach"}
	for _, node := range some {
		for _, own := range x.addresses(t, 0) {
			at := world.OfFamily(world.NodeAddresses(t, node), own)
			for j, network := range []string{"tcp", "udp"} {
				ask = append(ask, network+":"+netip.AddrPortFrom(at, uint16(x.web.Spec.Ports[j].NodePort)).String())
			}
		}
	}
	return func() (string, error) {
		out, err := world.OnNode(outside, ask...)
		if err == nil && strings.TrimSpace(out) == "" {
			err = errors.New("no answer")
		}
		return out, err
	}
}

// nodePorts checks that the service's node ports at some nodes answer an external host and pods, also of other networks.
func (x tenant) nodePorts(t *testing.T, some []string, others ...*corev1.Pod) {
	t.Helper()
	for _, node := range some {
		for _, own := range x.addresses(t, 0) {
			at := world.OfFamily(world.NodeAddresses(t, node), own)
			for j, network := range []string{"tcp", "udp"} {
				address := netip.AddrPortFrom(at, uint16(x.web.Spec.Ports[j].NodePort)).String()
				world.Eventually(t, world.ServiceWithin, network+" "+address+" answers an external host", func() (bool, string) {
					got, err := world.FromNode(outside).Ask(network, address)
					return err == nil, fmt.Sprint(got, err)
				})
				world.FromPod(x.pods[0]).Answered(t, network, address)
				for _, other := range others {
					if node != other.Spec.NodeName { // docs/limits.md
						world.FromPod(other).Answered(t, network, address)
					}
				}
			}
		}
	}
}

// asksNodePorts checks that the node ports of a service of the default network answer the first pod, by each node, and that a
// port without a service does not. A first packet may be lost by the way of the pod's own node (docs/limits.md).
func (x tenant) asksNodePorts(t *testing.T, web *corev1.Service) {
	t.Helper()
	for _, node := range nodes[:3] {
		for _, own := range x.addresses(t, 0) {
			at := world.OfFamily(world.NodeAddresses(t, node), own)
			for j, network := range []string{"tcp", "udp"} {
				world.MustInPod(t, x.pods[0], "probe", "dial", network,
					netip.AddrPortFrom(at, uint16(web.Spec.Ports[j].NodePort)).String())
			}
			dial := func(port uint16) []string {
				return []string{"probe", "dial", "tcp", netip.AddrPortFrom(at, port).String()}
			}
			world.FailsBeside(t, at.String()+" answers at a port without a service", world.FromPod(x.pods[0]).Tries(dial(29999)...),
				world.FromPod(x.pods[0]).Tries(world.Patiently(dial(uint16(web.Spec.Ports[0].NodePort)))...)) // the first packet may be lost
		}
	}
}

// balanced makes a service with an external address and one that a load balancer gives, and gives a check that an external
// host and pods have answers there, and none at the address beside. Networks that exist at once have different numbers.
func (x tenant) balanced(t *testing.T, number int) (check func()) {
	t.Helper()
	client := world.OfFamily(world.NodeAddresses(t, outside), x.addresses(t, 0)[0])
	base, addr := "203.0.113.64/26", [3]string{}
	for i := range addr {
		if addr[i] = fmt.Sprintf("203.0.113.%d", 64+8*number+i); client.Is6() {
			base, addr[i] = "2001:db8:114::/64", fmt.Sprintf("2001:db8:114::%d", 64+8*number+i)
		}
	}
	web := world.Service(t, x.ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, addr[:1]
	})
	world.GiveAddresses(t, web, addr[1])
	world.RouteOutside(t, base, world.OfFamily(world.NodeAddresses(t, nodes[0]), client))
	at := func(i int) string {
		return netip.AddrPortFrom(netip.MustParseAddr(addr[i]), world.ServicePort).String()
	}
	return func() {
		t.Helper()
		for i := range 2 {
			for _, network := range []string{"tcp", "udp"} {
				world.Eventually(t, world.ServiceWithin, network+" "+at(i)+" answers the external host", func() (bool, string) {
					got, err := world.FromNode(outside).Ask(network, at(i))
					return err == nil && (got.Server == x.pods[0].Name || got.Server == x.pods[1].Name), fmt.Sprint(got, err)
				})
				world.FromPod(x.pods[0]).Answered(t, network, at(i))
			}
		}
		dial := func(address string) world.Attempt {
			return world.FromNode(outside).Tries("probe", "dial", "tcp", address)
		}
		world.FailsBeside(t, at(2)+", which no service has, answers", dial(at(2)), dial(at(0)))
	}
}
