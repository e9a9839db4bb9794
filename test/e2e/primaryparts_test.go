//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestPrimaryNetwork_PartsOfItsSubnet: the gateway is the first address of infrastructureSubnets, by which pods reach external
// hosts. Pods get addresses of reservedSubnets on request only, and none of infrastructureSubnets.
func TestPrimaryNetwork_PartsOfItsSubnet(t *testing.T) {
	world.Test(t, world.Primary)
	if sixes()[0] {
		t.Skip("the test's addresses are IPv4")
	}
	world.ServeOutside(t)
	x := tenantWith(t, "{topology: Layer2, layer2: {role: Primary, subnets: [10.59.0.0/24], infrastructureSubnets: [10.59.0.64/30], reservedSubnets: [10.59.0.0/26]}}")
	target := world.OfFamily(world.NodeAddresses(t, outside), netip.MustParseAddr("10.0.0.1"))
	for i, pod := range x.pods {
		if own := x.addresses(t, i)[0]; netip.MustParsePrefix("10.59.0.0/26").Contains(own) || netip.MustParsePrefix("10.59.0.64/30").Contains(own) {
			t.Errorf("pod %s has %s without a request", pod.Name, own)
		}
		if routes := world.MustInPod(t, pod, "ip", "-4", "route", "show", "default"); !strings.HasPrefix(routes,
			"default via 10.59.0.64 dev "+contract.PrimaryInterface) {
			t.Errorf("default routes of %s: %s", pod.Name, routes)
		}
		world.Eventually(t, world.Soon, pod.Name+" reaches the external host", func() (bool, string) {
			out, err := seenAs(pod, "tcp", target)
			return err == nil, fmt.Sprint(out, err)
		})
	}
	ask := func(name, ip string) *corev1.Pod {
		pod := world.Pod(x.ns, name, nodes[2], world.Named())
		pod.Annotations = map[string]string{contract.DefaultNetworkKey: fmt.Sprintf(`[{"name":"default","namespace":"ovn-kubernetes","ips":["%s/24"]}]`, ip)}
		world.Create(t, pod)
		return pod
	}
	ask("infra", "10.59.0.65")
	ask("reserved", "10.59.0.7")
	world.Running(t, x.ns, "reserved")
	world.Reaches(t, x.pods[0], true, netip.AddrPortFrom(netip.MustParseAddr("10.59.0.7"), world.EchoPort))
	staysPending(t, x.ns, "infra", "")
}
