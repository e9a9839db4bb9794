//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// The second network of a node: the node's addresses there, and those of a host
// that knows that network only.
var (
	secondOwn  = []netip.Addr{netip.MustParseAddr("10.60.0.2"), netip.MustParseAddr("fd60::2")}
	secondHost = []netip.Addr{netip.MustParseAddr("10.60.0.9"), netip.MustParseAddr("fd60::9")}
)

// secondNetwork gives a node a second NIC, eth1, to a namespace `second` in which
// a server answers.
func secondNetwork(t *testing.T, node string) {
	t.Helper()
	script := fmt.Sprintf(`set -e
ip netns add second; ip link add eth1 type veth peer name eth0 netns second
ip addr add %[1]s/24 dev eth1; ip addr add %[2]s/64 dev eth1 nodad; ip link set eth1 up
ip -n second addr add %[3]s/24 dev eth0; ip -n second addr add %[4]s/64 dev eth0 nodad; ip -n second link set eth0 up; ip -n second link set lo up
ip netns exec second probe serve %[5]d </dev/null >/dev/null 2>&1 & echo $!`, secondOwn[0], secondOwn[1], secondHost[0], secondHost[1], world.OutsidePort)
	pid := strings.TrimSpace(world.MustOnNode(t, node, "sh", "-c", script))
	t.Cleanup(func() { world.OnNode(node, "sh", "-c", "kill "+pid+"; ip netns del second; ip link del eth1") })
	for _, target := range secondHost {
		world.Eventually(t, world.Soon, "the server in the second network answers", func() (bool, string) {
			out, err := world.OnNode(node, "probe", "dial", "tcp", netip.AddrPortFrom(target, world.OutsidePort).String())
			return err == nil, out
		})
	}
}

// setSecondInterface changes the setting and starts the agent of a node with it.
func setSecondInterface(t *testing.T, node, name string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"data":{"exgw_interface":%q}}`, name)
	if _, err := cluster.client.CoreV1().ConfigMaps(system).Patch(context.Background(), "ovn-config", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	restart(t, "agent@"+node)
}

// seenAs is the address under which a pod is seen by the server at target.
func seenAs(pod *corev1.Pod, network string, target netip.Addr) (netip.Addr, error) {
	out, err := world.InPod(pod.Namespace, pod.Name, "probe", "dial", network,
		netip.AddrPortFrom(target, world.OutsidePort).String(), "1000", world.Patience)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %s", err, out)
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(out))
	return addr.Unmap(), err
}

// TestSecondBridge_PodsReachItsNetwork: with the setting a node's pods reach the network of
// its second NIC, and are seen there with the node's address of that network;
// before and afterwards they do not reach it. The host and what goes by the
// gateway bridge are not disturbed.
func TestSecondBridge_PodsReachItsNetwork(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	ns, node := world.Namespace(t), nodes[1]
	pod := world.Run(t, world.Pod(ns, "pod", node))[0]
	world.ServeOutside(t)
	secondNetwork(t, node)
	var targets []netip.Addr
	for _, target := range secondHost {
		if world.OfFamily(world.Addresses(pod), target).IsValid() {
			targets = append(targets, target)
		}
	}
	unreached := func() (bool, string) {
		for _, target := range targets {
			if seen, err := seenAs(pod, "udp", target); err == nil {
				return false, fmt.Sprintf("%s is reached from %s", target, seen)
			}
		}
		return true, ""
	}
	if ok, seen := unreached(); !ok {
		t.Fatalf("without a second bridge %s", seen)
	}
	reached := func() (bool, string) {
		for _, target := range targets {
			for _, network := range []string{"tcp", "udp"} {
				if seen, err := seenAs(pod, network, target); err != nil || seen != world.OfFamily(secondOwn, target) {
					return false, fmt.Sprintf("%s to %s from %s, %v", network, target, seen, err)
				}
			}
		}
		return true, ""
	}

	t.Cleanup(func() {
		setSecondInterface(t, node, "")
		world.Eventually(t, world.Soon, "the NIC has its addresses back", func() (bool, string) {
			out := world.MustOnNode(t, node, "ip", "-o", "addr", "show", "scope", "global")
			return strings.Contains(out, "eth1") && !strings.Contains(out, "breth1") && strings.Contains(out, secondOwn[1].String()), out
		})
		world.Eventually(t, world.Soon, "pods do not reach the second network any more", unreached)
		wantHostInSecondNetwork(t, node)
	})
	setSecondInterface(t, node, "eth1")
	world.Eventually(t, world.PodWithin, "pods reach the second network", reached)
	for _, target := range targets {
		if out := world.MustInPod(t, pod, "ping", "-c1", "-w5", target.String()); !strings.Contains(out, "ttl=62") { // two routers
			t.Errorf("ping to %s: want ttl=62 in %s", target, out)
		}
		world.MustInPod(t, pod, "probe", "dial", "tcp", netip.AddrPortFrom(target, world.OutsidePort).String(), "300000")
	}
	own, outer := world.NodeAddresses(t, node), world.NodeAddresses(t, outside)
	if seen, err := seenAs(pod, "tcp", outer[0]); err != nil || seen != own[0] {
		t.Errorf("by the gateway bridge the pod is seen as %s, %v; want %s", seen, err, own[0])
	}
	wantHostInSecondNetwork(t, node)
	wantGuarded(t, node, pod)

	world.MustOnNode(t, node, "ovs-ofctl", "-O", "OpenFlow14", "del-flows", "breth1")
	world.Eventually(t, world.Soon, "deleted flows are back", reached)
	restart(t, "ovs-vswitchd@"+node)
	world.Eventually(t, world.PodWithin, "pods reach the second network after the switch died", reached)
	wantHostInSecondNetwork(t, node)
}

// wantHostInSecondNetwork: the node itself talks to the second network.
func wantHostInSecondNetwork(t *testing.T, node string) {
	t.Helper()
	for _, target := range secondHost {
		world.MustOnNode(t, node, "probe", "dial", "tcp", netip.AddrPortFrom(target, world.OutsidePort).String(), "300000")
	}
}

// wantGuarded: the second network reaches the node and not its pods; pods reach
// the node's address there.
func wantGuarded(t *testing.T, node string, pod *corev1.Pod) {
	t.Helper()
	world.Run(t, world.Pod(pod.Namespace, "host", node, world.OnHostAt(world.OutsidePort)))
	for _, addr := range world.Addresses(pod) {
		hop := world.OfFamily(secondOwn, addr)
		world.Eventually(t, world.Soon, "the second network reaches the node at "+hop.String(), func() (bool, string) {
			out, err := world.OnNode(node, "ip", "netns", "exec", "second", "probe", "dial", "tcp",
				netip.AddrPortFrom(hop, world.OutsidePort).String())
			return err == nil && strings.Contains(out, world.OfFamily(secondHost, hop).String()), out
		})
		world.MustOnNode(t, node, "ip", "-n", "second", "route", "add", netip.PrefixFrom(addr, addr.BitLen()).String(),
			"via", hop.String())
		ping := func(to netip.Addr) world.Attempt {
			return world.FromNode(node).Tries(append([]string{"ip", "netns", "exec", "second"},
				world.Pings([]string{to.String()})...)...)
		}
		world.FailsBeside(t, "the second network reaches a pod", ping(addr), ping(hop))
		if seen, err := seenAs(pod, "tcp", hop); err != nil || seen != addr {
			t.Errorf("the node's %s sees the pod as %s, %v; want %s", hop, seen, err, addr)
		}
	}
}
