//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
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
	ns := world.Namespace(t)
	pod := world.Pod(ns, "late", nodes[2], world.Command("probe", "late", fmt.Sprint(world.EchoPort)))
	pod.Labels = map[string]string{"app": "web"}
	world.Run(t, pod)
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	local := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	})
	var asks []func() string
	ask := func(c world.Client, addrs []netip.Addr, port int32) {
		for _, addr := range addrs {
			target := netip.AddrPortFrom(addr, uint16(port)).String()
			asks = append(asks, func() string {
				out, err := c.Run("probe", "burst", fmt.Sprint(packets), target)
				if err != nil {
					out = err.Error()
				}
				return strings.TrimSpace(out) + " of " + c.Name + " at " + target
			})
		}
	}
	ask(world.FromNode(outside), world.NodeAddresses(t, nodes[1]), web.Spec.Ports[1].NodePort)
	ask(world.FromNode(nodes[1]), world.ClusterAddresses(web), world.ServicePort)
	ask(world.FromNode(nodes[1]), world.NodeAddresses(t, nodes[1]), local.Spec.Ports[1].NodePort)
	// All ask at once: the controller is not to stand still for longer than its lease lasts.
	everywhere := func(want int) {
		t.Helper()
		right := make([]bool, len(asks))
		world.Eventually(t, world.PodWithin, fmt.Sprintf("%d packets of %d are answered everywhere", want, packets),
			func() (bool, string) {
				seen := make([]string, len(asks))
				var all sync.WaitGroup
				for i, ask := range asks {
					if !right[i] {
						all.Go(func() {
							seen[i] = ask()
							right[i] = strings.HasPrefix(seen[i], fmt.Sprint(want, " of "))
						})
					}
				}
				all.Wait()
				return !slices.Contains(right, false), strings.Join(seen, "; ")
			})
	}
	everywhere(packets)
	signal := func(name string) { world.MustOnNode(t, nodes[0], "pkill", "-"+name, "-f", "[l]ease-namespace") }
	signal("STOP")
	t.Cleanup(func() { signal("CONT") })
	nbctl(t, "lr-policy-del", "GR_"+nodes[1])
	for _, addr := range world.ClusterAddresses(web) {
		client := map[bool]string{true: "169.254.0.9", false: "fd69::9"}[addr.Is4()]
		nbctl(t, "--wait=hv", "lr-nat-del", "GR_"+nodes[1], "snat", client)
	}
	everywhere(1)
	signal("CONT")
	everywhere(packets)
}
