//go:build e2e

package e2e

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// hostPorts has the pods with host ports on nodes[1], whose clients are those of the shared world.
type hostPorts struct {
	w   *world.World
	ns  string
	own []netip.Addr // of the node
}

// pod describes a server with ports of its node.
func (h hostPorts) pod(name string, ports ...corev1.ContainerPort) *corev1.Pod {
	return world.Pod(h.ns, name, nodes[1], world.Named(), world.HostPorts(ports...))
}

// hostPort is a host port for TCP and UDP, at some addresses of the node or, without such, at all.
func hostPort(number int32, addrs ...netip.Addr) (ports []corev1.ContainerPort) {
	if len(addrs) == 0 {
		addrs = []netip.Addr{{}}
	}
	for _, addr := range addrs {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			port := corev1.ContainerPort{HostPort: number, Protocol: protocol}
			if addr.IsValid() {
				port.HostIP = addr.String()
			}
			ports = append(ports, port)
		}
	}
	return ports
}

// ends is a state in which a pod has been deleted.
func (h hostPorts) ends(name string, finds func() []world.Finding) world.State {
	return world.State{Enter: func(t *testing.T) { world.DeletePod(t, h.ns, name) }, Finds: finds}
}

// TestHostPort_AnswersItsClients: what clients find at ports of a node that lead to pods of the node, and that they are
// gone with their pods.
func TestHostPort_AnswersItsClients(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	w := world.Shared(t)
	h := hostPorts{w: w, ns: world.Namespace(t), own: w.Machines[1].Addresses(t)}
	rows, pods := []*world.Row{}, []*corev1.Pod{}
	for _, row := range []func(*testing.T) (*world.Row, []*corev1.Pod){h.all, h.atItsHostIP, h.atAnUnusedHostIP,
		h.twoProtocols, h.atLoopback} {
		made, of := row(t)
		rows, pods = append(rows, made), append(pods, of...)
	}
	world.Run(t, pods...)
	world.Check(t, rows...)
}

// all: a host port answers the external host, the node itself, and pods of this node and of another one. The pod sees
// the external host's own address.
func (h hostPorts) all(t *testing.T) (*world.Row, []*corev1.Pod) {
	const number = 29998
	row := &world.Row{Name: "outside, nodes, and pods of each node", Repeats: true,
		States: []world.State{{Finds: func() []world.Finding {
			spots := world.SpotsAt(h.own, number, []string{"all"}, nil)
			return append(found(spots, h.w.Clients[1], h.w.Clients[2]), world.Finding{From: h.w.Machines[1], Spots: spots},
				world.Finding{From: h.w.External, Spots: world.SpotsAt(h.own, number, []string{"all"}, h.w.External.Addresses(t))})
		}}}}
	row.Gone(func(t *testing.T) { world.DeletePod(t, h.ns, "all") })
	return row, []*corev1.Pod{h.pod("all", hostPort(number)...)}
}

// seen are what an external client, the node itself and a pod of another node find at ports of the node. Each server
// sees the client or, of a pod of another node, the pod's node.
func (h hostPorts) seen(t *testing.T, port uint16, servers ...string) []world.Finding {
	t.Helper()
	spots := func(seen []netip.Addr) []world.Spot { return world.SpotsAt(h.own, port, servers, seen) }
	return append(found(spots(h.w.Machines[2].Addresses(t)), h.w.Clients[2]),
		world.Finding{From: h.w.External, Spots: spots(h.w.External.Addresses(t))}, world.Finding{From: h.w.Machines[1],
			Spots: spots(nil)})
}

// atItsHostIP: host ports with the node's address answer there.
func (h hostPorts) atItsHostIP(t *testing.T) (*world.Row, []*corev1.Pod) {
	const number = 29990
	row := &world.Row{Name: "at the node's address",
		States: []world.State{{Finds: func() []world.Finding { return h.seen(t, number, "here") }}}}
	row.Gone(func(t *testing.T) { world.DeletePod(t, h.ns, "here") })
	return row, []*corev1.Pod{h.pod("here", hostPort(number, h.own...)...)}
}

// atAnUnusedHostIP: host ports with an address that the node lacks do not answer, although their pod does.
func (h hostPorts) atAnUnusedHostIP(t *testing.T) (*world.Row, []*corev1.Pod) {
	const number = 29991
	var unused []netip.Addr
	for _, addr := range h.own {
		unused = append(unused, netip.MustParseAddr(map[bool]string{true: "203.0.113.200",
			false: "2001:db8:113::200"}[addr.Is4()]))
	}
	pod := h.pod("nowhere", hostPort(number, unused...)...)
	row := &world.Row{Name: "at an address that the node lacks", States: []world.State{{Finds: func() []world.Finding {
		itself := world.SpotsAt(world.Addresses(pod), world.EchoPort, []string{"nowhere"}, world.Addresses(h.w.Clients[2]))
		return append(h.seen(t, number), found(itself, h.w.Clients[2])...)
	}}}}
	return row, []*corev1.Pod{pod}
}

