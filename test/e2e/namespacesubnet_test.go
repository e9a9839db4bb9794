//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// subnetsOf are those of the families of the lab, IPv4 first.
func subnetsOf(v4, v6 string) (texts []string) {
	for _, six := range sixes() {
		texts = append(texts, map[bool]string{false: v4, true: v6}[six])
	}
	return texts
}

// namespaceSpec is a part of a NamespaceSubnet's.
type namespaceSpec struct {
	subnets []string
	snat    bool
}

// namespaceSubnet gives a namespace subnets, until the test ends. It waits for a condition.
func namespaceSubnet(t *testing.T, ns, name string, spec namespaceSpec, want string) {
	t.Helper()
	objects := objectsOf(t, v1alpha1.NamespaceSubnets(), "")
	text := fmt.Sprintf("apiVersion: ovn-offload.io/v1alpha1\nkind: NamespaceSubnet\nmetadata: {name: %s}\nspec:\n  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}\n  subnets: ['%s']\n  snat: %t\n",
		name, ns, strings.Join(spec.subnets, "', '"), spec.snat)
	if _, err := objects.Create(t.Context(), object(text), metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	waitCondition(t, objects, name, "Accepted", want)
}

// wantIn checks whether all addresses of a pod are in the subnets.
func wantIn(t *testing.T, pod *corev1.Pod, subnets []string, want bool) {
	t.Helper()
	for _, addr := range world.Addresses(pod) {
		in := slices.ContainsFunc(subnets, func(text string) bool { return netip.MustParsePrefix(text).Contains(addr) })
		if in != want {
			t.Errorf("pod %s has %s, in %v: want %t", pod.Name, addr, subnets, want)
		}
	}
}

// exchange checks that pods reach each other, with their own addresses.
func exchange(t *testing.T, from, to *corev1.Pod) {
	t.Helper()
	for _, end := range world.Endpoints(to) {
		for _, network := range []string{"tcp", "udp"} {
			seen := strings.TrimSpace(world.MustInPod(t, from, "probe", "dial", network, end.String(), "1000"))
			if source, err := netip.ParseAddr(seen); err != nil || !world.HasAddress(from, source.Unmap()) {
				t.Errorf("%s from %s to %s came from %q, not from the pod's own address", network, from.Name, to.Name, seen)
			}
		}
		world.MustInPod(t, from, "ping", "-c1", "-w10", end.Addr().String())
	}
}

// reachNodes checks a pod and nodes in both directions: its own node sees the pod's address, another one the address of the
// pod's node.
func reachNodes(t *testing.T, pod *corev1.Pod, hosts []*corev1.Pod) {
	t.Helper()
	for _, end := range world.Endpoints(pod) {
		for _, host := range hosts {
			node := host.Spec.NodeName
			world.MustOnNode(t, node, "ping", "-c1", "-w10", end.Addr().String())
			world.MustOnNode(t, node, "probe", "dial", "tcp", end.String())
			own := world.OfFamily(world.NodeAddresses(t, node), end.Addr())
			seen := strings.TrimSpace(world.MustInPod(t, pod, "probe", "dial", "tcp",
				netip.AddrPortFrom(own, world.Port(host)).String(), "1000"))
			want := end.Addr()
			if node != pod.Spec.NodeName {
				want = world.OfFamily(world.NodeAddresses(t, pod.Spec.NodeName), want)
			}
			if got := netip.MustParseAddr(seen).Unmap(); got != want {
				t.Errorf("%s on node %s is seen as %s, want %s", pod.Name, node, got, want)
			}
		}
	}
}

// seenOutside is as what the external host sees a pod.
func seenOutside(t *testing.T, pod *corev1.Pod, want func(target netip.Addr) netip.Addr) {
	t.Helper()
	for _, target := range world.NodeAddresses(t, outside) {
		if !world.OfFamily(world.Addresses(pod), target).IsValid() {
			continue
		}
		for _, network := range []string{"tcp", "udp"} {
			seen := strings.TrimSpace(world.MustInPod(t, pod, "probe", "dial", network,
				netip.AddrPortFrom(target, world.OutsidePort).String(), "1000"))
			if got := netip.MustParseAddr(seen).Unmap(); got != want(target) {
				t.Errorf("%s from %s is seen outside as %s, want %s", network, pod.Name, got, want(target))
			}
		}
	}
}

// balanced checks services with an endpoint in the subnet: the cluster address from pods of both namespaces, the node port from
// outside, and the endpoint that reaches itself. Names and the API server are reached, too.
func balanced(t *testing.T, ns string, clients ...*corev1.Pod) {
	t.Helper()
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	alone := world.Run(t, world.Pod(ns, "alone", nodes[1], world.Behind("web")))[0]
	for _, address := range world.Frontends(web) {
		for _, from := range append(clients, alone) {
			for _, network := range []string{"tcp", "udp"} {
				world.FromPod(from).Answered(t, network, address)
			}
		}
	}
	for _, node := range nodes[1:3] {
		for _, addr := range world.NodeAddresses(t, node) {
			if !world.OfFamily(world.Addresses(alone), addr).IsValid() {
				continue
			}
			address := netip.AddrPortFrom(addr, uint16(web.Spec.Ports[0].NodePort)).String()
			world.MustOnNode(t, outside, "probe", "dial", "tcp", address)
			for _, from := range clients {
				world.FromPod(from).Answered(t, "tcp", address)
			}
		}
	}
	for _, from := range clients {
		world.MustInPod(t, from, "getent", "hosts", "kubernetes.default.svc.cluster.local")
		world.MustInPod(t, from, "curl", "-sk", "-m", "30", "-o", "/dev/null", "https://kubernetes.default/version")
	}
	world.DeleteService(t, ns, web.Name)
}

// judged checks policies with pods of the subnet as targets and as clients: by namespace, by address, and as one of all pods.
func judged(t *testing.T, own, other *corev1.Pod, subnets []string) {
	t.Helper()
	to, back := world.Endpoints(own), world.Endpoints(other)
	world.CreatePolicy(t, own.Namespace, "by-label", world.AllowNamespaces("kubernetes.io/metadata.name", "none"))
	world.Reaches(t, other, false, to...)
	world.DeletePolicy(t, own.Namespace, "by-label")
	world.Reaches(t, other, true, to...)
	from := func(name string, want bool, peers ...networkingv1.NetworkPolicyPeer) {
		t.Helper()
		world.CreatePolicy(t, other.Namespace, name,
			networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers}}})
		world.Reaches(t, own, want, back...)
		world.DeletePolicy(t, other.Namespace, name)
	}
	var blocks []networkingv1.NetworkPolicyPeer
	for _, subnet := range subnets {
		blocks = append(blocks, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: subnet}})
	}
	byName := func(name string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": name}}}
	}
	from("none", false, byName("none"))
	from("by-address", true, blocks...)
	from("by-namespace", true, byName(own.Namespace))
	from("all-pods", true, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}})
}

