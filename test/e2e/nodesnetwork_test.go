//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestNetworks_LocalnetOnTheNodesNetwork: pods have addresses of the network that the nodes are on. An external host and
// nodes reach them, on the same node and on others, and are reached. Pods of the default network on other nodes reach them. In
// another VLAN they are not reached.
func TestNetworks_LocalnetOnTheNodesNetwork(t *testing.T) {
	world.Test(t, world.Networks)
	if sixes()[0] {
		t.Skip("the test's addresses are IPv4")
	}
	world.ServeOutside(t)
	ns := world.Namespace(t)
	apply(t, networkOf(ns, "lan", `"topology": "localnet", "physicalNetworkName": "physnet"`)+
		networkOf(ns, "vlan78", `"topology": "localnet", "physicalNetworkName": "physnet", "vlanID": 78`))
	external := world.OfFamily(world.NodeAddresses(t, outside), netip.MustParseAddr("10.0.0.1"))
	lan := func(last byte) netip.Addr {
		bytes := external.As4()
		return netip.AddrFrom4([4]byte{bytes[0], bytes[1], 222, last})
	}
	on := func(network string, last byte) string {
		return "[" + selected(network, fmt.Sprintf(`"ips": ["%s/16"]`, lan(last))) + "]"
	}
	pods := allOnNetworks(t, wish{ns, "a", nodes[1], on("lan", 1)}, wish{ns, "b", nodes[2], on("lan", 2)},
		wish{ns, "other", nodes[2], on("vlan78", 3)}, wish{ns, "plain", nodes[1], ""})
	a, other, plain := pods["a"], pods["other"], pods["plain"]

	world.FromPod(a).AnsweredOnceBy(t, lan(2).String(), "b")
	world.FromPod(other).Unanswered(t, lan(1).String())
	for last, name := range map[byte]string{1: "a", 2: "b"} {
		at := netip.AddrPortFrom(lan(last), world.EchoPort).String()
		for _, machine := range []string{outside, nodes[0], nodes[1], nodes[2]} {
			if out, err := world.OnNode(machine, world.Patiently([]string{"probe", "dial", "tcp", at, "300000"})...); err != nil {
				t.Errorf("%s does not reach pod %s of %s: %s", machine, name, pods[name].Spec.NodeName, out)
			}
		}
	}
	world.FromPod(plain).AnsweredOnceBy(t, lan(2).String(), "b") // at its own node it does not: docs/limits.md
	for _, machine := range []string{outside, nodes[0], nodes[1], nodes[2]} {
		to := world.OfFamily(world.NodeAddresses(t, machine), external)
		for _, pod := range []*corev1.Pod{a, pods["b"]} {
			if out, err := world.InPod(ns, pod.Name, "ping", "-c1", "-w10", "-I", "net1", to.String()); err != nil {
				t.Errorf("pod %s of %s does not reach %s: %s", pod.Name, pod.Spec.NodeName, machine, out)
			}
		}
		world.SilentOn(t, world.FromPod(other), "net1", to, "eth0", world.Endpoints(plain)[0].Addr().String())
	}
	world.MustInPod(t, a, "probe", "dial", "tcp", netip.AddrPortFrom(external, world.OutsidePort).String(), "300000")
}
