//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
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
	ns := namespace(t)
	var pods []*corev1.Pod
	for n, node := range nodes {
		for i := range tier.Pick([]int{1, 2, 0}[n], 2) {
			pods = append(pods, running(t, ns, fmt.Sprintf("%s-%d", node, i), node))
		}
	}
	mtu := podMTU(t, pods[0])
	for _, from := range pods {
		for _, to := range pods {
			if from == to {
				continue
			}
			t.Run(from.Name+"/"+to.Name, func(t *testing.T) {
				t.Parallel()
				for _, addr := range addresses(t, to) {
					reach(t, from, to, addr, mtu)
				}
			})
		}
	}
	if got, want := len(addresses(t, pods[0])), len(sixes()); got != want {
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
	if out := mustInPod(t, from, "ping", "-c1", "-w5", "-M", "do", "-s", size, addr.String()); !strings.Contains(out, ttl) {
		t.Errorf("ping from %s to %s: want %s in %s", from.Name, addr, ttl, out)
	}
	if out, err := inPod(from.Namespace, from.Name, "ping", "-c1", "-W1", "-M", "do", "-s", fmt.Sprint(mtu-headers+1), addr.String()); err == nil {
		t.Errorf("a packet larger than the MTU of %d passed: %s", mtu, out)
	}
	target := netip.AddrPortFrom(addr, echoPort).String()
	for _, network := range []string{"tcp", "udp"} {
		seen := strings.TrimSpace(mustInPod(t, from, "probe", "dial", network, target, "1000"))
		source, err := netip.ParseAddr(seen)
		if err != nil || !hasAddress(t, from, source.Unmap()) {
			t.Errorf("%s from %s to %s came from %q, not from the pod's own address", network, from.Name, target, seen)
		}
	}
	mustInPod(t, from, "probe", "dial", "tcp", target, "300000")
}

// TestPod_UnusedPortDoesNotAnswer is the control of TestPod_ReachesEveryPod: the same probe fails
// where nothing answers, an address that no pod has included.
func TestPod_UnusedPortDoesNotAnswer(t *testing.T) {
	world.Test(t, world.Node, world.Core)
	ns := namespace(t)
	from, to := running(t, ns, "from", nodes[1]), running(t, ns, "to", nodes[2])
	addr := addresses(t, to)[0]
	if out, err := inPod(ns, from.Name, "probe", "dial", "tcp", netip.AddrPortFrom(addr, echoPort+1).String()); err == nil {
		t.Errorf("a port on which nothing listens answered: %s", out)
	}
	unused := netip.MustParsePrefix(addr.String() + "/24").Masked().Addr().As4()
	unused[3] = 254
	if out, err := inPod(ns, from.Name, "ping", "-c1", "-W1", netip.AddrFrom4(unused).String()); err == nil {
		t.Errorf("an address that no pod has answered: %s", out)
	}
}

// TestNode_ReachesItsPods: through the management port, whose address is the
// second of the node's subnet; and pods of other nodes do not appear there.
func TestNode_ReachesItsPods(t *testing.T) {
	world.Test(t, world.Node, world.Core)
	ns := namespace(t)
	for _, node := range nodes {
		pod := running(t, ns, node, node)
		for _, addr := range addresses(t, pod) {
			mustOnNode(t, node, "ping", "-c1", "-w10", addr.String())
			seen := mustOnNode(t, node, "probe", "dial", "tcp", netip.AddrPortFrom(addr, echoPort).String())
			if got := netip.MustParseAddr(strings.TrimSpace(seen)).Unmap(); got != managementAddress(t, addr) {
				t.Errorf("%s reached %s from %s, want %s", node, addr, got, managementAddress(t, addr))
			}
			mustInPod(t, pod, "ping", "-c1", "-w10", managementAddress(t, addr).String())
		}
	}
}

// TestPod_FirstConnectionSucceeds: a pod's very first connection succeeds, 51 times in the full tier. The pod tries
// once, as its first act, and never again. One pod starts on each node at a time.
func TestPod_FirstConnectionSucceeds(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive)
	ns := namespace(t)
	server := running(t, ns, "server", nodes[2])
	target := netip.AddrPortFrom(addresses(t, server)[0], echoPort).String()
	for round := range tier.Pick(4, 17) {
		for i, node := range nodes {
			create(t, podObject(ns, fmt.Sprintf("first-%d-%d", round, i), node, "probe", "dial", "tcp", target))
		}
		for i, node := range nodes {
			pod := waitPod(t, ns, fmt.Sprintf("first-%d-%d", round, i), "ended", func(pod *corev1.Pod) bool {
				return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			})
			if pod.Status.Phase != corev1.PodSucceeded {
				t.Errorf("%s on %s: its first connection was lost", pod.Name, node)
			}
		}
	}
}

func podMTU(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	var mtu int
	out := mustInPod(t, pod, "cat", "/sys/class/net/eth0/mtu")
	if _, err := fmt.Sscan(out, &mtu); err != nil {
		t.Fatalf("MTU %q: %v", out, err)
	}
	return mtu
}

func addresses(t *testing.T, pod *corev1.Pod) []netip.Addr {
	t.Helper()
	var addrs []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		addrs = append(addrs, netip.MustParseAddr(ip.IP))
	}
	return addrs
}

func hasAddress(t *testing.T, pod *corev1.Pod, addr netip.Addr) bool {
	t.Helper()
	for _, own := range addresses(t, pod) {
		if own == addr {
			return true
		}
	}
	return false
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
