//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPod_ReachesEveryPod: every pod reaches every other in each family, switched on
// one node (ttl 64) and routed once between nodes (ttl 63), with TCP, UDP, and
// packets of exactly the MTU; the peer sees the pod's own address.
func TestPod_ReachesEveryPod(t *testing.T) {
	world.Test(t, world.Node, world.Core)
	w := world.Shared(t)
	near, far := w.Clients, w.Other.Clients
	pods := tier.Pick([]*corev1.Pod{near[0], near[1], far[1]}, slices.Concat(near, far))
	mtu, each := podMTU(t, pods[0]), map[string]func(*testing.T){}
	for _, from := range pods {
		each[from.Name] = func(t *testing.T) {
			for _, to := range pods {
				for _, addr := range world.Addresses(to) {
					if from != to {
						reach(t, from, to, addr, mtu)
					}
				}
			}
		}
	}
	world.AtOnce(t, each)
	if got, want := len(world.Addresses(pods[0])), len(sixes()); got != want {
		t.Errorf("a pod has %d addresses, want %d", got, want)
	}
}

func reach(t *testing.T, from, to *corev1.Pod, addr netip.Addr, mtu int) {
	t.Helper()
	ttl := "ttl=63"
	if from.Spec.NodeName == to.Spec.NodeName {
		ttl = "ttl=64"
	}
	headers := 28
	if addr.Is6() {
		headers = 48
	}
	// -M do forbids fragments: the packet has the MTU's size or is not sent.
	size := fmt.Sprint(mtu - headers)
	if out := world.MustInPod(t, from, "ping", "-c1", "-w5", "-M", "do", "-s", size,
		addr.String()); !strings.Contains(out, ttl) {
		t.Errorf("ping from %s to %s: want %s in %s", from.Name, addr, ttl, out)
	}
	world.FromPod(from).PingsFail(t, []string{"-M", "do", "-s", fmt.Sprint(mtu - headers + 1), addr.String()}, []string{"-M", "do", "-s", size, addr.String()})
	target := netip.AddrPortFrom(addr, world.EchoPort).String()
	for _, network := range []string{"tcp", "udp"} {
		seen := strings.TrimSpace(world.MustInPod(t, from, "probe", "dial", network, target, "1000"))
		source, err := netip.ParseAddr(seen)
		if err != nil || !world.HasAddress(from, source.Unmap()) {
			t.Errorf("%s from %s to %s came from %q, not from the pod's own address", network, from.Name, target, seen)
		}
	}
	world.MustInPod(t, from, "probe", "dial", "tcp", target, "300000")
}

// TestPod_UnusedPortDoesNotAnswer is the control of TestPod_ReachesEveryPod: the same probe fails
// where nothing answers, an address that no pod has included.
func TestPod_UnusedPortDoesNotAnswer(t *testing.T) {
	world.Test(t, world.Node, world.Core)
	pods := world.Shared(t).Clients
	from, addr := pods[1], world.Addresses(pods[2])[0]
	dial := func(port uint16) world.Attempt {
		return world.FromPod(from).Tries("probe", "dial", "tcp", netip.AddrPortFrom(addr, port).String())
	}
	world.FailsBeside(t, "a port on which nothing listens answers", dial(world.EchoPort+1), dial(world.EchoPort))
	unused := netip.MustParsePrefix(addr.String() + "/24").Masked().Addr().As4()
	unused[3] = 254
	world.FromPod(from).PingsFail(t, []string{netip.AddrFrom4(unused).String()}, []string{addr.String()})
}

// TestNode_ReachesItsPods: through the management port, whose address is the
// second of the node's subnet; and pods of other nodes do not appear there.
func TestNode_ReachesItsPods(t *testing.T) {
	world.Test(t, world.Node, world.Core)
	for _, pod := range world.Shared(t).Clients {
		node := pod.Spec.NodeName
		for _, addr := range world.Addresses(pod) {
			world.MustOnNode(t, node, "ping", "-c1", "-w10", addr.String())
			seen := world.MustOnNode(t, node, "probe", "dial", "tcp", netip.AddrPortFrom(addr, world.EchoPort).String())
			if got := netip.MustParseAddr(strings.TrimSpace(seen)).Unmap(); got != managementAddress(t, addr) {
				t.Errorf("%s reached %s from %s, want %s", node, addr, got, managementAddress(t, addr))
			}
			world.MustInPod(t, pod, "ping", "-c1", "-w10", managementAddress(t, addr).String())
		}
	}
}

// TestPod_FirstConnectionSucceeds: a pod's very first connection succeeds, 51 times in the full tier. The pod tries
// once, as its first act, and never again. One pod starts on each node at a time. In the gate other tests run beside,
// whose pods cost packets between nodes (docs/limits.md): twelve pods of which one lost its connection are made again.
func TestPod_FirstConnectionSucceeds(t *testing.T) {
	world.Test(t, world.Node, world.Core, tier.Pick(world.Beside, world.Disruptive))
	ns := world.Namespace(t)
	target := world.Endpoints(world.Run(t, world.Pod(ns, "server", nodes[2]))[0])[0].String()
	var lost []string
	for set := range tier.Pick(3, 1) {
		lost = nil
		for round := range tier.Pick(4, 17) {
			lost = append(lost, firstConnections(t, ns, fmt.Sprintf("first-%d-%d", set, round), target)...)
		}
		if len(lost) != 1 {
			break
		}
		t.Logf("once more, for one connection was lost: %s", lost)
	}
	if len(lost) > 0 {
		t.Errorf("first connections were lost: %s", lost)
	}
}

// firstConnections lists those of a pod on each node that are lost.
func firstConnections(t *testing.T, ns, name, target string) (lost []string) {
	t.Helper()
	for i, node := range nodes {
		world.Create(t, world.Pod(ns, fmt.Sprint(name, "-", i), node, world.Command("probe", "dial", "tcp", target)))
	}
	for i, node := range nodes {
		if pod := world.Ended(t, ns, fmt.Sprint(name, "-", i)); pod.Status.Phase != corev1.PodSucceeded {
			lost = append(lost, pod.Name+" on "+node)
		}
	}
	return lost
}

func podMTU(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	var mtu int
	out := world.MustInPod(t, pod, "cat", "/sys/class/net/eth0/mtu")
	if _, err := fmt.Sscan(out, &mtu); err != nil {
		t.Fatalf("MTU %q: %v", out, err)
	}
	return mtu
}

// managementAddress is the second address of the node subnet that addr is in.
func managementAddress(t *testing.T, addr netip.Addr) netip.Addr {
	t.Helper()
	bits := 24
	if addr.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(addr, bits).Masked().Addr().Next().Next()
}
