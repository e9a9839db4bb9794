//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const (
	servicePort   = 80
	serviceWithin = soon
)

// server makes a pod behind the services of its namespace that answers with its name.
func server(t *testing.T, ns, name, node string) *corev1.Pod {
	t.Helper()
	return allRunning(t, serverObject(ns, name, node))[0]
}

func serverObject(ns, name, node string) *corev1.Pod {
	pod := podObject(ns, name, node, "probe", "serve", fmt.Sprint(echoPort), name)
	pod.Labels = map[string]string{"app": "web"}
	return pod
}

// serversOn makes the pods server-0, server-1 and so on, one on each of some nodes.
func serversOn(t *testing.T, ns string, some ...string) []*corev1.Pod {
	t.Helper()
	var objects []*corev1.Pod
	for i, node := range some {
		objects = append(objects, serverObject(ns, fmt.Sprintf("server-%d", i), node))
	}
	return allRunning(t, objects...)
}

// service makes a service of the pods that server makes, TCP and UDP, in the
// lab's families, and waits until it answers or (without pods) refuses.
func service(t *testing.T, ns string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	families := corev1.IPFamilyPolicyPreferDualStack
	target := intstr.FromInt32(echoPort)
	object := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "web-"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, IPFamilyPolicy: &families,
			Ports: []corev1.ServicePort{
				{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: servicePort, TargetPort: target},
				{Name: "udp", Protocol: corev1.ProtocolUDP, Port: servicePort, TargetPort: target},
			},
		},
	}
	if change != nil {
		change(&object.Spec)
	}
	made, err := cluster.client.CoreV1().Services(ns).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// frontends are a service's cluster addresses with its port.
func frontends(service *corev1.Service) []string {
	var out []string
	for _, addr := range clusterAddresses(service) {
		out = append(out, netip.AddrPortFrom(addr, servicePort).String())
	}
	return out
}

func clusterAddresses(service *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, ip := range service.Spec.ClusterIPs {
		out = append(out, netip.MustParseAddr(ip))
	}
	return out
}

