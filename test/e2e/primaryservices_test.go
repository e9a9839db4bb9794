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
// gone, and the pod's own address.
func TestPrimaryNetwork_KeepsTheClientsAddress(t *testing.T) {
	world.Test(t, world.Primary)
	own := machineAddresses(t, outside)
	for i, topology := range []string{"Layer3", "Layer2"} {
		t.Run(topology, func(t *testing.T) {
			subnet := fmt.Sprintf("10.%d.0.0/16", 60+i)
			if sixes()[min(i, len(sixes())-1)] { // the lab with both families has a network of each
				subnet = fmt.Sprintf("'fd6%d::/%d'", i, []int{48, 64}[i])
			}
			spec := []string{"layer3: {role: Primary, subnets: [{cidr: " + subnet + "}]}", "layer2: {role: Primary, subnets: [" + subnet + "]}"}[i]
			x := tenantWith(t, "{topology: "+topology+", "+spec+"}")
			client := ofFamily(own, x.own(t, 0)[0])
			each := func(port func(j int) int32, check func(node, network, address string)) {
				for _, node := range nodes[:3] {
					for j, network := range []string{"tcp", "udp"} {
						at := ofFamily(machineAddresses(t, node), client)
						check(node, network, netip.AddrPortFrom(at, uint16(port(j))).String())
					}
				}
			}
			x.balanced(t, i)()
			nodePort := func(j int) int32 { return x.web.Spec.Ports[j].NodePort }
			each(nodePort, func(_, network, address string) {
				eventually(t, serviceWithin, network+" "+address+" answers the external host with SNAT", func() (bool, string) {
					got, err := askFrom(outside, network, address)
					return err == nil && got.seen != client.String(), fmt.Sprint(got, err)
				})
			})
			updateService(t, x.web, func(spec *corev1.ServiceSpec) {
				spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			})
			servers := map[string]string{nodes[1]: x.pods[0].Name, nodes[2]: x.pods[1].Name}
			each(nodePort, func(node, network, address string) { x.keeps(t, client, network, address, servers[node]) })
			const hostPort = 29996
			hostPortPod(t, x.ns, "host-port", "serve",
				corev1.ContainerPort{HostPort: hostPort, Protocol: corev1.ProtocolTCP}, corev1.ContainerPort{HostPort: hostPort, Protocol: corev1.ProtocolUDP})
			here := map[string]string{nodes[1]: "host-port"}
			each(func(int) int32 { return hostPort }, func(node, network, address string) {
				x.keeps(t, client, network, address, here[node])
				if here[node] != "" {
					for _, pod := range x.pods { // of this node and of another one
						answers(t, pod, network, address)
					}
				}
			})
			routeOutside(t, strings.Trim(subnet, "'"), ofFamily(machineAddresses(t, nodes[1]), client))
			failsBeside(t, "the external host reaches a pod without a service", nodeTries(outside, "probe", "dial", "tcp", x.echoes(t, 0)[0].String()), x.anyNodePort(t, nodes[1:2]))
			deletePod(t, x.ns, "host-port")
			each(func(int) int32 { return hostPort }, func(_, network, address string) { x.keeps(t, client, network, address, "") })
		})
	}
}

// keeps waits until a server answers the external host, whose address the server sees; "" means that no server answers.
func (x tenant) keeps(t *testing.T, client netip.Addr, network, address, server string) {
	t.Helper()
	eventually(t, podWithin, fmt.Sprintf("%s %s: %q answers", network, address, server), func() (bool, string) {
		got, err := askFrom(outside, network, address)
		if server == "" {
			return err != nil, fmt.Sprint(got)
		}
		return err == nil && got == answer{seen: client.String(), server: server}, fmt.Sprint(got, err)
	})
}

// anyNodePort asks for an answer of any node port of the service at some nodes.
func (x tenant) anyNodePort(t *testing.T, some []string) attempt {
	t.Helper()
	ask := []string{"probe", "reach"}
	for _, node := range some {
		for _, own := range x.own(t, 0) {
			at := ofFamily(machineAddresses(t, node), own)
			for j, network := range []string{"tcp", "udp"} {
				ask = append(ask, network+":"+netip.AddrPortFrom(at, uint16(x.web.Spec.Ports[j].NodePort)).String())
			}
		}
	}
	return func() (string, error) {
		out, err := onNode(outside, ask...)
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
		for _, own := range x.own(t, 0) {
			at := ofFamily(machineAddresses(t, node), own)
			for j, network := range []string{"tcp", "udp"} {
				address := netip.AddrPortFrom(at, uint16(x.web.Spec.Ports[j].NodePort)).String()
				eventually(t, serviceWithin, network+" "+address+" answers an external host", func() (bool, string) {
					got, err := askFrom(outside, network, address)
					return err == nil, fmt.Sprint(got, err)
				})
				answers(t, x.pods[0], network, address)
				for _, other := range others {
					if node != other.Spec.NodeName { // docs/limits.md
						answers(t, other, network, address)
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
		for _, own := range x.own(t, 0) {
			at := ofFamily(machineAddresses(t, node), own)
			for j, network := range []string{"tcp", "udp"} {
				mustInPod(t, x.pods[0], "probe", "dial", network, netip.AddrPortFrom(at, uint16(web.Spec.Ports[j].NodePort)).String())
			}
			dial := func(port uint16) []string {
				return []string{"probe", "dial", "tcp", netip.AddrPortFrom(at, port).String()}
			}
			failsBeside(t, at.String()+" answers at a port without a service", podTries(x.pods[0], dial(29999)...),
				podTries(x.pods[0], patiently(dial(uint16(web.Spec.Ports[0].NodePort)))...)) // the first packet may be lost
		}
	}
}

// balanced makes a service with an external address and one that a load balancer gives, and gives a check that an external
// host and pods have answers there, and none at the address beside. Networks that exist at once have different numbers.
func (x tenant) balanced(t *testing.T, number int) (check func()) {
	t.Helper()
	client := ofFamily(machineAddresses(t, outside), x.own(t, 0)[0])
	base, addr := "203.0.113.64/26", [3]string{}
	for i := range addr {
		if addr[i] = fmt.Sprintf("203.0.113.%d", 64+8*number+i); client.Is6() {
			base, addr[i] = "2001:db8:114::/64", fmt.Sprintf("2001:db8:114::%d", 64+8*number+i)
		}
	}
	web := service(t, x.ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, addr[:1]
	})
	giveAddresses(t, web, addr[1])
	routeOutside(t, base, ofFamily(machineAddresses(t, nodes[0]), client))
	at := func(i int) string { return netip.AddrPortFrom(netip.MustParseAddr(addr[i]), servicePort).String() }
	return func() {
		t.Helper()
		for i := range 2 {
			for _, network := range []string{"tcp", "udp"} {
				eventually(t, serviceWithin, network+" "+at(i)+" answers the external host", func() (bool, string) {
					got, err := askFrom(outside, network, at(i))
					return err == nil && (got.server == x.pods[0].Name || got.server == x.pods[1].Name), fmt.Sprint(got, err)
				})
				answers(t, x.pods[0], network, at(i))
			}
		}
		dial := func(address string) attempt { return nodeTries(outside, "probe", "dial", "tcp", address) }
		failsBeside(t, at(2)+", which no service has, answers", dial(at(2)), dial(at(0)))
	}
}
