//go:build e2e

package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// policyRow describes a row, and the pods that its policies select, which are in a namespace of its own.
type policyRow func(*testing.T, *world.World) (*world.Row, []*corev1.Pod)

// checkPolicies makes the pods of all rows at once, and has pods of the shared world ask them.
func checkPolicies(t *testing.T, rows ...policyRow) {
	t.Helper()
	w := world.Shared(t)
	var all []*world.Row
	var pods []*corev1.Pod
	for _, describe := range rows {
		row, of := describe(t, w)
		all, pods = append(all, row), append(pods, of...)
	}
	world.Run(t, pods...)
	world.Check(t, all...)
}

// TestNetworkPolicy_AllowsItsPeersOnly: what clients reach while policies come, change and go.
func TestNetworkPolicy_AllowsItsPeersOnly(t *testing.T) {
	world.Test(t, world.Policies, world.Core)
	checkPolicies(t, isolatedNamespace, ownNode)
}

// TestNetworkPolicy_HoldsForServices: what clients reach by services whose pods policies select.
func TestNetworkPolicy_HoldsForServices(t *testing.T) {
	world.Test(t, world.Policies, world.Core)
	checkPolicies(t, heldService, onlyEndpoint)
}

// byTCP leaves out the spots of other protocols.
func byTCP(spots []world.Spot) []world.Spot {
	return slices.DeleteFunc(spots, func(s world.Spot) bool { return !strings.HasPrefix(s.Target, "tcp:") })
}

// atPods is what is found at the addresses of pods: each answers with its name, or none does.
func atPods(answer bool, pods ...*corev1.Pod) (spots []world.Spot) {
	for _, pod := range pods {
		var servers []string
		if answer {
			servers = []string{pod.Name}
		}
		spots = append(spots, world.SpotsAt(world.Addresses(pod), world.EchoPort, servers, nil)...)
	}
	return spots
}

// isolatedNamespace: a policy allows namespaces with a label, which no namespace has at first. The clients are a pod on
// the same node, pods on another node and a pod of the policy's namespace.
func isolatedNamespace(t *testing.T, w *world.World) (*world.Row, []*corev1.Pod) {
	ns := world.Namespace(t)
	target, sibling := world.Pod(ns, "target", nodes[1], world.Named()), world.Pod(ns, "sibling", nodes[2])
	near, far, third := w.Other.Clients[1], w.Other.Clients[2], w.Clients[2]
	const key, policy = "isolated-namespace", "deny-ingress-from-alpine-worker"
	all := func(answer bool) func() []world.Finding {
		return func() []world.Finding { return found(atPods(answer, target), sibling, near, far, third) }
	}
	ping := func(t *testing.T) {
		if out := world.MustInPod(t, near, "ping", "-c1", "-w5", world.Addresses(target)[0].String()); !strings.Contains(out,
			"ttl=64") {
			t.Errorf("without a policy, ping on the same node: %s", out)
		}
	}
	return &world.Row{Name: "namespaces with a label", Strict: true, Repeats: true, States: []world.State{
		{Finds: all(true)},
		{Enter: func(t *testing.T) {
			ping(t)
			world.CreatePolicy(t, ns, policy, world.AllowNamespaces(key, "alpine-worker"))
		}, Finds: all(false)},
		{Enter: func(t *testing.T) {
			end := world.Addresses(target)[0]
			world.FromPod(near).PingsFail(t, []string{end.String()},
				[]string{world.OfFamily(world.Addresses(far), end).String()})
			world.LabelNamespace(t, w.Other.Namespace, key, `"alpine-worker"`)
			t.Cleanup(func() { world.UnlabelNamespace(w.Other.Namespace, key) })
		}, Finds: func() []world.Finding {
			all := append(found(atPods(true, target), near, far), found(atPods(false, target), third, sibling)...)
			all = append(all, world.Finding{From: w.Machines[1], Spots: byTCP(atPods(true, target))})
			return append(all, found(atPods(true, w.Other.Servers[2], w.Servers[2]), target)...)
		}},
		{Enter: func(t *testing.T) {
			for _, own := range world.Addresses(target) {
				world.MustOnNode(t, nodes[1], "ping", "-c1", "-w5", own.String())
			}
			world.LabelNamespace(t, w.Other.Namespace, key, "null")
		}, Finds: func() []world.Finding { return found(atPods(false, target), near) }},
		{Enter: func(t *testing.T) { world.DeletePolicy(t, ns, policy) }, Finds: all(true)},
	}}, []*corev1.Pod{target, sibling}
}