// TestNamespaceSubnet_IsTheNetworkOfItsPods: new pods of the namespace have addresses of the subnet on each node, and reach all that
// others reach: pods, nodes, services, names, external hosts. Pods of other namespaces have none. When the
// object is deleted, pods keep their addresses, and the last one takes the object along. In the full tier components start again meanwhile.
func TestNamespaceSubnet_IsTheNetworkOfItsPods(t *testing.T) {
	world.Test(t, world.Networks, world.Core, tier.Pick(world.Beside, world.Disruptive))
	ns, others := world.Namespace(t), world.Namespace(t)
	world.ServeOutside(t)
	name, subnets := "own-"+ns[len(ns)-5:], subnetsOf("10.209.0.0/26", "fd00:209::/120")
	early := world.Run(t, world.Pod(ns, "early", nodes[1]))[0]
	namespaceSubnet(t, ns, name, namespaceSpec{subnets, true}, "True SubnetAccepted")
	made := world.Run(t, world.Pod(ns, "a", nodes[1]), world.Pod(ns, "b", nodes[1]), world.Pod(ns, "c", nodes[2]),
		world.Pod(ns, "d", nodes[0]),
		world.Pod(others, "near", nodes[1]), world.Pod(others, "far", nodes[2]))
	a, b, c, d, near, far := made[0], made[1], made[2], made[3], made[4], made[5]
	for _, pod := range []*corev1.Pod{a, b, c, d} {
		wantIn(t, pod, subnets, true)
	}
	for _, pod := range []*corev1.Pod{early, near, far} {
		wantIn(t, pod, subnets, false)
	}
	hosts := world.RunOnEachNode(t, others, "host-", world.OnHost())
	pairs := tier.Pick([][2]*corev1.Pod{{a, b}, {c, d}, {a, far}, {far, a}, {near, d}, {early, c}},
		[][2]*corev1.Pod{{a, b}, {a, c}, {c, a}, {a, near}, {a, far}, {near, a}, {far, a}, {c, early}, {early, c}, {early, a}, {a, d}, {d, c}, {c, d}, {d, far}, {near, d}})
	ends := tier.Pick([]*corev1.Pod{a, d}, []*corev1.Pod{a, c, d}) // on each node
	check := func() {
		t.Helper()
		for _, pair := range pairs {
			exchange(t, pair[0], pair[1])
		}
		for _, pod := range ends {
			reachNodes(t, pod, hosts)
			seenOutside(t, pod, func(target netip.Addr) netip.Addr {
				return world.OfFamily(world.NodeAddresses(t, pod.Spec.NodeName), target)
			})
		}
	}
	check()
	// the others were looked at once
	pairs, ends = tier.Pick([][2]*corev1.Pod{{a, c}, {far, a}}, pairs), tier.Pick([]*corev1.Pod{c}, ends)
	silent(t, a, c, subnets)
	balanced(t, ns, tier.Pick([]*corev1.Pod{a, far}, []*corev1.Pod{a, c, d, near, far})...)
	judged(t, a, far, subnets)

	if tier.IsFull() {
		streams := []*flow{startFlow(t, ns, "a", "tcp", world.Endpoints(c)[0]),
			startFlow(t, others, "far", "udp", world.Endpoints(a)[0])}
		restart(t, "controller")
		restart(t, "agent@"+nodes[1])
		restart(t, "ovn-controller@"+nodes[1])
		check()
		for _, stream := range streams {
			stream.wantAnswer(t, world.Soon)
			stream.stop()
		}
	}

	objects := objectsOf(t, v1alpha1.NamespaceSubnets(), "")
	deleteObject(t, objects, name)
	waitCondition(t, objects, name, "Accepted", "True AddressesInUse")
	if tier.IsFull() {
		restart(t, "controller")
	}
	wantIn(t, world.Run(t, world.Pod(ns, "late", nodes[1]))[0], subnets, false)
	check()
	for _, pod := range []string{"a", "b", "c", "d", "alone"} {
		world.DeletePod(t, ns, pod)
	}
	waitObjectGone(t, objects, name)
	world.Eventually(t, world.Soon, "nothing is left of the subnet", func() (bool, string) {
		left := subnetTraces(t, subnets)
		return left == "", left
	})
}