// twoProtocols: two pods of a node have the same port in two protocols, and the end of one pod closes only its own
// port.
func (h hostPorts) twoProtocols(t *testing.T) (*world.Row, []*corev1.Pod) {
	const number = 29992
	finds := func(udp ...string) func() []world.Finding {
		return func() []world.Finding {
			all := h.seen(t, number, "tcp")
			for i := range all {
				for j := range all[i].Spots {
					if spot := &all[i].Spots[j]; strings.HasPrefix(spot.Target, "udp") {
						spot.Servers = udp
					}
				}
			}
			return all
		}
	}
	row := &world.Row{Name: "one port in two protocols",
		States: []world.State{{Finds: finds("udp")}, h.ends("udp", finds())}}
	row.Gone(func(t *testing.T) { world.DeletePod(t, h.ns, "tcp") })
	ports := hostPort(number)
	return row, []*corev1.Pod{h.pod("tcp", ports[0]), h.pod("udp", ports[1])}
}

// atLoopback: a host port at 127.0.0.1 answers processes of the pod's node there, whatever address they have, and no
// other client; that of another pod, the same at the node's address, answers as ever.
func (h hostPorts) atLoopback(t *testing.T) (*world.Row, []*corev1.Pod) {
	const number = 31987
	own, loopback := world.OfFamily(h.own, netip.IPv4Unspecified()), netip.MustParseAddr("127.0.0.1")
	at := func(addr netip.Addr, servers ...string) []world.Spot {
		return world.SpotsAt([]netip.Addr{addr}, number, servers, nil)
	}
	finds := func(inside ...string) func() []world.Finding {
		return func() []world.Finding {
			others := append(at(loopback), at(own, "outside")...)
			return append(found(others, h.w.Clients[1]), world.Finding{From: h.w.Machines[0], Spots: others},
				world.Finding{From: h.w.Machines[1], Spots: append(at(loopback, inside...), at(own, "outside")...)})
		}
	}
	row := &world.Row{Name: "at the loopback address",
		States: []world.State{{Finds: finds("inside")}, h.ends("inside", finds())}}
	row.States[1].Enter = func(t *testing.T) {
		// As Kubernetes' test asks: by 127.0.0.1, from the node's own address.
		for _, network := range []string{"tcp", "udp"} {
			got, err := world.ReadAnswer(h.w.Machines[1].Run("probe", "from", netip.AddrPortFrom(own, 0).String(), network,
				netip.AddrPortFrom(loopback, number).String()))
			if err != nil || got.Server != "inside" {
				t.Errorf("%s from %s: %v, %v", network, own, got, err)
			}
		}
		world.DeletePod(t, h.ns, "inside")
	}
	return row, []*corev1.Pod{h.pod("inside", hostPort(number, loopback)...), h.pod("outside", hostPort(number, own)...)}
}

// TestHostPort_SCTPAssociationBegins: an association with a host port begins, from outside, whose address the pod sees,
// and from a pod of another node; it does not when the pod is gone.
func TestHostPort_SCTPAssociationBegins(t *testing.T) {
	world.Test(t, world.Services)
	const number = 29993
	w := world.Shared(t)
	h := hostPorts{w: w, ns: world.Namespace(t), own: w.Machines[1].Addresses(t)}
	row := &world.Row{Name: "from outside and another node", Repeats: true,
		States: []world.State{{Finds: func() []world.Finding {
			spots := func(seen []netip.Addr) (all []world.Spot) {
				for _, addr := range h.own {
					all = append(all, world.Spot{
						Target: "sctp:" + netip.AddrPortFrom(addr, number).String(), Servers: []string{"sctp"}, Seen: world.OfFamily(seen,
							addr),
					})
				}
				return all
			}
			return append(found(spots(nil), h.w.Clients[2]),
				world.Finding{From: h.w.External, Spots: spots(h.w.External.Addresses(t))})
		}}}}
	row.Gone(func(t *testing.T) { world.DeletePod(t, h.ns, "sctp") })
	pod := h.pod("sctp", corev1.ContainerPort{HostPort: number, Protocol: corev1.ProtocolSCTP})
	pod.Spec.Containers[0].Command[1] = "serve-sctp"
	world.Run(t, pod)
	world.Check(t, row)
}