// heldService: a policy on the pods behind a service holds for the service's address as for their own, and is silent:
// nothing is refused.
func heldService(t *testing.T, w *world.World) (*world.Row, []*corev1.Pod) {
	ns := world.Namespace(t)
	var backends []*corev1.Pod
	for _, node := range nodes {
		backends = append(backends, world.Pod(ns, "nginx-"+node, node, world.Behind("nginx")))
	}
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.Selector = corev1.ServiceTypeNodePort, map[string]string{"app": "nginx"}
	})
	const key, policy = "held-service", "deny-specific-ip-blocks"
	at := func(answer bool, addrs []netip.Addr, port uint16) []world.Spot {
		var servers []string
		if answer {
			servers = namesOf(backends...)
		}
		return world.SpotsAt(addrs, port, servers, nil)
	}
	inside := func(answer bool) []world.Spot {
		return append(atPods(answer, backends...), at(answer, world.ClusterAddresses(web), world.ServicePort)...)
	}
	outside := func(answer bool) (spots []world.Spot) {
		for _, node := range nodes {
			spots = append(spots, byTCP(at(answer, []netip.Addr{world.InternalIP(t, node)},
				uint16(web.Spec.Ports[0].NodePort)))...)
		}
		return spots
	}
	all := func(clients, others bool) func() []world.Finding {
		return func() []world.Finding {
			return append(found(inside(clients), w.Other.Clients...), world.Finding{From: w.External, Spots: outside(others)},
				found(inside(others), w.Clients[1])[0])
		}
	}
	return &world.Row{Name: "pods behind a service", Repeats: true, States: []world.State{
		{Finds: all(true, true)},
		{Enter: func(t *testing.T) {
			spec := world.AllowNamespaces(key, "alpine-worker")
			spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}}
			world.CreatePolicy(t, ns, policy, spec)
		}, Finds: all(false, false)},
		{Enter: func(t *testing.T) {
			_, err := world.FromPod(w.Other.Clients[0]).Run("probe", "dial", "tcp", world.Endpoints(backends...)[0].String())
			if err == nil || strings.Contains(err.Error(), "refused") {
				t.Errorf("want silence, got %v", err)
			}
			world.LabelNamespace(t, w.Other.Namespace, key, `"alpine-worker"`)
			t.Cleanup(func() { world.UnlabelNamespace(w.Other.Namespace, key) })
		}, Finds: func() []world.Finding {
			all := all(true, false)()
			for i, backend := range backends {
				all = append(all, world.Finding{From: w.Machines[i], Spots: byTCP(atPods(true, backend))})
			}
			return all
		}},
		{Enter: func(t *testing.T) { world.DeletePolicy(t, ns, policy) }, Finds: all(true, true)},
	}}, backends
}

// ownNode: under a policy without rules only the pod's own node reaches the pod, and only at the pod's own address. By
// a service, a node or an external client has the join address of a node's router as its source. A policy that names
// these source addresses allows the clients.
func ownNode(t *testing.T, w *world.World) (*world.Row, []*corev1.Pod) {
	ns := world.Namespace(t)
	pod := world.Pod(ns, "own", nodes[1], world.Behind("web"))
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	direct := func() []world.Finding {
		return []world.Finding{{From: w.Machines[1], Spots: byTCP(atPods(true, pod))}}
	}
	ways := func(answer bool) []world.Finding {
		var servers []string
		if answer {
			servers = []string{pod.Name}
		}
		atService := byTCP(world.SpotsAt(world.ClusterAddresses(web), world.ServicePort, servers, nil))
		atNode := byTCP(world.SpotsAt(w.Machines[1].Addresses(t), uint16(web.Spec.Ports[0].NodePort), servers, nil))
		return []world.Finding{
			{From: w.Machines[1], Spots: atService},
			{From: w.Machines[2], Spots: slices.Concat(atService, byTCP(atPods(answer, pod)))},
			{From: w.External, Spots: atNode},
		}
	}
	var seen []networkingv1.NetworkPolicyPeer
	return &world.Row{Name: "the own node of a pod", Repeats: true, States: []world.State{
		{Finds: func() []world.Finding { return append(direct(), ways(true)...) }},
		{Enter: func(t *testing.T) {
			for _, way := range ways(true) {
				for _, spot := range way.Spots {
					got, err := way.From.AskPatiently("tcp", strings.TrimPrefix(spot.Target, "tcp:"))
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("%s at %s: the pod sees %s", way.From.Name, spot.Target, got.Seen)
					addr := netip.MustParseAddr(got.Seen)
					seen = append(seen, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: block(addr,
						addr.BitLen())}})
				}
			}
			world.CreatePolicy(t, ns, "deny-all", networkingv1.NetworkPolicySpec{})
		}, Finds: func() []world.Finding { return append(direct(), ways(false)...) }},
		{Enter: func(t *testing.T) {
			allow := []networkingv1.NetworkPolicyIngressRule{{From: seen}}
			world.CreatePolicy(t, ns, "seen", networkingv1.NetworkPolicySpec{Ingress: allow})
		}, Finds: func() []world.Finding { return append(direct(), ways(true)...) }},
	}}, []*corev1.Pod{pod}
}

// onlyEndpoint: a pod reaches itself through its own service, also when policies forbid it and others to ask and to be
// asked.
func onlyEndpoint(t *testing.T, _ *world.World) (*world.Row, []*corev1.Pod) {
	ns := world.Namespace(t)
	alone, beside := world.Pod(ns, "alone", nodes[1], world.Behind("web")), world.Pod(ns, "beside", nodes[1],
		world.Named())
	web := world.Service(t, ns, nil)
	atService := func(servers ...string) []world.Spot {
		return world.SpotsAt(world.ClusterAddresses(web), world.ServicePort, servers, nil)
	}
	return &world.Row{Name: "an endpoint reaches itself", Repeats: true, States: []world.State{
		{Finds: func() []world.Finding {
			return append(found(append(atService("alone"), atPods(true, beside)...), alone),
				found(atService("alone"), beside)...)
		}},
		{Enter: func(t *testing.T) {
			world.CreatePolicy(t, ns, "nothing", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{
				networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress,
			}})
		}, Finds: func() []world.Finding {
			return append(found(append(atService("alone"), atPods(false, beside)...), alone), found(atService(), beside)...)
		}},
	}}, []*corev1.Pod{alone, beside}
}
