//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const silence = 3 * time.Second

// TestNetworkPolicy_IsolatesOtherNamespaces: a policy allows namespaces with a label, which no namespace has at first.
// The clients are a pod on the same node and one on another node.
func TestNetworkPolicy_IsolatesOtherNamespaces(t *testing.T) {
	world.Test(t, world.Policies, world.Core, world.Strict)
	mine, theirs, third := world.Namespace(t), world.Namespace(t), world.Namespace(t)
	pods := world.Run(t, world.Pod(mine, "target", nodes[1]), world.Pod(mine, "sibling", nodes[2]),
		world.Pod(theirs, "near", nodes[1]), world.Pod(theirs, "far", nodes[2]), world.Pod(third, "other", nodes[2]))
	target, sibling, near, far, other := pods[0], pods[1], pods[2], pods[3], pods[4]
	clients, targets := pods[1:], world.Endpoints(target)

	world.AllReach(t, clients, true, targets...)
	if out := world.MustInPod(t, near, "ping", "-c1", "-w5", targets[0].Addr().String()); !strings.Contains(out, "ttl=64") {
		t.Errorf("without a policy, ping on the same node: %s", out)
	}
	world.CreatePolicy(t, mine, "deny-ingress-from-alpine-worker", world.AllowNamespaces("namespace", "alpine-worker"))
	world.AllReach(t, clients, false, targets...)
	world.PingsFail(t, near, []string{targets[0].Addr().String()},
		[]string{world.OfFamily(world.Addresses(far), targets[0].Addr()).String()})
	world.LabelNamespace(t, theirs, "namespace", `"alpine-worker"`)
	world.AllReach(t, []*corev1.Pod{near, far}, true, targets...)
	world.AllReach(t, []*corev1.Pod{other, sibling}, false, targets...)
	for _, own := range targets {
		world.MustOnNode(t, nodes[1], "ping", "-c1", "-w5", own.Addr().String())
		world.MustOnNode(t, nodes[1], "probe", "dial", "tcp", own.String())
	}
	world.Reaches(t, target, true, world.Endpoints(far, other)...)
	world.LabelNamespace(t, theirs, "namespace", "null")
	world.Reaches(t, near, false, targets...)
	world.DeletePolicy(t, mine, "deny-ingress-from-alpine-worker")
	world.AllReach(t, clients, true, targets...)
}

// TestNetworkPolicy_HoldsForServices: a policy on the pods behind a service holds for the
// service's address as for their own, and is silent: nothing is refused.
func TestNetworkPolicy_HoldsForServices(t *testing.T) {
	world.Test(t, world.Policies, world.Core)
	mine, theirs, third := world.Namespace(t), world.Namespace(t), world.Namespace(t)
	objects := []*corev1.Pod{world.Pod(third, "other", nodes[1])}
	for i, node := range nodes {
		backend := world.Pod(mine, fmt.Sprint("nginx-", i), node)
		backend.Labels = map[string]string{"app": "nginx"}
		objects = append(objects, backend, world.Pod(theirs, fmt.Sprint("client-", i), node))
	}
	pods := world.Run(t, objects...)
	other, backends, clients := pods[0], []*corev1.Pod{pods[1], pods[3], pods[5]}, []*corev1.Pod{pods[2], pods[4], pods[6]}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "nginx"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "nginx"},
		Ports: []corev1.ServicePort{
			{Name: "tcp", Port: 80, TargetPort: intstr.FromInt32(world.EchoPort)},
			{Name: "udp", Port: 80, TargetPort: intstr.FromInt32(world.EchoPort), Protocol: corev1.ProtocolUDP},
		},
	}}
	made, err := cluster.client.CoreV1().Services(mine).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	targets := append(world.Endpoints(backends...), netip.AddrPortFrom(netip.MustParseAddr(made.Spec.ClusterIP), 80))
	world.AllReach(t, clients, true, targets...)
	nodePortsBecome(t, true, made)
	spec := world.AllowNamespaces("namespace", "alpine-worker")
	spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}}
	world.CreatePolicy(t, mine, "deny-specific-ip-blocks", spec)
	world.AllReach(t, clients, false, targets...)
	if _, err := world.InPod(theirs, clients[0].Name, "probe", "dial", "tcp",
		targets[0].String()); err == nil || strings.Contains(err.Error(), "refused") {
		t.Errorf("want silence, got %v", err)
	}
	world.LabelNamespace(t, theirs, "namespace", `"alpine-worker"`)
	world.AllReach(t, clients, true, targets...)
	world.Reaches(t, other, false, targets...)
	nodePortsBecome(t, false, made)
	for i, backend := range backends {
		world.MustOnNode(t, nodes[i], "probe", "dial", "tcp", world.Endpoints(backend)[0].String())
	}
	world.DeletePolicy(t, mine, "deny-specific-ip-blocks")
	world.Reaches(t, other, true, targets...)
	nodePortsBecome(t, true, made)
}

