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

// TestService_HealthCheckNodePortCountsEndpoints: an external load balancer gets each node's number of endpoints, in each
// family. A node that loses its last endpoint reports this. With policy Cluster the port does not answer.
func TestService_HealthCheckNodePortCountsEndpoints(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	serversOn(t, ns, nodes[:2]...)
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
	})
	port := uint16(web.Spec.HealthCheckNodePort)
	everywhere := func(want map[string]string) {
		t.Helper()
		for _, node := range nodes {
			for _, addr := range world.NodeAddresses(t, node) {
				url := "http://" + netip.AddrPortFrom(addr, port).String()
				world.Eventually(t, world.ServiceWithin, fmt.Sprintf("%s on %s says %q", url, node, want[node]), func() (bool, string) {
					out, _ := world.OnNode(outside, "curl", "-si", "-m", "2", url)
					if want[node] == "" {
						return !strings.Contains(out, "HTTP"), out
					}
					status, endpoints, _ := strings.Cut(want[node], " ")
					return strings.Contains(out, status) && strings.Contains(out, "X-Load-Balancing-Endpoint-Weight: "+endpoints) &&
						strings.Contains(out, fmt.Sprintf(`{"namespace": %q, "name": %q}, "localEndpoints": %s,`, ns, web.Name, endpoints)), out
				})
			}
		}
	}
	everywhere(map[string]string{nodes[0]: "200 1", nodes[1]: "200 1", nodes[2]: "503 0"})
	world.DeletePod(t, ns, "server-0")
	world.Run(t, world.Pod(ns, "server-3", nodes[1], world.Behind("web")))
	everywhere(map[string]string{nodes[0]: "503 0", nodes[1]: "200 2", nodes[2]: "503 0"})
	world.UpdateService(t, web, func(spec *corev1.ServiceSpec) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	})
	everywhere(nil)
}
