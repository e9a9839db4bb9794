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

const (
	// policyWithin is generous: the latency is measured elsewhere.
	policyWithin = soon
	silence      = 3 * time.Second
)

func createPolicy(t *testing.T, ns, name string, spec networkingv1.NetworkPolicySpec) {
	t.Helper()
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: spec}
	if _, err := cluster.client.NetworkingV1().NetworkPolicies(ns).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func deletePolicy(t *testing.T, ns, name string) {
	t.Helper()
	if err := cluster.client.NetworkingV1().NetworkPolicies(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func fromNamespaces(key, value string) networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}},
	}}}}
}

func labelNamespace(t *testing.T, ns, key, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
	if _, err := cluster.client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// reached are those of the targets, as the prober takes them, that answer a pod.
func reached(from *corev1.Pod, targets ...string) ([]string, error) {
	out, err := inPod(from.Namespace, from.Name, append([]string{"probe", "reach"}, targets...)...)
	return strings.Fields(out), err
}

// becomes waits until a pod can, or cannot, reach all targets by TCP and UDP, and
// then looks once more: a state that holds for a moment is none. What cannot be reached
// must stay so; of what can a busy machine may lose a packet, and both looks are repeated.
func becomes(t *testing.T, from *corev1.Pod, want bool, targets ...netip.AddrPort) {
	t.Helper()
	becomeAll(t, []*corev1.Pod{from}, want, targets...)
}

// becomeAll is becomes for several clients, which look at the same time.
func becomeAll(t *testing.T, clients []*corev1.Pod, want bool, targets ...netip.AddrPort) {
	t.Helper()
	var words []string
	for _, target := range targets {
		words = append(words, "tcp:"+target.String(), "udp:"+target.String())
	}
	eventually(t, policyWithin, fmt.Sprintf("reachable: %t", want), func() (bool, string) {
		ok, _, seen := reachedAs(clients, want, words)
		if ok && !want { // a busy machine, too, answers nothing for a second
			ok, _, seen = reachedAs(clients, want, words)
		}
		if !ok {
			return false, seen
		}
		ok, answers, seen := reachedAs(clients, want, words)
		if !want && answers > 0 {
			t.Errorf("it changed again: %s", seen)
		}
		return ok, seen
	})
}

// reachedAs has clients ask all targets once. It says whether all, or none, have answered each client, how many answers there
// are, and what clients see that is not so.
func reachedAs(clients []*corev1.Pod, want bool, words []string) (ok bool, answers int, seen string) {
	got, failed := make([][]string, len(clients)), make([]error, len(clients))
	var looks sync.WaitGroup
	for i, from := range clients {
		looks.Go(func() { got[i], failed[i] = reached(from, words...) })
	}
	looks.Wait()
	var lines []string
	for i, from := range clients {
		answers += len(got[i])
		if failed[i] != nil || len(got[i]) != map[bool]int{true: len(words)}[want] {
			lines = append(lines, fmt.Sprintf("%s/%s on %s reaches %q: %v", from.Namespace, from.Name, from.Spec.NodeName, got[i], failed[i]))
		}
	}
	return len(lines) == 0, answers, strings.Join(lines, "; ")
}

func echoTargets(t *testing.T, pods ...*corev1.Pod) (all []netip.AddrPort) {
	t.Helper()
	for _, pod := range pods {
		for _, addr := range addresses(t, pod) {
			all = append(all, netip.AddrPortFrom(addr, echoPort))
		}
	}
	return all
}

// TestNetworkPolicy_IsolatesOtherNamespaces: a policy allows namespaces with a label, which no namespace has at first.
// The clients are a pod on the same node and one on another node.
func TestNetworkPolicy_IsolatesOtherNamespaces(t *testing.T) {
	world.Test(t, world.Policies, world.Core, world.Strict)
	mine, theirs, third := namespace(t), namespace(t), namespace(t)
	pods := allRunning(t, podObject(mine, "target", nodes[1]), podObject(mine, "sibling", nodes[2]),
		podObject(theirs, "near", nodes[1]), podObject(theirs, "far", nodes[2]), podObject(third, "other", nodes[2]))
	target, sibling, near, far, other := pods[0], pods[1], pods[2], pods[3], pods[4]
	clients, targets := pods[1:], echoTargets(t, target)

	becomeAll(t, clients, true, targets...)
	if out := mustInPod(t, near, "ping", "-c1", "-w5", targets[0].Addr().String()); !strings.Contains(out, "ttl=64") {
		t.Errorf("without a policy, ping on the same node: %s", out)
	}
	createPolicy(t, mine, "deny-ingress-from-alpine-worker", fromNamespaces("namespace", "alpine-worker"))
	becomeAll(t, clients, false, targets...)
	pingsFail(t, near, []string{targets[0].Addr().String()}, []string{ofFamily(addresses(t, far), targets[0].Addr()).String()})
	labelNamespace(t, theirs, "namespace", `"alpine-worker"`)
	becomeAll(t, []*corev1.Pod{near, far}, true, targets...)
	becomeAll(t, []*corev1.Pod{other, sibling}, false, targets...)
	for _, own := range targets {
		mustOnNode(t, nodes[1], "ping", "-c1", "-w5", own.Addr().String())
		mustOnNode(t, nodes[1], "probe", "dial", "tcp", own.String())
	}
	becomes(t, target, true, echoTargets(t, far, other)...)
	labelNamespace(t, theirs, "namespace", "null")
	becomes(t, near, false, targets...)
	deletePolicy(t, mine, "deny-ingress-from-alpine-worker")
	becomeAll(t, clients, true, targets...)
}

// TestNetworkPolicy_HoldsForServices: a policy on the pods behind a service holds for the
// service's address as for their own, and is silent: nothing is refused.
func TestNetworkPolicy_HoldsForServices(t *testing.T) {
	world.Test(t, world.Policies, world.Core)
	mine, theirs, third := namespace(t), namespace(t), namespace(t)
	objects := []*corev1.Pod{podObject(third, "other", nodes[1])}
	for i, node := range nodes {
		backend := podObject(mine, fmt.Sprint("nginx-", i), node)
		backend.Labels = map[string]string{"app": "nginx"}
		objects = append(objects, backend, podObject(theirs, fmt.Sprint("client-", i), node))
	}
	pods := allRunning(t, objects...)
	other, backends, clients := pods[0], []*corev1.Pod{pods[1], pods[3], pods[5]}, []*corev1.Pod{pods[2], pods[4], pods[6]}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "nginx"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "nginx"},
		Ports: []corev1.ServicePort{
			{Name: "tcp", Port: 80, TargetPort: intstr.FromInt32(echoPort)},
			{Name: "udp", Port: 80, TargetPort: intstr.FromInt32(echoPort), Protocol: corev1.ProtocolUDP},
		},
	}}
	made, err := cluster.client.CoreV1().Services(mine).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	targets := append(echoTargets(t, backends...), netip.AddrPortFrom(netip.MustParseAddr(made.Spec.ClusterIP), 80))
	becomeAll(t, clients, true, targets...)
	nodePortsBecome(t, true, made)
	spec := fromNamespaces("namespace", "alpine-worker")
	spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}}
	createPolicy(t, mine, "deny-specific-ip-blocks", spec)
	becomeAll(t, clients, false, targets...)
	if _, err := inPod(theirs, clients[0].Name, "probe", "dial", "tcp", targets[0].String()); err == nil || strings.Contains(err.Error(), "refused") {
		t.Errorf("want silence, got %v", err)
	}
	labelNamespace(t, theirs, "namespace", `"alpine-worker"`)
	becomeAll(t, clients, true, targets...)
	becomes(t, other, false, targets...)
	nodePortsBecome(t, false, made)
	for i, backend := range backends {
		mustOnNode(t, nodes[i], "probe", "dial", "tcp", echoTargets(t, backend)[0].String())
	}
	deletePolicy(t, mine, "deny-specific-ip-blocks")
	becomes(t, other, true, targets...)
	nodePortsBecome(t, true, made)
}