// nodePortsBecome waits until the outside can, or cannot, reach a service's TCP port
// at each node, whichever endpoint the node picks.
func nodePortsBecome(t *testing.T, want bool, service *corev1.Service) {
	t.Helper()
	words := []string{"probe", "reach"}
	for _, node := range nodes {
		address := netip.AddrPortFrom(world.InternalIP(t, node), uint16(service.Spec.Ports[0].NodePort)).String()
		words = append(words, slices.Repeat([]string{"tcp:" + address}, 5)...)
	}
	world.Eventually(t, world.PolicyWithin, fmt.Sprintf("%s from outside: %t", words[2:], want), func() (bool, string) {
		out, err := world.OnNode(outside, words...)
		return err == nil && len(strings.Fields(out)) == map[bool]int{true: len(words) - 2}[want], fmt.Sprint(out, err)
	})
}

// TestNetworkPolicy_IsLoggedWithAnnotation: with the namespace's annotation, what a policy drops and what
// it lets in is in the log of the pod's node; without it nothing is.
func TestNetworkPolicy_IsLoggedWithAnnotation(t *testing.T) {
	world.Test(t, world.Policies)
	ns := world.Namespace(t)
	target, from := world.Pod(ns, "target", nodes[1]), world.Pod(ns, "from", nodes[2])
	world.Run(t, target, from)
	address := world.Endpoints(target)[0]
	port := intstr.FromInt32(world.EchoPort)
	world.CreatePolicy(t, ns, "tcp-alone", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: target.Labels},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}},
	})
	knock := func() (tcp, udp bool, lines []string) {
		got, err := world.FromPod(from).Reached("tcp:"+address.String(), "udp:"+address.String())
		if err != nil {
			t.Fatal(err)
		}
		tcp, udp = slices.Contains(got, "tcp:"+address.String()), slices.Contains(got, "udp:"+address.String())
		for line := range strings.Lines(flowLog(t, nodes[1])) {
			if strings.Contains(line, `"NP:`+ns+`:`) {
				lines = append(lines, line)
			}
		}
		return tcp, udp, lines
	}
	world.Eventually(t, world.PolicyWithin, "the policy holds", func() (bool, string) {
		tcp, udp, _ := knock()
		return tcp && !udp, fmt.Sprint(tcp, udp)
	})
	if _, _, lines := knock(); len(lines) > 0 {
		t.Errorf("logged without the annotation: %s", lines)
	}
	annotate := []byte(`{"metadata":{"annotations":{"k8s.ovn.org/acl-logging":"{\"deny\":\"alert\",\"allow\":\"notice\"}"}}}`)
	if _, err := cluster.client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, annotate, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, world.PolicyWithin, "both verdicts are logged", func() (bool, string) {
		_, _, lines := knock()
		all := strings.Join(lines, "")
		return strings.Contains(all, "verdict=drop, severity=alert") && strings.Contains(all, "verdict=allow, severity=notice"), all
	})
}

