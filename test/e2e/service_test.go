//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// serversOn makes the pods server-0, server-1 and so on, one on each of some nodes.
func serversOn(t *testing.T, ns string, some ...string) []*corev1.Pod {
	t.Helper()
	var objects []*corev1.Pod
	for i, node := range some {
		objects = append(objects, world.Pod(ns, fmt.Sprintf("server-%d", i), node, world.Behind("web")))
	}
	return world.Run(t, objects...)
}

// vipsOf is what the database says of a service's load balancers.
func vipsOf(t *testing.T, service *corev1.Service) string {
	t.Helper()
	return nbctl(t, "--bare", "--columns=vips", "find", "Load_Balancer", "external_ids:k8s.ovn.org/owner="+service.Namespace+"/"+service.Name)
}

// TestService_ReachesEveryEndpoint: a pod (in the full tier one on each node) connects to a service with an endpoint on each node, in each
// family and protocol. Every endpoint answers and sees the pod's own address. Without the service there is no answer.
func TestService_ReachesEveryEndpoint(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	web := world.Service(t, ns, nil)
	clients := tier.Pick(nodes[:1], nodes)
	var objects []*corev1.Pod
	for i, node := range nodes {
		objects = append(objects, world.Pod(ns, fmt.Sprintf("server-%d", i), node, world.Behind("web")))
	}
	for _, node := range clients {
		objects = append(objects, world.Pod(ns, "from-"+node, node))
	}
	pods := world.Run(t, objects...)[len(nodes):]
	for _, from := range pods {
		for _, address := range world.Frontends(web) {
			for _, network := range []string{"tcp", "udp"} {
				world.FromPod(from).Answered(t, network, address)
				everyServer(t, from, network, address)
			}
		}
	}
	world.DeleteService(t, ns, web.Name)
	for _, address := range world.Frontends(web) {
		world.Eventually(t, world.ServiceWithin, address+" is silent", func() (bool, string) {
			got, err := world.FromPod(pods[0]).Ask("tcp", address)
			return err != nil, got.Server
		})
	}
}

func everyServer(t *testing.T, from *corev1.Pod, network, address string) {
	t.Helper()
	servers := map[string]int{}
	const script = `for i in $(seq 40); do probe dial "$1" "$2" 0 ` + world.Patience + ` || echo lost lost; done`
	for line := range strings.Lines(world.MustInPod(t, from, "sh", "-c", script, "sh", network, address)) {
		got, err := world.ReadAnswer(line, nil)
		if err != nil {
			t.Fatal(err)
		}
		servers[got.Server]++
		if seen, err := netip.ParseAddr(got.Seen); err != nil || !world.HasAddress(from, seen) {
			t.Errorf("%s %s: the server saw %q, not %s itself", network, address, got.Seen, from.Name)
		}
	}
	if servers["lost"] > 0 || len(servers) != 3 {
		t.Errorf("%s %s asked 40 times by %s: answers of %v, want 3 servers and no loss", network, address, from.Name, servers)
	}
}

// TestService_OnlyEndpointReachesItself: a pod reaches itself through its own service, also
// when policies forbid it and others to ask and to be asked.
func TestService_OnlyEndpointReachesItself(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	web := world.Service(t, ns, nil)
	pods := world.Run(t, world.Pod(ns, "alone", nodes[1], world.Behind("web")), world.Pod(ns, "other", nodes[1]))
	alone, other := pods[0], pods[1]
	var all []netip.AddrPort
	for _, address := range world.Frontends(web) {
		all = append(all, netip.MustParseAddrPort(address))
		for _, network := range []string{"tcp", "udp"} {
			if got := world.FromPod(alone).Answered(t, network, address); got.Server != "alone" {
				t.Errorf("%s %s: answered by %q", network, address, got.Server)
			}
		}
	}
	world.Reaches(t, other, true, all...)
	world.Reaches(t, alone, true, world.Endpoints(other)...)
	world.CreatePolicy(t, ns, "nothing", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{
		networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress,
	}})
	world.Reaches(t, other, false, all...)
	world.Reaches(t, alone, false, world.Endpoints(other)...)
	for _, address := range world.Frontends(web) {
		for _, network := range []string{"tcp", "udp"} {
			if got, err := world.FromPod(alone).AskPatiently(network, address); err != nil || got.Server != "alone" {
				t.Errorf("%s %s under the policy: %v, %v", network, address, got, err)
			}
		}
	}
}

// TestService_WithoutEndpointsRefuses: at once, and until it has an endpoint.
func TestService_WithoutEndpointsRefuses(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	web := world.Service(t, ns, nil)
	from := world.Run(t, world.Pod(ns, "from", nodes[1]))[0]
	for _, address := range world.Frontends(web) {
		for _, network := range []string{"tcp", "udp"} {
			world.FromPod(from).Refused(t, network, address)
		}
	}
	world.Run(t, world.Pod(ns, "late", nodes[2], world.Behind("web")))
	for _, address := range world.Frontends(web) {
		world.FromPod(from).Answered(t, "tcp", address)
	}
}