// silent checks that an address of each subnet without a pod does not answer, while a pod of the subnet does.
func silent(t *testing.T, from, witness *corev1.Pod, subnets []string) {
	t.Helper()
	for _, subnet := range subnets {
		last := netip.MustParsePrefix(subnet).Addr()
		for range 60 {
			last = last.Next()
		}
		world.FromPod(from).PingsFail(t, []string{last.String()}, []string{world.OfFamily(world.Addresses(witness), last).String()})
	}
}

// subnetTraces is what is left of subnets in the Northbound database, on nodes and on their bridges.
func subnetTraces(t *testing.T, subnets []string) string {
	t.Helper()
	seen := nbctl(t, "lr-route-list", "ovn_cluster_router") + nbctl(t, "lr-policy-list", "ovn_cluster_router") +
		nbctl(t, "--bare", "--columns=logical_ip", "list", "NAT") + nbctl(t, "--bare", "--columns=ip", "list", "Static_MAC_Binding")
	for _, node := range nodes {
		seen += world.MustOnNode(t, node, "sh", "-c", "ip route; ip -6 route; ovs-ofctl dump-flows breth0")
	}
	var left []string
	for line := range strings.Lines(seen) {
		for _, subnet := range subnets {
			prefix := strings.TrimSuffix(strings.TrimSuffix(netip.MustParsePrefix(subnet).Addr().String(), ".0"), "::")
			if strings.Contains(line, prefix) {
				left = append(left, line)
			}
		}
	}
	return strings.Join(left, "")
}