// flowLog is the log of a node's ovn-controller.
func flowLog(t *testing.T, node string) string {
	t.Helper()
	pods, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: "app=ovnkube-node", FieldSelector: "spec.nodeName=" + node})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("ovnkube-node on %s: %d pods, %v", node, len(pods.Items), err)
	}
	text, err := cluster.client.CoreV1().Pods(system).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Container: "ovn-controller"}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNetworkPolicy_NewPodIsNeverOpen: the first act of a pod that a policy forbids to speak is
// to speak: it never succeeds. The control is the same pod without the policy.
func TestNetworkPolicy_NewPodIsNeverOpen(t *testing.T) {
	world.Test(t, world.Policies, world.Core, world.Strict)
	ns := world.Namespace(t)
	server := world.Run(t, world.Pod(ns, "server", nodes[2]))[0]
	target := world.Endpoints(server)[0].String()
	world.CreatePolicy(t, ns, "silent", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"silent": "yes"}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
	})
	for set := range tier.Pick(1, 3) {
		name := func(i int) string { return fmt.Sprintf("first-%d-%d", set, i) }
		const last = 3 // may speak
		for i := range last + 1 {
			pod := world.Pod(ns, name(i), nodes[i%len(nodes)], world.Command("probe", "dial", "tcp", target, "0", world.LongPatience))
			if pod.Labels["silent"] = "no"; i < last {
				pod.Labels["silent"], pod.Spec.Containers[0].Command[5] = "yes", world.Patience
			}
			world.Create(t, pod)
		}
		for i := range last + 1 {
			if passed := world.Ended(t, ns, name(i)).Status.Phase == corev1.PodSucceeded; passed != (i == last) {
				t.Errorf("pod %d of %d: its first connection passed: %t", i+1, last+1, passed)
			}
		}
	}
}

// TestNetworkPolicy_OwnNodeReachesPod: under a policy without rules only the pod's own node reaches the pod, and only at
// the pod's own address. By a service, a node or an external client has the join address of a node's router as its
// source. A policy that names these source addresses allows the clients.
func TestNetworkPolicy_OwnNodeReachesPod(t *testing.T) {
	world.Test(t, world.Policies, world.Core)
	ns := world.Namespace(t)
	pod := world.Run(t, world.Pod(ns, "web", nodes[1], world.Behind("web")))[0]
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	type way struct{ from, to string }
	var direct, ways []way
	for _, own := range world.Endpoints(pod) {
		direct = append(direct, way{nodes[1], own.String()})
		ways = append(ways, way{nodes[2], own.String()})
		at := world.OfFamily(world.NodeAddresses(t, nodes[1]), own.Addr())
		ways = append(ways, way{outside, netip.AddrPortFrom(at, uint16(web.Spec.Ports[0].NodePort)).String()})
	}
	for _, address := range world.Frontends(web) {
		ways = append(ways, way{nodes[1], address}, way{nodes[2], address})
	}
	// All ask at once, until each is answered, or not.
	become := func(want bool, all []way) []world.Answer {
		t.Helper()
		got, right := make([]world.Answer, len(all)), make([]bool, len(all))
		world.Eventually(t, world.PolicyWithin, fmt.Sprintf("%v are answered: %t", all, want), func() (bool, string) {
			var asks sync.WaitGroup
			for i, w := range all {
				asks.Go(func() {
					var err error
					got[i], err = world.FromNode(w.from).Ask("tcp", w.to)
					right[i] = (err == nil) == want
				})
			}
			asks.Wait()
			return !slices.Contains(right, false), fmt.Sprint(got)
		})
		return got
	}
	var seen []networkingv1.NetworkPolicyPeer
	for i, got := range become(true, append(direct, ways...)) {
		t.Logf("way %d of %v: the pod sees %s", i, append(direct, ways...), got.Seen)
		addr := netip.MustParseAddr(got.Seen)
		seen = append(seen, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: block(addr, addr.BitLen())}})
	}
	world.CreatePolicy(t, ns, "deny-all", networkingv1.NetworkPolicySpec{})
	become(false, ways)
	become(true, direct)
	world.CreatePolicy(t, ns, "seen", networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: seen[len(direct):]}}})
	become(true, append(direct, ways...))
}
