//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// A node's own things: a link-local address as NodeLocal DNSCache has one, a route, and a plugin in the CNI configuration
// that sets a sysctl of the pod's namespace and prints the result of the plugin before it.
const (
	addOnOnNode = `ip link add addon0 type bridge && ip addr add 169.254.200.1/32 dev addon0 && ip link set addon0 up`
	chainOnNode = `set -e
cat >/opt/cni/bin/lab-chain <<'END'
#!/bin/sh
conf=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}' ;;
ADD) nsenter --net="$CNI_NETNS" sysctl -qw net.ipv4.ip_default_ttl=77
  printf %s "$conf" | sed -n 's/.*"prevResult":\(.*\),"type":"lab-chain".*/\1/p' ;;
esac
END
chmod 755 /opt/cni/bin/lab-chain
sed -i 's/\]}$/,{"type":"lab-chain"}]}/' /etc/cni/net.d/10-ovn-kubernetes.conflist
grep lab-chain /etc/cni/net.d/10-ovn-kubernetes.conflist
ls /etc/cni/net.d/10-ovn-kubernetes.conf 2>/dev/null && exit 1 || exit 0`
	withoutOwnThings = `ip link del addon0; ip route del 198.51.100.0/24; rm -f /opt/cni/bin/lab-chain
sed -i 's/,{"type":"lab-chain"}//' /etc/cni/net.d/10-ovn-kubernetes.conflist`
)

// TestNode_PodsUseWhatOthersGaveNode: a link-local address, a static route and a chained plugin, the last also when the
// agent has started again. The pod of another node has none of them.
func TestNode_PodsUseWhatOthersGaveNode(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	onlyInLab(t, "it writes into the node's CNI configuration")
	ns, node := world.Namespace(t), nodes[1]
	own := world.OfFamily(world.NodeAddresses(t, outside), netip.IPv4Unspecified())
	if !own.IsValid() {
		t.Skip("the addresses of the test are IPv4")
	}
	world.ServeOutside(t)
	t.Cleanup(func() {
		world.OnNode(node, "sh", "-c", withoutOwnThings)
		world.OnNode(outside, "ip", "addr", "del", "198.51.100.1/32", "dev", "lo")
	})
	world.MustOnNode(t, outside, "ip", "addr", "add", "198.51.100.1/32", "dev", "lo")
	world.MustOnNode(t, node, "sh", "-c", fmt.Sprintf("%s && ip route add 198.51.100.0/24 via %s", addOnOnNode, own))
	world.MustOnNode(t, node, "sh", "-c", chainOnNode)
	restart(t, "agent@"+node)
	pods := world.Run(t, world.Pod(ns, "pod", node), world.Pod(ns, "other", nodes[2]), world.Pod(ns, "host", node, world.OnHost()))
	for i, want := range []string{"77", "64"} {
		if ttl := strings.TrimSpace(world.MustInPod(t, pods[i], "cat", "/proc/sys/net/ipv4/ip_default_ttl")); ttl != want {
			t.Errorf("ip_default_ttl of pod %s: %s, want %s", pods[i].Name, ttl, want)
		}
	}
	pod, other := world.FromPod(pods[0]), world.FromPod(pods[1])
	for what, target := range map[string]netip.AddrPort{
		"a link-local address of the node": netip.AddrPortFrom(netip.MustParseAddr("169.254.200.1"), world.Port(pods[2])),
		"a route of the node":              netip.AddrPortFrom(netip.MustParseAddr("198.51.100.1"), world.OutsidePort),
	} {
		world.Eventually(t, world.ServiceWithin, "the pod uses "+what, func() (bool, string) {
			out, err := pod.Run("probe", "dial", "tcp", target.String())
			return err == nil, out
		})
		world.FailsBeside(t, "the pod of another node uses "+what,
			other.Tries("probe", "dial", "tcp", target.String()), pod.Tries("probe", "dial", "tcp", target.String()))
	}
	for _, path := range []string{"healthz", "livez"} {
		at := netip.AddrPortFrom(world.InternalIP(t, node), 10256)
		out := world.MustOnNode(t, outside, "curl", "-sS", "-w", " %{http_code}", fmt.Sprintf("http://%s/%s", at, path))
		if !strings.HasSuffix(out, " 200") || !strings.Contains(out, `"nodeEligible": true`) {
			t.Errorf("%s of the node: %s", path, out)
		}
	}
}
