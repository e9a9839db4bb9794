//go:build e2e

package e2e

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestService_AnswersAtNodePorts: what clients find at node ports of services, and that nothing answers there when the
// service is deleted.
func TestService_AnswersAtNodePorts(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	w := world.Shared(t)
	world.Check(t, externalPolicies(t, w), podsAtNodePorts(t, w), comingAndGoing(t, w), typeInPlace(t, w))
}

// externalPolicies: with policy Cluster every node answers the external host. With policy Local only nodes with an
// endpoint answer, by their own endpoint, which sees the external host's address.
func externalPolicies(t *testing.T, w *world.World) *world.Row {
	r := newServiceRow(t, w, "external policy chooses endpoints", func(spec *corev1.ServiceSpec) {
		withNodePorts(spec)
		spec.Selector = map[string]string{"first": "yes"}
	})
	own := w.External.Addresses(t)
	finds := func(servers [][]string, seen []netip.Addr) func() []world.Finding {
		return func() []world.Finding {
			var spots []world.Spot
			for i, node := range w.Machines {
				spots = append(spots, r.atNodePort(t, node, servers[i], seen)...)
			}
			return []world.Finding{{From: w.External, Spots: spots}}
		}
	}
	both := []string{"server-0", "server-1"}
	r.then(nil, finds([][]string{both, both, both}, nil))
	r.then(func(spec *corev1.ServiceSpec) { spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
		finds([][]string{{"server-0"}, {"server-1"}, nil}, own))
	r.Repeats = true
	return r.row()
}

// podsAtNodePorts: a pod of each node reaches the node port of each node, and is seen as itself by way of its own node
// only, by way of another one as the router of that node; a port beside it answers on none.
func podsAtNodePorts(t *testing.T, w *world.World) *world.Row {
	r := newServiceRow(t, w, "pods of each node reach each node", func(spec *corev1.ServiceSpec) {
		withNodePorts(spec)
		spec.Selector = map[string]string{"server": "server-2"}
	})
	var routers [][]netip.Addr
	for _, node := range nodes {
		routers = append(routers, gatewayAddresses(t, node))
	}
	r.then(nil, func() (all []world.Finding) {
		for i, pod := range w.Clients {
			var spots []world.Spot
			for j, node := range w.Machines {
				seen := routers[j]
				if i == j {
					seen = world.Addresses(pod)
				}
				spots = append(spots, r.atNodePort(t, node, []string{"server-2"}, seen)...)
				spots = append(spots, world.SpotsAt(node.Addresses(t), 29999, nil, nil)...)
			}
			all = append(all, found(spots, pod)...)
		}
		return all
	})
	r.Repeats = true
	return r.row()
}

// comingAndGoing: with policy Local, the node port of the own node answers at once whether its node has an endpoint or
// another one, and when that changes.
func comingAndGoing(t *testing.T, w *world.World) *world.Row {
	r := newServiceRow(t, w, "own node's port while endpoints come and go", func(spec *corev1.ServiceSpec) {
		withNodePorts(spec)
		selecting("server", "server-1")(spec)
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	finds := func(servers ...string) func() []world.Finding {
		return func() []world.Finding {
			return []world.Finding{{From: w.Machines[2], Spots: r.atNodePort(t, w.Machines[2], servers, nil)}}
		}
	}
	r.then(nil, finds("server-1"))
	r.then(selecting("last", "yes"), finds("server-1", "server-2"))
	r.then(selecting("server", "server-2"), finds("server-2"))
	r.then(selecting("server", "server-0"), finds("server-0"))
	r.Repeats = true
	return r.row()
}

// typeInPlace: ClusterIP to NodePort and back in place; the node port answers at the pod's own node while it is there,
// and is gone with it.
func typeInPlace(t *testing.T, w *world.World) *world.Row {
	r := newServiceRow(t, w, "the type changes in place", selecting("server", "server-2"))
	var atNode []world.Spot
	finds := func(atNode func() []world.Spot) func() []world.Finding {
		return func() []world.Finding {
			return found(append(r.atCluster([]string{"server-2"}, nil), atNode()...), w.Clients[1])
		}
	}
	r.then(nil, finds(func() []world.Spot { return nil }))
	r.then(withNodePorts, finds(func() []world.Spot {
		atNode = r.atNodePort(t, w.Machines[1], []string{"server-2"}, nil)
		return atNode
	}))
	r.then(nil, finds(func() (silent []world.Spot) {
		for _, spot := range atNode {
			silent = append(silent, world.Spot{Target: spot.Target})
		}
		return silent
	}))
	r.States[2].Enter = func(t *testing.T) {
		r.web = world.UpdateService(t, r.web, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeClusterIP })
		world.Eventually(t, world.ServiceWithin, "nothing is left of the node port", func() (bool, string) {
			left := vipsOf(t, r.web)
			return !strings.Contains(left, "NODEIP"), left
		})
	}
	r.Repeats = true
	return r.row()
}

// TestService_SCTPAssociationBegins: an association with a service begins, from pods of every node at the service's own
// address, and from an external client at the node ports. Port and checksum are translated. Without the service there
// is no answer. Kernels of labs lack SCTP: both ends are raw sockets.
func TestService_SCTPAssociationBegins(t *testing.T) {
	world.Test(t, world.Services)
	w := world.Shared(t)
	r := newServiceRow(t, w, "at each address", func(spec *corev1.ServiceSpec) {
		spec.Selector = map[string]string{"server": "server-2"}
		spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolSCTP, Port: world.ServicePort,
			TargetPort: intstr.FromInt32(world.EchoPort)}}
		withNodePorts(spec)
	})
	r.then(nil, func() []world.Finding {
		var inside, outside []world.Spot
		for _, address := range world.Frontends(r.web) {
			inside = append(inside, world.Spot{Target: "sctp:" + address, Servers: []string{"server-2"}})
		}
		for _, node := range w.Machines {
			outside = append(outside, r.atNodePort(t, node, []string{"server-2"}, nil)...)
		}
		return append(found(inside, w.Clients...), world.Finding{From: w.External, Spots: outside})
	})
	r.Repeats = true
	world.Check(t, r.row())
}
