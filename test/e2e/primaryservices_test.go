//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestPrimaryNetwork_KeepsTheClientsAddress: an external host asks a service with policy Local, and a host port, on primary
// networks of both topologies. Only nodes with an endpoint answer, by this endpoint, which sees the address of the host. The
// controls are the service with policy Cluster, whose endpoints see an address of a node, the host port of a pod that is
// gone, and the pod's own address.
func TestPrimaryNetwork_KeepsTheClientsAddress(t *testing.T) {
	t.Parallel()
	own := machineAddresses(t, outside)
	for i, topology := range []string{"Layer3", "Layer2"} {
		t.Run(topology, func(t *testing.T) {
			subnet := fmt.Sprintf("10.%d.0.0/16", 60+i)
			if sixes()[0] {
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
			servers := map[string]string{nodes[1]: "server-0", nodes[2]: "server-1"}
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
			if got, err := askFrom(outside, "tcp", x.echoes(t, 0)[0].String()); err == nil {
				t.Errorf("the external host reaches a pod without a service: %v", got)
			}
			deletePod(t, x.ns, "host-port")
			each(func(int) int32 { return hostPort }, func(_, network, address string) { x.keeps(t, client, network, address, "") })
		})
	}
}

// keeps waits until a server answers the external host, whose address the server sees; "" means that no server answers.
func (x tenant) keeps(t *testing.T, client netip.Addr, network, address, server string) {
	t.Helper()
	eventually(t, 2*time.Second+serviceWithin, fmt.Sprintf("%s %s: %q answers", network, address, server), func() (bool, string) {
		got, err := askFrom(outside, network, address)
		if server == "" {
			return err != nil, fmt.Sprint(got)
		}
		return err == nil && got == answer{seen: client.String(), server: server}, fmt.Sprint(got, err)
	})
}