func deleteService(t *testing.T, ns, name string) {
	t.Helper()
	if err := cluster.client.CoreV1().Services(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// vipsOf is what the database says of a service's load balancers.
func vipsOf(t *testing.T, service *corev1.Service) string {
	t.Helper()
	return nbctl(t, "--bare", "--columns=vips", "find", "Load_Balancer", "external_ids:k8s.ovn.org/owner="+service.Namespace+"/"+service.Name)
}

// answer is a server's reply: the client's source address, and the server's name.
type answer struct{ seen, server string }

func readAnswer(out string, err error) (answer, error) {
	words := strings.Fields(out)
	if err != nil || len(words) != 2 {
		return answer{}, errors.Join(err, fmt.Errorf("answer %q", out))
	}
	return answer{seen: strings.TrimPrefix(words[0], "::ffff:"), server: words[1]}, nil
}

func askFromPod(pod *corev1.Pod, network, address string) (answer, error) {
	return readAnswer(inPod(pod.Namespace, pod.Name, "probe", "dial", network, address))
}

// askPatiently is askFromPod for an answer that has to come, with time for a second SYN.
func askPatiently(pod *corev1.Pod, network, address string) (answer, error) {
	return readAnswer(inPod(pod.Namespace, pod.Name, patiently([]string{"probe", "dial", network, address})...))
}

// answers waits until an address answers a pod.
func answers(t *testing.T, from *corev1.Pod, network, address string) answer {
	t.Helper()
	var got answer
	eventually(t, serviceWithin, network+" "+address+" answers "+from.Name, func() (bool, string) {
		var err error
		got, err = askFromPod(from, network, address)
		return err == nil, fmt.Sprint(err)
	})
	return got
}

// refuses waits until an address refuses a pod at once, and not by silence.
func refuses(t *testing.T, from *corev1.Pod, network, address string) {
	t.Helper()
	eventually(t, serviceWithin, network+" "+address+" refuses "+from.Name, func() (bool, string) {
		got, err := askFromPod(from, network, address)
		return err != nil && strings.Contains(err.Error(), "refused"), fmt.Sprint(got, err)
	})
}

// TestService_ReachesEveryEndpoint: a pod (in the full tier one on each node) connects to a service with an endpoint on each node, in each
// family and protocol. Every endpoint answers and sees the pod's own address. Without the service there is no answer.
func TestService_ReachesEveryEndpoint(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := namespace(t)
	web := service(t, ns, nil)
	clients := tier.Pick(nodes[:1], nodes)
	var objects []*corev1.Pod
	for i, node := range nodes {
		objects = append(objects, serverObject(ns, fmt.Sprintf("server-%d", i), node))
	}
	for _, node := range clients {
		objects = append(objects, podObject(ns, "from-"+node, node))
	}
	pods := allRunning(t, objects...)[len(nodes):]
	for _, from := range pods {
		for _, address := range frontends(web) {
			for _, network := range []string{"tcp", "udp"} {
				answers(t, from, network, address)
				everyServer(t, from, network, address)
			}
		}
	}
	deleteService(t, ns, web.Name)
	for _, address := range frontends(web) {
		eventually(t, serviceWithin, address+" is silent", func() (bool, string) {
			got, err := askFromPod(pods[0], "tcp", address)
			return err != nil, got.server
		})
	}
}

func everyServer(t *testing.T, from *corev1.Pod, network, address string) {
	t.Helper()
	servers := map[string]int{}
	const script = `for i in $(seq 40); do probe dial "$1" "$2" 0 ` + patience + ` || echo lost lost; done`
	for line := range strings.Lines(mustInPod(t, from, "sh", "-c", script, "sh", network, address)) {
		got, err := readAnswer(line, nil)
		if err != nil {
			t.Fatal(err)
		}
		servers[got.server]++
		if seen, err := netip.ParseAddr(got.seen); err != nil || !hasAddress(t, from, seen) {
			t.Errorf("%s %s: the server saw %q, not %s itself", network, address, got.seen, from.Name)
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
	ns := namespace(t)
	web := service(t, ns, nil)
	pods := allRunning(t, serverObject(ns, "alone", nodes[1]), podObject(ns, "other", nodes[1]))
	alone, other := pods[0], pods[1]
	var all []netip.AddrPort
	for _, address := range frontends(web) {
		all = append(all, netip.MustParseAddrPort(address))
		for _, network := range []string{"tcp", "udp"} {
			if got := answers(t, alone, network, address); got.server != "alone" {
				t.Errorf("%s %s: answered by %q", network, address, got.server)
			}
		}
	}
	becomes(t, other, true, all...)
	becomes(t, alone, true, echoTargets(t, other)...)
	createPolicy(t, ns, "nothing", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{
		networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress,
	}})
	becomes(t, other, false, all...)
	becomes(t, alone, false, echoTargets(t, other)...)
	for _, address := range frontends(web) {
		for _, network := range []string{"tcp", "udp"} {
			if got, err := askPatiently(alone, network, address); err != nil || got.server != "alone" {
				t.Errorf("%s %s under the policy: %v, %v", network, address, got, err)
			}
		}
	}
}

// TestService_WithoutEndpointsRefuses: at once, and until it has an endpoint.
func TestService_WithoutEndpointsRefuses(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := namespace(t)
	web := service(t, ns, nil)
	from := running(t, ns, "from", nodes[1])
	for _, address := range frontends(web) {
		for _, network := range []string{"tcp", "udp"} {
			refuses(t, from, network, address)
		}
	}
	server(t, ns, "late", nodes[2])
	for _, address := range frontends(web) {
		answers(t, from, "tcp", address)
	}
}

// TestService_InternalTrafficPolicyLocalForPods: a pod reaches the endpoint of its own node alone, and
// nothing where there is none.
func TestService_InternalTrafficPolicyLocalForPods(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := namespace(t)
	local := corev1.ServiceInternalTrafficPolicyLocal
	web := service(t, ns, func(spec *corev1.ServiceSpec) { spec.InternalTrafficPolicy = &local })
	pods := allRunning(t, serverObject(ns, "server-0", nodes[0]), serverObject(ns, "server-1", nodes[1]), podObject(ns, "from-0", nodes[0]),
		podObject(ns, "from-1", nodes[1]), podObject(ns, "from-2", nodes[2]))
	for i, node := range nodes[:2] {
		from := pods[2+i]
		for _, address := range frontends(web) {
			answers(t, from, "tcp", address)
			for range 5 {
				if got, err := askPatiently(from, "tcp", address); err != nil || got.server != fmt.Sprintf("server-%d", i) {
					t.Errorf("%s on %s: %v, %v", address, node, got, err)
				}
			}
		}
	}
	for _, address := range frontends(web) {
		dial := func(from *corev1.Pod) attempt { return podTries(from, "probe", "dial", "tcp", address) }
		failsBeside(t, address+" answers on "+nodes[2]+" without an endpoint", dial(pods[4]), dial(pods[2]))
	}
}

// TestService_ChangesTypeInPlace: ClusterIP to NodePort and back in place; the node port
// answers at the pod's own node while it is there, and is gone with it.
func TestService_ChangesTypeInPlace(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	ns := namespace(t)
	web := service(t, ns, nil)
	from := allRunning(t, serverObject(ns, "server", nodes[2]), podObject(ns, "from", nodes[1]))[1]
	answers(t, from, "tcp", frontends(web)[0])
	web = updateService(t, web, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	node := netip.AddrPortFrom(nodeAddress(t, nodes[1]), uint16(web.Spec.Ports[0].NodePort)).String()
	if got := answers(t, from, "tcp", node); got.server != "server" {
		t.Errorf("node port: %v", got)
	}
	updateService(t, web, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeClusterIP })
	eventually(t, serviceWithin, "nothing is left of the node port", func() (bool, string) {
		left := vipsOf(t, web)
		return !strings.Contains(left, "NODEIP"), left
	})
	eventually(t, serviceWithin, "the node port is gone", func() (bool, string) {
		got, err := askFromPod(from, "tcp", node)
		return err != nil, got.server
	})
	answers(t, from, "tcp", frontends(web)[0])
}

func updateService(t *testing.T, service *corev1.Service, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	services := cluster.client.CoreV1().Services(service.Namespace)
	for {
		now, err := services.Get(t.Context(), service.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(&now.Spec)
		now, err = services.Update(t.Context(), now, metav1.UpdateOptions{})
		if err == nil {
			return now
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

func nodeAddress(t *testing.T, name string) netip.Addr {
	t.Helper()
	node, err := cluster.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return netip.MustParseAddr(address.Address)
		}
	}
	t.Fatalf("node %s has no address", name)
	return netip.Addr{}
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
	atOnce(t, each)
}

// leaving is a stream whose endpoint leaves after a time, with another endpoint or without one.
type leaving struct {
	network, other string
	later          time.Duration
}

func (l leaving) check(t *testing.T) {
	ns := namespace(t)
	web := service(t, ns, nil)
	first, from := serverObject(ns, "first", nodes[2]), podObject(ns, "from", nodes[1])
	first.Labels["kept"] = "yes"
	objects := []*corev1.Pod{first, from}
	if l.other != "" {
		second := serverObject(ns, l.other, nodes[0])
		second.Labels["app"] = "waits"
		objects = append(objects, second)
	}
	pods := allRunning(t, objects...)
	first, from = pods[0], pods[1]
	kept := service(t, ns, func(spec *corev1.ServiceSpec) { spec.Selector = map[string]string{"kept": "yes"} })
	answers(t, from, "udp", frontends(kept)[0])
	answers(t, from, l.network, frontends(web)[0])
	stays := startFlow(t, ns, from.Name, "udp", netip.MustParseAddrPort(frontends(kept)[0]))
	moves := startFlow(t, ns, from.Name, l.network, netip.MustParseAddrPort(frontends(web)[0]))
	time.Sleep(l.later)
	if l.other != "" {
		label(t, pods[2], `{"app":"web"}`)
	}
	label(t, first, `{"app":"retired"}`)
	last := "first"
	if l.network == "udp" && l.other != "" {
		last = l.other
		eventually(t, podWithin, last+" answers the stream", func() (bool, string) {
			return moves.answering() == last && moves.answered(time.Second), moves.answering()
		})
	} else {
		wantEnds(t, stays, moves)
	}
	stays.wantAnswer(t, soon)
	if got, kept := moves.answering(), stays.answering(); got != last || kept != "first" {
		t.Errorf("the last answers are of %q and, by the other service, of %q; want %q and \"first\"", got, kept, last)
	}
}

func label(t *testing.T, pod *corev1.Pod, labels string) {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":` + labels + `}}`)
	if _, err := cluster.client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestHostPort_AnswersPodsOfItsNode: a pod's port on its node answers pods of that node, TCP and UDP,
// and is gone with the pod.
func TestHostPort_AnswersPodsOfItsNode(t *testing.T) {
	world.Test(t, world.Services)
	ns := namespace(t)
	pod := podObject(ns, "server", nodes[1], "probe", "serve", fmt.Sprint(echoPort), "server")
	const hostPort = 29997
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{ContainerPort: echoPort, HostPort: hostPort, Protocol: corev1.ProtocolTCP},
		{ContainerPort: echoPort, HostPort: hostPort, Protocol: corev1.ProtocolUDP},
	}
	create(t, pod)
	waitPod(t, ns, "server", "Running", isRunning)
	from := running(t, ns, "from", nodes[1])
	address := netip.AddrPortFrom(nodeAddress(t, nodes[1]), hostPort).String()
	for _, network := range []string{"tcp", "udp"} {
		if got := answers(t, from, network, address); got.server != "server" {
			t.Errorf("%s %s: %v", network, address, got)
		}
	}
	deletePod(t, ns, "server")
	eventually(t, serviceWithin, "the host port is closed", func() (bool, string) {
		got, err := askFromPod(from, "tcp", address)
		return err != nil, got.server
	})
}

// TestService_SCTPAssociationBegins: an association with a service begins, from pods of every node at the service's own
// address, and from an external client at the node ports. Port and checksum are translated. Without the service there is
// no answer. Kernels of labs lack SCTP: both ends are raw sockets.
func TestService_SCTPAssociationBegins(t *testing.T) {
	world.Test(t, world.Services)
	ns := namespace(t)
	pod := podObject(ns, "server", nodes[2], "probe", "serve-sctp", fmt.Sprint(echoPort), "server")
	pod.Labels = map[string]string{"app": "web"}
	create(t, pod)
	waitPod(t, ns, "server", "Running", isRunning)
	web := service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type = corev1.ServiceTypeNodePort
		spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolSCTP, Port: servicePort, TargetPort: intstr.FromInt32(echoPort)}}
	})
	for _, node := range nodes {
		from := running(t, ns, "from-"+node, node)
		for _, address := range frontends(web) {
			if got := answers(t, from, "sctp", address); got.server != "server" {
				t.Errorf("%s from %s: %v", address, node, got)
			}
		}
		for _, addr := range machineAddresses(t, node) {
			address := netip.AddrPortFrom(addr, uint16(web.Spec.Ports[0].NodePort)).String()
			eventually(t, serviceWithin, address+" answers the outside", func() (bool, string) {
				got, err := askFrom(outside, "sctp", address)
				return err == nil && got.server == "server", fmt.Sprint(got, err)
			})
		}
	}
	deleteService(t, ns, web.Name)
	from := waitPod(t, ns, "from-"+nodes[0], "Running", isRunning)
	for _, address := range frontends(web) {
		eventually(t, serviceWithin, address+" is silent", func() (bool, string) {
			got, err := askFromPod(from, "sctp", address)
			return err != nil, got.server
		})
	}
}

// tracedService is a service with a TCP port for the pods with a label.
func tracedService(t *testing.T, ns, app string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	return service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Selector, spec.Ports = map[string]string{"app": app}, spec.Ports[:1]
		if change != nil {
			change(spec)
		}
	})
}