// nodePortsBecome waits until the outside can, or cannot, reach a service's TCP port
// at each node, whichever endpoint the node picks.
func nodePortsBecome(t *testing.T, want bool, service *corev1.Service) {
	t.Helper()
	words := []string{"probe", "reach"}
	for _, node := range nodes {
		address := netip.AddrPortFrom(nodeAddress(t, node), uint16(service.Spec.Ports[0].NodePort)).String()
		words = append(words, slices.Repeat([]string{"tcp:" + address}, 5)...)
	}
	eventually(t, policyWithin, fmt.Sprintf("%s from outside: %t", words[2:], want), func() (bool, string) {
		out, err := onNode(outside, words...)
		return err == nil && len(strings.Fields(out)) == map[bool]int{true: len(words) - 2}[want], fmt.Sprint(out, err)
	})
}

// TestNetworkPolicy_IsLoggedWithAnnotation: with the namespace's annotation, what a policy drops and what
// it lets in is in the log of the pod's node; without it nothing is.
func TestNetworkPolicy_IsLoggedWithAnnotation(t *testing.T) {
	world.Test(t, world.Policies)
	ns := namespace(t)
	target, from := running(t, ns, "target", nodes[1]), running(t, ns, "from", nodes[2])
	address := echoTargets(t, target)[0]
	port := intstr.FromInt32(echoPort)
	createPolicy(t, ns, "tcp-alone", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: target.Labels},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}},
	})
	knock := func() (tcp, udp bool, lines []string) {
		got, err := reached(from, "tcp:"+address.String(), "udp:"+address.String())
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
	eventually(t, policyWithin, "the policy holds", func() (bool, string) {
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
	eventually(t, policyWithin, "both verdicts are logged", func() (bool, string) {
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
	ns := namespace(t)
	server := running(t, ns, "server", nodes[2])
	target := echoTargets(t, server)[0].String()
	createPolicy(t, ns, "silent", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"silent": "yes"}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
	})
	for set := range tier.Pick(1, 3) {
		name := func(i int) string { return fmt.Sprintf("first-%d-%d", set, i) }
		const last = 3 // may speak
		for i := range last + 1 {
			pod := podObject(ns, name(i), nodes[i%len(nodes)], "probe", "dial", "tcp", target, "0", longPatience)
			if pod.Labels["silent"] = "no"; i < last {
				pod.Labels["silent"], pod.Spec.Containers[0].Command[5] = "yes", patience
			}
			create(t, pod)
		}
		for i := range last + 1 {
			if passed := waitEnded(t, ns, name(i)).Status.Phase == corev1.PodSucceeded; passed != (i == last) {
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
	ns := namespace(t)
	pod := server(t, ns, "web", nodes[1])
	web := service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	type way struct{ from, to string }
	var direct, ways []way
	for _, own := range echoTargets(t, pod) {
		direct = append(direct, way{nodes[1], own.String()})
		ways = append(ways, way{nodes[2], own.String()})
		at := ofFamily(machineAddresses(t, nodes[1]), own.Addr())
		ways = append(ways, way{outside, netip.AddrPortFrom(at, uint16(web.Spec.Ports[0].NodePort)).String()})
	}
	for _, address := range frontends(web) {
		ways = append(ways, way{nodes[1], address}, way{nodes[2], address})
	}
	// All ask at once, until each is answered, or not.
	become := func(want bool, all []way) []answer {
		t.Helper()
		got, right := make([]answer, len(all)), make([]bool, len(all))
		eventually(t, policyWithin, fmt.Sprintf("%v are answered: %t", all, want), func() (bool, string) {
			var asks sync.WaitGroup
			for i, w := range all {
				asks.Go(func() {
					var err error
					got[i], err = askFrom(w.from, "tcp", w.to)
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
		t.Logf("way %d of %v: the pod sees %s", i, append(direct, ways...), got.seen)
		addr := netip.MustParseAddr(got.seen)
		seen = append(seen, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: block(addr, addr.BitLen())}})
	}
	createPolicy(t, ns, "deny-all", networkingv1.NetworkPolicySpec{})
	become(false, ways)
	become(true, direct)
	createPolicy(t, ns, "seen", networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: seen[len(direct):]}}})
	become(true, append(direct, ways...))
}