// TestService_InternalTrafficPolicyLocalForPods: a pod reaches the endpoint of its own node alone, and
// nothing where there is none.
func TestService_InternalTrafficPolicyLocalForPods(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	local := corev1.ServiceInternalTrafficPolicyLocal
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.InternalTrafficPolicy = &local })
	pods := world.Run(t, world.Pod(ns, "server-0", nodes[0], world.Behind("web")),
		world.Pod(ns, "server-1", nodes[1], world.Behind("web")), world.Pod(ns, "from-0", nodes[0]),
		world.Pod(ns, "from-1", nodes[1]), world.Pod(ns, "from-2", nodes[2]))
	for i, node := range nodes[:2] {
		from := pods[2+i]
		for _, address := range world.Frontends(web) {
			world.FromPod(from).Answered(t, "tcp", address)
			for range 5 {
				if got, err := world.FromPod(from).AskPatiently("tcp",
					address); err != nil || got.Server != fmt.Sprintf("server-%d", i) {
					t.Errorf("%s on %s: %v, %v", address, node, got, err)
				}
			}
		}
	}
	for _, address := range world.Frontends(web) {
		dial := func(from *corev1.Pod) world.Attempt {
			return world.FromPod(from).Tries("probe", "dial", "tcp", address)
		}
		world.FailsBeside(t, address+" answers on "+nodes[2]+" without an endpoint", dial(pods[4]), dial(pods[2]))
	}
}

// TestService_ChangesTypeInPlace: ClusterIP to NodePort and back in place; the node port
// answers at the pod's own node while it is there, and is gone with it.
func TestService_ChangesTypeInPlace(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := world.Namespace(t)
	web := world.Service(t, ns, nil)
	from := world.Run(t, world.Pod(ns, "server", nodes[2], world.Behind("web")), world.Pod(ns, "from", nodes[1]))[1]
	world.FromPod(from).Answered(t, "tcp", world.Frontends(web)[0])
	web = world.UpdateService(t, web, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	node := netip.AddrPortFrom(world.InternalIP(t, nodes[1]), uint16(web.Spec.Ports[0].NodePort)).String()
	if got := world.FromPod(from).Answered(t, "tcp", node); got.Server != "server" {
		t.Errorf("node port: %v", got)
	}
	world.UpdateService(t, web, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeClusterIP })
	world.Eventually(t, world.ServiceWithin, "nothing is left of the node port", func() (bool, string) {
		left := vipsOf(t, web)
		return !strings.Contains(left, "NODEIP"), left
	})
	world.Eventually(t, world.ServiceWithin, "the node port is gone", func() (bool, string) {
		got, err := world.FromPod(from).Ask("tcp", node)
		return err != nil, got.Server
	})
	world.FromPod(from).Answered(t, "tcp", world.Frontends(web)[0])
}

// TestService_FlowsLeaveRemovedEndpoint: flows that never pause leave an endpoint that
// is no longer one, although its pod still runs: a UDP flow goes on with another
// endpoint, and ends where there is none; a TCP connection ends. The datapath keeps
// the flow by which a stream began for ten idle seconds, by which it would begin
// there again: so the endpoint leaves at once, and later. The flow of another service
// with the same pod, whose endpoint it stays, is not touched.
func TestService_FlowsLeaveRemovedEndpoint(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	gate := []leaving{{"udp", "second", 0}, {"tcp", "second", 0}}
	rest := []leaving{{"udp", "second", 12 * time.Second}, {"udp", "", 0}}
	each := map[string]func(*testing.T){}
	for _, l := range tier.Pick(gate, append(gate, rest...)) {
		each[l.network+" "+l.other+" "+l.later.String()] = l.check
	}
	world.AtOnce(t, each)
}

// leaving is a stream whose endpoint leaves after a time, with another endpoint or without one.
type leaving struct {
	network, other string
	later          time.Duration
}

