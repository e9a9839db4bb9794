//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// member is a pod on one further network of its namespace, to be selected by the network's name.
func member(ns, name, node, network string) *corev1.Pod {
	pod := world.Pod(ns, name, node, world.Named())
	pod.Labels = map[string]string{"app": network}
	pod.Annotations = map[string]string{contract.NetworksKey: network}
	return pod
}

// annotateNAD sets an annotation of a NetworkAttachmentDefinition, "" to remove it.
func annotateNAD(t *testing.T, ns, name, key, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if value == "" {
		patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)
	}
	if _, err := objectsOf(t, nadResource, ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// serviceOn makes a service of the members of a network, on that network.
func serviceOn(t *testing.T, ns, network string) string {
	t.Helper()
	made := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		single := corev1.IPFamilyPolicySingleStack
		spec.Selector, spec.IPFamilyPolicy = map[string]string{"app": network}, &single
	})
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, contract.ServiceNetworkKey, network)
	if _, err := cluster.client.CoreV1().Services(ns).Patch(t.Context(), made.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return world.Frontends(made)[0]
}

// TestSecondaryNetwork_GatewayLeadsOut: pods whose eth0 is down reach an external host and the network's services by a
// network with a gateway, of both topologies, and not the default network. By a network without a gateway they reach
// neither, although they try. The gateway leaves with the annotation.
func TestSecondaryNetwork_GatewayLeadsOut(t *testing.T) {
	world.Test(t, world.Networks, world.Core)
	world.ServeOutside(t)
	ns := world.Namespace(t)
	target := world.NodeAddresses(t, outside)[0]
	subnets := map[string]string{"routed": "10.94.0.0/16/24", "flat": "10.95.0.0/24", "closed": "10.97.0.0/24"}
	anywhere, router := "0.0.0.0/0", "10.97.0.1"
	if sixes()[0] {
		subnets = map[string]string{"routed": "fd94::/48/64", "flat": "fd95::/64", "closed": "fd97::/64"}
		anywhere, router = "::/0", "fd97::1"
	}
	services := map[string]string{}
	for name, subnet := range subnets {
		services[name] = serviceOn(t, ns, name)
		apply(t, networkOf(ns, name, fmt.Sprintf(`"topology": %q, "subnets": %q`, map[bool]string{true: "layer3", false: "layer2"}[name == "routed"], subnet)))
	}
	alone := func(addr netip.Addr) string { return netip.PrefixFrom(addr, addr.BitLen()).String() }
	frontend := func(name string) string { return alone(netip.MustParseAddrPort(services[name]).Addr()) }
	annotateNAD(t, ns, "routed", contract.GatewayKey, anywhere+", "+frontend("routed"))
	annotateNAD(t, ns, "flat", contract.GatewayKey, alone(target)+", "+frontend("flat"))

	all := world.Run(t, world.Pod(ns, "plain", nodes[1]), member(ns, "routed-1", nodes[1], "routed"),
		member(ns, "routed-2", nodes[2], "routed"),
		member(ns, "flat-1", nodes[1], "flat"), member(ns, "flat-2", nodes[2], "flat"), member(ns, "closed-1", nodes[1], "closed"))
	plain, closed := all[0], all[5]
	outer := netip.AddrPortFrom(target, world.OutsidePort).String()
	for i, name := range []string{"routed", "flat"} {
		pods := all[1+2*i : 3+2*i]
		world.MustInPod(t, pods[0], "ip", "link", "set", "eth0", "down")
		for _, pod := range pods {
			leavesBy(t, pod, target)
		}
		seen := map[string]bool{}
		world.Eventually(t, world.Soon, "both members of "+name+" answer at the service", func() (bool, string) {
			got, err := world.FromPod(pods[0]).Ask("tcp", services[name])
			seen[got.Server] = true
			return err == nil && seen[name+"-1"] && seen[name+"-2"], fmt.Sprint(got, err, seen)
		})
		world.FromPod(pods[0]).Answered(t, "udp", services[name])
		world.FromPod(pods[0]).Unanswered(t, world.Addresses(plain)[0].String())
		dial := func(from *corev1.Pod) world.Attempt {
			return world.FromPod(from).Tries("probe", "dial", "tcp", services[name])
		}
		world.FailsBeside(t, "a pod that is not on "+name+" reaches its service", dial(plain), dial(pods[0]))
	}
	world.MustInPod(t, closed, "sh", "-c", fmt.Sprintf("ip link set eth0 down; ip route add %s via %s dev net1; ip route add %s via %s dev net1", alone(target), router, frontend("closed"), router))
	for _, to := range []string{outer, services["closed"]} {
		world.FailsBeside(t, "a pod on a network without a gateway reaches "+to,
			world.FromPod(closed).Tries("probe", "dial", "tcp", to), world.FromPod(all[1]).Tries("probe", "dial", "tcp", outer))
	}
	for _, name := range []string{"routed", "flat"} {
		annotateNAD(t, ns, name, contract.GatewayKey, "")
		world.Eventually(t, world.Soon, name+" has no gateway", func() (bool, string) {
			out, err := world.InPod(ns, name+"-1", "probe", "dial", "tcp", outer)
			links := nbctl(t, "--bare", "--columns=name", "find", "Logical_Router_Port", fmt.Sprintf(`name="rtot-%s.%s/%s"`, ns, name, nodes[1]))
			return err != nil && strings.TrimSpace(links) == "", out + links
		})
		wantRoute(t, ns, name+"-1", target, false)
		annotateNAD(t, ns, name, contract.GatewayKey, alone(target))
		world.Eventually(t, world.Soon, name+" has a gateway again", func() (bool, string) {
			out, err := world.InPod(ns, name+"-1", "probe", "dial", "tcp", outer)
			return err == nil, out
		})
		wantRoute(t, ns, name+"-1", target, true)
	}
}

// wantRoute waits for a running pod to have, or not to have, a route of its own to an address by net1.
func wantRoute(t *testing.T, ns, pod string, target netip.Addr, want bool) {
	t.Helper()
	world.Eventually(t, world.Soon, fmt.Sprintf("the route to %s in pod %s: %t", target, pod, want), func() (bool, string) {
		out, err := world.InPod(ns, pod, "sh", "-c", "ip route show dev net1; ip -6 route show dev net1")
		leads := strings.Contains(out, target.String()+" via ") || strings.Contains(out, target.String()+" dev ")
		return err == nil && leads == want && !strings.Contains(out, "/1 via"), out
	})
}

// leavesBy checks that packets of a pod leave by net1, and that an external host sees the node.
func leavesBy(t *testing.T, pod *corev1.Pod, target netip.Addr) {
	t.Helper()
	if route := world.MustInPod(t, pod, "ip", "route", "get", target.String()); !strings.Contains(route, "dev net1") {
		t.Errorf("the route of %s: %s", pod.Name, route)
	}
	node := world.OfFamily(world.NodeAddresses(t, pod.Spec.NodeName), target)
	world.Eventually(t, world.Soon, pod.Name+" reaches the external host", func() (bool, string) {
		out, err := seenAs(pod, "tcp", target)
		return err == nil, fmt.Sprint(out, err)
	})
	for _, network := range []string{"tcp", "udp"} {
		if seen, err := seenAs(pod, network, target); err != nil || seen != node {
			t.Errorf("%s of %s: the external host sees %v, want %v: %v", network, pod.Name, seen, node, err)
		}
	}
	world.MustInPod(t, pod, "probe", "dial", "tcp", netip.AddrPortFrom(target, world.OutsidePort).String(), "300000")
}
