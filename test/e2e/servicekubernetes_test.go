//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// Cases in which Kubernetes' own end-to-end tests found mistakes of ours.

// TestServiceLocal_StreamFindsTheServerThatReplacesItsOwn: UDP that never pauses, to the
// cluster address of a service whose internal policy is Local and to the node port of one
// whose external policy is, is answered by the node's next server when the only one has
// gone. While the node has none it is not, although another node has one, whose own stream goes on.
func TestServiceLocal_StreamFindsTheServerThatReplacesItsOwn(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	local := corev1.ServiceInternalTrafficPolicyLocal
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.InternalTrafficPolicy = corev1.ServiceTypeNodePort, &local
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	w := world.Shared(t)
	near, host, far := w.Clients[1], w.Hosts[1], w.Hosts[0]
	elsewhere := world.Pod(ns, "elsewhere", nodes[2], world.Behind("web"))
	world.Run(t, world.Pod(ns, "first", nodes[1], world.Behind("web")), elsewhere)
	streams, witness := map[string]*flow{}, startFlow(t, near.Namespace, near.Name, "udp", world.Endpoints(elsewhere)[0])
	for _, addr := range world.ClusterAddresses(web) {
		for _, from := range []*corev1.Pod{near, host} {
			streams[fmt.Sprint(from.Name, " to ", addr)] = beginFlow(t, from.Namespace, from.Name, "udp",
				netip.AddrPortFrom(addr, world.ServicePort))
		}
	}
	for _, addr := range world.NodeAddresses(t, nodes[1]) {
		streams[fmt.Sprint("far to ", addr)] = beginFlow(t, far.Namespace, far.Name, "udp", netip.AddrPortFrom(addr, uint16(web.Spec.Ports[1].NodePort)))
	}
	for name, stream := range streams {
		t.Log(name)
		stream.wantAnswer(t, world.ServiceWithin)
	}
	for _, next := range []string{"second", "third"} {
		world.DeletePod(t, ns, map[string]string{"second": "first", "third": "second"}[next])
		wantEnds(t, witness, slices.Collect(maps.Values(streams))...)
		world.Run(t, world.Pod(ns, next, nodes[1], world.Behind("web")))
		for name, stream := range streams {
			t.Log(name)
			stream.wantAnswer(t, world.ServiceWithin)
		}
	}
}