func (l leaving) check(t *testing.T) {
	ns := world.Namespace(t)
	web := world.Service(t, ns, nil)
	first, from := world.Pod(ns, "first", nodes[2], world.Behind("web")), world.Pod(ns, "from", nodes[1])
	first.Labels["kept"] = "yes"
	objects := []*corev1.Pod{first, from}
	if l.other != "" {
		second := world.Pod(ns, l.other, nodes[0], world.Behind("web"))
		second.Labels["app"] = "waits"
		objects = append(objects, second)
	}
	pods := world.Run(t, objects...)
	first, from = pods[0], pods[1]
	kept := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Selector = map[string]string{"kept": "yes"} })
	world.FromPod(from).Answered(t, "udp", world.Frontends(kept)[0])
	world.FromPod(from).Answered(t, l.network, world.Frontends(web)[0])
	stays := startFlow(t, ns, from.Name, "udp", netip.MustParseAddrPort(world.Frontends(kept)[0]))
	moves := startFlow(t, ns, from.Name, l.network, netip.MustParseAddrPort(world.Frontends(web)[0]))
	time.Sleep(l.later)
	if l.other != "" {
		world.LabelPod(t, pods[2], `{"app":"web"}`)
	}
	world.LabelPod(t, first, `{"app":"retired"}`)
	last := "first"
	if l.network == "udp" && l.other != "" {
		last = l.other
		world.Eventually(t, world.PodWithin, last+" answers the stream", func() (bool, string) {
			return moves.answering() == last && moves.answered(time.Second), moves.answering()
		})
	} else {
		wantEnds(t, stays, moves)
	}
	stays.wantAnswer(t, world.Soon)
	if got, kept := moves.answering(), stays.answering(); got != last || kept != "first" {
		t.Errorf("the last answers are of %q and, by the other service, of %q; want %q and \"first\"", got, kept, last)
	}
}

// TestHostPort_AnswersPodsOfItsNode: a pod's port on its node answers pods of that node, TCP and UDP,
// and is gone with the pod.
func TestHostPort_AnswersPodsOfItsNode(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	pod := world.Pod(ns, "server", nodes[1], world.Named())
	const hostPort = 29997
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{ContainerPort: world.EchoPort, HostPort: hostPort, Protocol: corev1.ProtocolTCP},
		{ContainerPort: world.EchoPort, HostPort: hostPort, Protocol: corev1.ProtocolUDP},
	}
	world.Create(t, pod)
	world.WaitPod(t, ns, "server", "Running", world.IsRunning)
	from := world.Run(t, world.Pod(ns, "from", nodes[1]))[0]
	address := netip.AddrPortFrom(world.InternalIP(t, nodes[1]), hostPort).String()
	for _, network := range []string{"tcp", "udp"} {
		if got := world.FromPod(from).Answered(t, network, address); got.Server != "server" {
			t.Errorf("%s %s: %v", network, address, got)
		}
	}
	world.DeletePod(t, ns, "server")
	world.Eventually(t, world.ServiceWithin, "the host port is closed", func() (bool, string) {
		got, err := world.FromPod(from).Ask("tcp", address)
		return err != nil, got.Server
	})
}

// TestService_SCTPAssociationBegins: an association with a service begins, from pods of every node at the service's own
// address, and from an external client at the node ports. Port and checksum are translated. Without the service there is
// no answer. Kernels of labs lack SCTP: both ends are raw sockets.
func TestService_SCTPAssociationBegins(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	pod := world.Pod(ns, "server", nodes[2], world.Command("probe", "serve-sctp", fmt.Sprint(world.EchoPort), "server"))
	pod.Labels = map[string]string{"app": "web"}
	world.Create(t, pod)
	world.WaitPod(t, ns, "server", "Running", world.IsRunning)
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type = corev1.ServiceTypeNodePort
		spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolSCTP, Port: world.ServicePort,
			TargetPort: intstr.FromInt32(world.EchoPort)}}
	})
	for _, node := range nodes {
		from := world.Run(t, world.Pod(ns, "from-"+node, node))[0]
		for _, address := range world.Frontends(web) {
			if got := world.FromPod(from).Answered(t, "sctp", address); got.Server != "server" {
				t.Errorf("%s from %s: %v", address, node, got)
			}
		}
		for _, addr := range world.NodeAddresses(t, node) {
			address := netip.AddrPortFrom(addr, uint16(web.Spec.Ports[0].NodePort)).String()
			world.Eventually(t, world.ServiceWithin, address+" answers the outside", func() (bool, string) {
				got, err := world.FromNode(outside).Ask("sctp", address)
				return err == nil && got.Server == "server", fmt.Sprint(got, err)
			})
		}
	}
	world.DeleteService(t, ns, web.Name)
	from := world.WaitPod(t, ns, "from-"+nodes[0], "Running", world.IsRunning)
	for _, address := range world.Frontends(web) {
		world.Eventually(t, world.ServiceWithin, address+" is silent", func() (bool, string) {
			got, err := world.FromPod(from).Ask("sctp", address)
			return err != nil, got.Server
		})
	}
}

// tracedService is a service with a TCP port for the pods with a label.
func tracedService(t *testing.T, ns, app string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	return world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Selector, spec.Ports = map[string]string{"app": app}, spec.Ports[:1]
		if change != nil {
			change(spec)
		}
	})
}
