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

// askBound asks a node port from a process of a node that has bound the node's own address of the family.
func askBound(t *testing.T, node, network string, at netip.AddrPort) (world.Answer, error) {
	t.Helper()
	own := world.OfFamily(world.NodeAddresses(t, node), at.Addr())
	return world.ReadAnswer(world.OnNode(node, "probe", "from", netip.AddrPortFrom(own, 0).String(), network, at.String()))
}

// TestNodePortOfOwnNode_LocalWithoutEndpoint: a process that asks at a node port of its
// own node is answered by the endpoint of another one, which sees the node's own
// address with policy Local, and the gateway router's with policy Cluster. With
// policy Local a third node stays silent, and the outside gets no answer by a node
// without an endpoint.
func TestNodePortOfOwnNode_LocalWithoutEndpoint(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	w := world.Shared(t)
	web := world.Service(t, w.Namespace, func(spec *corev1.ServiceSpec) {
		selecting("server", "server-1")(spec)
		spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	})
	each := func(check func(network string, like netip.Addr, at func(node string) netip.AddrPort)) {
		t.Helper()
		for _, like := range world.NodeAddresses(t, nodes[2]) {
			for i, network := range []string{"tcp", "udp"} {
				check(network, like, func(node string) netip.AddrPort {
					return netip.AddrPortFrom(world.OfFamily(world.NodeAddresses(t, node), like), uint16(web.Spec.Ports[i].NodePort))
				})
			}
		}
	}
	sees := func(node, network string, at netip.AddrPort, seen netip.Addr) {
		t.Helper()
		want := world.Answer{Seen: seen.String(), Server: "server-1"}
		world.Eventually(t, world.ServiceWithin, fmt.Sprintf("%s of %s at %s is seen as %s", network, node, at, seen),
			func() (bool, string) {
				got, err := world.FromNode(node).Ask(network, at.String())
				bound, errBound := askBound(t, node, network, at)
				return got == want && bound == want, fmt.Sprint(got, err, bound, errBound)
			})
	}
	silent := func(from, network string, at, witness netip.AddrPort) {
		t.Helper()
		dial := func(at netip.AddrPort) world.Attempt {
			return world.FromNode(from).Tries("probe", "dial", network, at.String())
		}
		world.FailsBeside(t, fmt.Sprintf("%s of %s at %s has an answer", network, from, at), dial(at), dial(witness))
	}
	each(func(network string, own netip.Addr, at func(string) netip.AddrPort) {
		sees(nodes[2], network, at(nodes[2]), own)
		sees(nodes[2], network, at(nodes[1]), own)
		sees(nodes[1], network, at(nodes[1]), world.OfFamily(gatewayAddresses(t, nodes[1]), own))
		silent(nodes[2], network, at(nodes[0]), at(nodes[1]))
		silent(outside, network, at(nodes[2]), at(nodes[1]))
	})
	web = world.UpdateService(t, web, func(spec *corev1.ServiceSpec) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	})
	each(func(network string, own netip.Addr, at func(string) netip.AddrPort) {
		sees(nodes[2], network, at(nodes[2]), world.OfFamily(gatewayAddresses(t, nodes[2]), own))
	})
	web = world.UpdateService(t, web, func(spec *corev1.ServiceSpec) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	each(func(network string, own netip.Addr, at func(string) netip.AddrPort) {
		sees(nodes[2], network, at(nodes[2]), own)
	})
	web = world.UpdateService(t, web, selecting("server", "none"))
	each(func(network string, _ netip.Addr, at func(string) netip.AddrPort) {
		if network == "udp" { // the bridge does not change the packet within an ICMP error
			return
		}
		world.Eventually(t, world.ServiceWithin, network+" without any endpoint is refused", func() (bool, string) {
			got, err := world.FromNode(nodes[2]).Ask(network, at(nodes[2]).String())
			return err != nil && strings.Contains(err.Error(), "refused"), fmt.Sprint(got, err)
		})
	})
}