// TestNamespaceSubnet_RoutedIsSeenOutside: without SNAT the external host sees the pod's address, and reaches the pod by its node.
// The same host does not reach a pod of another namespace.
func TestNamespaceSubnet_RoutedIsSeenOutside(t *testing.T) {
	world.Test(t, world.Networks)
	ns := world.Namespace(t)
	world.ServeOutside(t)
	subnets := subnetsOf("10.210.0.0/28", "fd00:210::/120")
	namespaceSubnet(t, ns, "routed-"+ns[len(ns)-5:], namespaceSpec{subnets, false}, "True SubnetAccepted")
	pods := world.Run(t, world.Pod(ns, "a", nodes[1]), world.Pod(ns, "b", nodes[2]),
		world.Pod(world.Namespace(t), "plain", nodes[1]))
	plain := pods[2]
	pods = pods[:2]
	for _, pod := range []*corev1.Pod{pods[0], pods[1], plain} { // all by one node
		for _, addr := range world.Addresses(pod) {
			route := []string{netip.PrefixFrom(addr, addr.BitLen()).String(), "via",
				world.OfFamily(world.NodeAddresses(t, nodes[1]), addr).String()}
			world.MustOnNode(t, outside, append([]string{"ip", "route", "add"}, route...)...)
			t.Cleanup(func() { world.OnNode(outside, append([]string{"ip", "route", "del"}, route...)...) })
		}
	}
	for _, pod := range pods {
		wantIn(t, pod, subnets, true)
		seenOutside(t, pod, func(target netip.Addr) netip.Addr { return world.OfFamily(world.Addresses(pod), target) })
		for _, end := range world.Endpoints(pod) {
			world.MustOnNode(t, outside, "ping", "-c1", "-w10", end.Addr().String())
			world.MustOnNode(t, outside, "probe", "dial", "tcp", end.String())
		}
	}
	for _, end := range world.Endpoints(plain) {
		ping := func(to netip.Addr) world.Attempt {
			return world.FromNode(outside).Tries(world.Pings([]string{to.String()})...)
		}
		world.FailsBeside(t, "a host outside the cluster reaches a pod of another namespace", ping(end.Addr()),
			ping(world.OfFamily(world.Addresses(pods[0]), end.Addr())))
	}
	exchange(t, pods[0], pods[1])
	exchange(t, plain, pods[1])
	world.CreatePolicy(t, ns, "closed", world.AllowNamespaces("kubernetes.io/metadata.name", "none"))
	world.Eventually(t, world.PolicyWithin, "the policy applies to hosts outside the cluster", func() (bool, string) {
		out, err := world.OnNode(outside, "probe", "dial", "tcp", world.Endpoints(pods[0])[0].String())
		return err != nil, out
	})
}

// TestNamespaceSubnet_BesideNetworkWithGateway: a pod whose further network leads to all addresses exchanges packets with a pod of
// the subnet. Without its route to the subnet, the packets take the further network's gateway and are dropped.
func TestNamespaceSubnet_BesideNetworkWithGateway(t *testing.T) {
	world.Test(t, world.Networks)
	ns, others := world.Namespace(t), world.Namespace(t)
	subnets := subnetsOf("10.212.0.0/28", "fd00:212::/124")
	namespaceSubnet(t, others, "beside-"+ns[len(ns)-5:], namespaceSpec{subnets, true}, "True SubnetAccepted")
	owned := world.Run(t, world.Pod(others, "owned", nodes[2]))[0]
	wantIn(t, owned, subnets, true)
	network, anywhere := "10.98.0.0/24", "0.0.0.0/0"
	if sixes()[0] {
		network, anywhere = "fd98::/64", "::/0"
	}
	apply(t, networkOf(ns, "wide", fmt.Sprintf(`"topology": "layer2", "subnets": %q`, network)))
	annotateNAD(t, ns, "wide", contract.GatewayKey, anywhere)
	pod := world.Pod(ns, "wide", nodes[1])
	pod.Annotations = map[string]string{contract.NetworksKey: "wide"}
	world.Create(t, pod)
	pod = world.Running(t, ns, "wide")
	exchange(t, pod, owned)
	exchange(t, owned, pod)

	target := world.Addresses(owned)[0]
	world.MustInPod(t, pod, "ip", "route", "del", netip.MustParsePrefix(subnets[0]).String())
	if route := world.MustInPod(t, pod, "ip", "route", "get", target.String()); !strings.Contains(route, "dev net1") {
		t.Errorf("without the route to the subnet: %s", route)
	}
	world.FromPod(pod).Unanswered(t, target.String())
}
