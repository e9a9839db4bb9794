//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestService_PacketsBeforeAnswerAreAnswered: a client sends several packets before the first reply, behind SNAT of a
// gateway router. Each packet gets a reply, also at a node port of the own node with an endpoint on another node. Without
// the router's policies and NAT for these packets only the first one gets a reply.
func TestService_PacketsBeforeAnswerAreAnswered(t *testing.T) {
	world.Test(t, world.Services, world.Disruptive)
	const packets = 10
	ns := namespace(t)
	pod := podObject(ns, "late", nodes[2], "probe", "late", fmt.Sprint(echoPort))
	pod.Labels = map[string]string{"app": "web"}
	streaming(t, pod)
	web := service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	local := service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	})
	everywhere := func(want int) {
		t.Helper()
		answered := func(c client, addrs []netip.Addr, port int32) {
			t.Helper()
			for _, addr := range addrs {
				target := netip.AddrPortFrom(addr, uint16(port)).String()
				eventually(t, serviceWithin, fmt.Sprintf("%d packets of %d of %s are answered at %s", want, packets, c.name, target), func() (bool, string) {
					out, err := c.run("probe", "burst", fmt.Sprint(packets), target)
					return err == nil && strings.TrimSpace(out) == fmt.Sprint(want), out
				})
			}
		}
		answered(machineClient(t, outside), machineAddresses(t, nodes[1]), web.Spec.Ports[1].NodePort)
		answered(machineClient(t, nodes[1]), clusterAddresses(web), servicePort)
		answered(machineClient(t, nodes[1]), machineAddresses(t, nodes[1]), local.Spec.Ports[1].NodePort)
	}
	everywhere(packets)
	signal := func(name string) { mustOnNode(t, nodes[0], "pkill", "-"+name, "-f", "[l]ease-namespace") }
	signal("STOP")
	t.Cleanup(func() { signal("CONT") })
	nbctl(t, "lr-policy-del", "GR_"+nodes[1])
	for _, addr := range clusterAddresses(web) {
		client := map[bool]string{true: "169.254.0.9", false: "fd69::9"}[addr.Is4()]
		nbctl(t, "--wait=hv", "lr-nat-del", "GR_"+nodes[1], "snat", client)
	}
	everywhere(1)
	signal("CONT")
	everywhere(packets)
}
