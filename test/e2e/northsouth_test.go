//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestPod_ReachesOutsideAsItsNode: from each node, with TCP, UDP and ping, in each family;
// the outside sees the node's address. Where nothing listens nothing answers.
func TestPod_ReachesOutsideAsItsNode(t *testing.T) {
	world.Test(t, world.Node, world.Core)
	for _, pod := range world.Shared(t).Clients {
		node := pod.Spec.NodeName
		own := world.NodeAddresses(t, node)
		for _, target := range world.NodeAddresses(t, outside) {
			if !world.OfFamily(world.Addresses(pod), target).IsValid() {
				continue
			}
			out := world.MustInPod(t, pod, "ping", "-c1", "-w5", target.String())
			if !strings.Contains(out, "ttl=62") { // two routers: the cluster's, the gateway
				t.Errorf("ping from %s to %s: want ttl=62 in %s", node, target, out)
			}
			open := netip.AddrPortFrom(target, world.OutsidePort).String()
			for _, network := range []string{"tcp", "udp"} {
				seen := strings.TrimSpace(world.MustInPod(t, pod, "probe", "dial", network, open, "1000"))
				if got := netip.MustParseAddr(seen).Unmap(); got != world.OfFamily(own, target) {
					t.Errorf("%s from a pod of %s came from %s, want %s", network, node, got, world.OfFamily(own, target))
				}
			}
			world.MustInPod(t, pod, "probe", "dial", "tcp", open, "300000")
			closed := netip.AddrPortFrom(target, world.OutsidePort+1).String()
			world.FailsBeside(t, "a port outside on which nothing listens answers",
				world.FromPod(pod).Tries("probe", "dial", "tcp", closed), world.FromPod(pod).Tries("probe", "dial", "tcp", open))
		}
	}
}

// TestNode_ReusesSourcePortOfPod: a process of the node is answered that begins with the port that a
// pod of the node had towards the same destination, whose connection is remembered
// as the router's; and so is the pod when it begins again.
func TestNode_ReusesSourcePortOfPod(t *testing.T) {
	world.Test(t, world.Node, world.Core)
	ns := world.Namespace(t)
	world.ServeOutside(t)
	pod, own := world.Run(t, world.Pod(ns, "pod", nodes[1]))[0], world.NodeAddresses(t, nodes[1])
	for i, target := range world.NodeAddresses(t, outside) {
		to := netip.AddrPortFrom(target, world.OutsidePort).String()
		for _, network := range []string{"tcp", "udp"} {
			port := 29100 + 50*i // no port that the kernel chooses
			var ask []string
			world.Eventually(t, world.Soon, "the router remembers a connection of the pod, without which this shows nothing",
				func() (bool, string) {
					port++ // a port that was in use cannot begin again at once
					ask = []string{"probe", "from", fmt.Sprint(port), network, to}
					if out, err := world.InPod(ns, pod.Name, ask...); err != nil {
						return false, fmt.Sprint(out, err)
					}
					remembered := func(entry string) bool {
						return strings.Contains(entry, "src="+world.OfFamily(own, target).String()+",") && strings.Contains(entry,
							fmt.Sprint("sport=", port)) && strings.Contains(entry, "mark=1")
					}
					entries := world.MustOnNode(t, nodes[1], "ovs-appctl", "dpctl/dump-conntrack", "zone=64000")
					return slices.ContainsFunc(strings.Split(entries, "\n"), remembered), entries
				})
			if out, err := world.OnNode(nodes[1], ask...); err != nil {
				t.Errorf("%s from a port that a pod had is not answered: %v %s", network, err, out)
			}
			if network == "udp" {
				world.MustInPod(t, pod, ask...)
			}
		}
	}
}

// TestPod_IsNotReachedFromOutside: a route to the pods through a node leads nowhere;
// the node itself, on the same way, answers.
func TestPod_IsNotReachedFromOutside(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Strict)
	ns := world.Namespace(t)
	pod := world.Run(t, world.Pod(ns, "pod", nodes[1]))[0]
	own := world.NodeAddresses(t, nodes[1])
	for _, addr := range world.Addresses(pod) {
		hop := world.OfFamily(own, addr)
		route := []string{netip.PrefixFrom(addr, addr.BitLen()).String(), "via", hop.String()}
		world.MustOnNode(t, outside, append([]string{"ip", "route", "add"}, route...)...)
		t.Cleanup(func() { world.OnNode(outside, append([]string{"ip", "route", "del"}, route...)...) })
		world.FailsBeside(t, "the external host reaches a pod",
			world.FromNode(outside).Tries(world.Pings([]string{addr.String()})...),
			world.FromNode(outside).Tries(world.Pings([]string{hop.String()})...))
		world.MustOnNode(t, nodes[1], "ping", "-c1", "-w5", addr.String())
	}
}

// TestPod_ReachesOwnAndOtherNodes: a pod reaches its own node, which sees the pod's address,
// and other nodes, which see its node's. UDP to the own node is left out: a
// process that listens on all addresses answers from the management port's.
func TestPod_ReachesOwnAndOtherNodes(t *testing.T) {
	world.Test(t, world.Node, world.Core)
	w := world.Shared(t)
	pod := w.Clients[1]
	for _, host := range w.Hosts[:2] {
		node := host.Spec.NodeName
		for _, addr := range world.NodeAddresses(t, node) {
			want := world.OfFamily(world.Addresses(pod), addr)
			if !want.IsValid() {
				continue
			}
			if node != pod.Spec.NodeName {
				want = world.OfFamily(world.NodeAddresses(t, pod.Spec.NodeName), addr)
			}
			networks := []string{"tcp", "udp"}
			if node == pod.Spec.NodeName {
				networks = networks[:1]
			}
			for _, network := range networks {
				seen := strings.TrimSpace(world.MustInPod(t, pod, "probe", "dial", network,
					netip.AddrPortFrom(addr, world.Port(host)).String(), "1000"))
				if got := netip.MustParseAddr(seen).Unmap(); got != want {
					t.Errorf("%s to %s came from %s, want %s", network, host.Name, got, want)
				}
			}
		}
	}
}

// TestMasquerade_PodDoesNotReachNode: a pod reaches no process of its node at the
// masquerade address, but for the time in which another policy of the cluster router
// takes the place of ours; at the node's own address it does always.
func TestMasquerade_PodDoesNotReachNode(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive, world.Strict)
	ns := world.Namespace(t)
	pod := world.Pod(ns, "pod", nodes[1])
	host := world.Pod(ns, "host", nodes[1], world.OnHost())
	world.Run(t, pod, host)
	for _, addr := range world.NodeAddresses(t, nodes[1]) {
		masquerade, policy := "169.254.0.2", "ip4.dst == 169.254.0.0/17"
		if addr.Is6() {
			masquerade, policy = "fd69::2", "ip6.dst == fd69::/112"
		}
		if !world.OfFamily(world.Addresses(pod), addr).IsValid() {
			continue
		}
		ask := func(target netip.Addr, seconds string) (string, error) {
			return world.InPod(ns, pod.Name, "probe", "dial", "tcp", netip.AddrPortFrom(target, world.Port(host)).String(), "0",
				seconds)
		}
		world.Eventually(t, world.Soon, "the node is reached at its own address", func() (bool, string) {
			out, err := ask(addr, "1")
			return err == nil, out
		})
		remove := func() {
			world.OnNode(nodes[0], "ovn-nbctl", "lr-policy-del", contract.Network{}.ClusterRouter(), "2000", policy)
			synced(t)
		}
		t.Cleanup(remove)
		nbctl(t, "--wait=hv", "lr-policy-add", contract.Network{}.ClusterRouter(), "2000", policy, "allow")
		if out, err := ask(netip.MustParseAddr(masquerade), world.LongPatience); err != nil {
			t.Errorf("without the policy %s is not reached, this shows nothing: %v: %s", masquerade, err, out)
		}
		remove()
		world.FailsBeside(t, "a pod reaches its node at "+masquerade,
			func() (string, error) { return ask(netip.MustParseAddr(masquerade), "1") },
			func() (string, error) { return ask(addr, "1") })
	}
}

// TestPod_GetsICMPErrorsOfRouters: what routers outside have to say of a pod's packet
// reaches the pod: it is too large for a link there, or has come too far.
func TestPod_GetsICMPErrorsOfRouters(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	const (
		fabric = "fabric" // the default gateway, which the gateway router asks
		mtu    = 1300
	)
	onlyInLab(t, "it changes the machine that is the nodes' gateway")
	ns := world.Namespace(t)
	pod := world.Run(t, world.Pod(ns, "pod", nodes[1]))[0]
	world.MustOnNode(t, outside, "sh", "-c", fmt.Sprintf("ip netns add far && ip link add far0 mtu %d type veth peer name eth0 mtu %d netns far", mtu, mtu))
	t.Cleanup(func() { world.OnNode(outside, "ip", "netns", "del", "far") })
	world.MustOnNode(t, outside, "sh", "-c", "ip link set far0 up && ip -n far link set eth0 up")
	for _, own := range world.NodeAddresses(t, outside) {
		near, far, subnet, forward, headers := "192.0.2.1", "192.0.2.2", "192.0.2.0/24", "net.ipv4.ip_forward", 28
		tooLarge, tooFar := fmt.Sprintf("mtu = %d", mtu), "Time to live exceeded"
		if own.Is6() {
			near, far, subnet, forward, headers = "2001:db8:2::1", "2001:db8:2::2", "2001:db8:2::/64", "net.ipv6.conf.all.forwarding", 48
			tooLarge, tooFar = fmt.Sprintf("Packet too big: mtu=%d", mtu), "Time exceeded: Hop limit"
		}
		length := subnet[strings.Index(subnet, "/"):]
		world.MustOnNode(t, outside, "sh", "-c",
			fmt.Sprintf("ip addr add %s dev far0 nodad && ip -n far addr add %s dev eth0 nodad && ip -n far route add default via %s && sysctl -qw %s=1",
				near+length, far+length, near, forward))
		t.Cleanup(func() { world.OnNode(outside, "sysctl", "-qw", forward+"=0") })
		world.MustOnNode(t, fabric, "sh", "-c", fmt.Sprintf("ip route add %s via %s && sysctl -qw %s=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.fabric0.send_redirects=0", subnet, own, forward))
		t.Cleanup(func() { world.OnNode(fabric, "sh", "-c", "ip route del "+subnet+"; sysctl -qw "+forward+"=0") })

		ping := func(options ...string) (string, error) {
			return world.InPod(ns, pod.Name, slices.Concat([]string{"ping", "-M", "do"}, options, []string{far})...)
		}
		if out, err := ping("-c1", "-w10", "-s", fmt.Sprint(mtu-headers)); err != nil {
			t.Errorf("a packet that fits is not answered: %s", out)
		}
		for what, options := range map[string][]string{tooLarge: {"-c2", "-W5", "-s", fmt.Sprint(mtu - headers + 100)}, tooFar: {"-c1", "-w10", "-t", "3"}} {
			if out, err := ping(options...); err == nil || !strings.Contains(out, what) {
				t.Errorf("ping %v %s: want %q in %s", options, far, what, out)
			}
		}
	}
}

// TestGateway_DeletedFlowsComeBack: the agent restores a deleted flow. Pods and host reach external addresses meanwhile
// and afterwards. The pod's stream is UDP: without the flows replies go to the host, which would reset TCP.
func TestGateway_DeletedFlowsComeBack(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive)
	ns := world.Namespace(t)
	world.ServeOutside(t)
	pod := world.Run(t, world.Pod(ns, "pod", nodes[1]))[0]
	host := world.Pod(ns, "host", nodes[1], world.Command("sleep", "1000"))
	host.Spec.HostNetwork = true
	world.Create(t, host)
	world.WaitPod(t, ns, host.Name, "Running", world.IsRunning)
	target := netip.AddrPortFrom(world.NodeAddresses(t, outside)[0], world.OutsidePort)
	table := func() string {
		return world.MustOnNode(t, nodes[1], "ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", "breth0")
	}
	before := len(strings.Split(table(), "\n"))
	flows := map[string]*flow{"the pod": startFlow(t, ns, pod.Name, "udp", target), "the host": startFlow(t, ns, host.Name, "tcp", target)}
	witness := withinPod(t, pod)
	for _, spoil := range [][]string{
		{"ovs-ofctl", "-O", "OpenFlow14", "del-flows", "breth0"},
		{"ovs-ofctl", "-O", "OpenFlow14", "--strict", "del-flows", "breth0", "table=1,priority=100,ct_state=+rpl,ct_mark=1"},
		{"ovs-ofctl", "-O", "OpenFlow14", "add-flow", "breth0", "priority=150,ip actions=NORMAL"},
	} {
		world.MustOnNode(t, nodes[1], spoil...)
		world.Eventually(t, world.PodWithin, fmt.Sprintf("the table is as before %v", spoil), func() (bool, string) {
			now := table()
			return len(strings.Split(now, "\n")) == before, now
		})
	}
	restart(t, "agent@"+nodes[1])
	restart(t, "ovn-controller@"+nodes[1])
	for _, flow := range flows {
		flow.wantAnswer(t, world.Soon)
	}
	wantShortSilences(t, "flows were deleted", flows, witness, 10*time.Second)
}

// TestGateway_StreamSurvivesRestartOfSwitch: a UDP stream to the outside goes on when
// ovs-vswitchd is back, and new connections succeed, the host's and the pod's.
func TestGateway_StreamSurvivesRestartOfSwitch(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive)
	ns := world.Namespace(t)
	world.ServeOutside(t)
	pod := world.Run(t, world.Pod(ns, "pod", nodes[1]))[0]
	target := netip.AddrPortFrom(world.NodeAddresses(t, outside)[0], world.OutsidePort)
	stream := startFlow(t, ns, pod.Name, "udp", target)
	restart(t, "ovs-vswitchd@"+nodes[1])
	stream.wantAnswer(t, world.PodWithin)
	world.MustInPod(t, pod, "probe", "dial", "tcp", target.String(), "1000")
	world.MustOnNode(t, nodes[1], "probe", "dial", "tcp", target.String(), "1000")
}

// TestNode_AddedAddressIsReached: a further address of a node is reached by its pods
// when it is there, and no longer when it is gone.
func TestNode_AddedAddressIsReached(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive)
	ns := world.Namespace(t)
	pod := world.Run(t, world.Pod(ns, "pod", nodes[1]))[0]
	own := world.NodeAddresses(t, nodes[1])[0].As4()
	own[2] = 77
	extra := netip.AddrFrom4(own).String()
	ping := func(to string) world.Attempt { return world.FromPod(pod).Tries(world.Pings([]string{to})...) }
	unreached := func(when string) {
		t.Helper()
		world.FailsBeside(t, extra+" answers "+when, ping(extra), ping(world.NodeAddresses(t, nodes[1])[0].String()))
	}
	unreached("before any node has the address")
	world.MustOnNode(t, nodes[1], "ip", "addr", "add", extra+"/16", "dev", "breth0")
	t.Cleanup(func() { world.OnNode(nodes[1], "ip", "addr", "del", extra+"/16", "dev", "breth0") })
	world.Eventually(t, world.Soon, "pods reach the node's new address",
		func() (bool, string) { out, err := ping(extra)(); return err == nil, out })
	world.MustOnNode(t, nodes[1], "ip", "addr", "del", extra+"/16", "dev", "breth0")
	world.Eventually(t, world.Soon, "the address that is gone is not reached", func() (bool, string) {
		node, err := cluster.client.CoreV1().Nodes().Get(t.Context(), nodes[1], metav1.GetOptions{})
		_, answered := ping(extra)()
		return err == nil && !strings.Contains(node.Annotations["k8s.ovn.org/host-cidrs"], extra) && answered != nil, ""
	})
	unreached("after it is gone")
}

// TestNodePort_TooLargePacketGetsICMPError: the sender of a packet to a node port that is too large for the pod gets an
// ICMP error. With userspace-tso-enable there is no error, because OVS cannot check TCP's large buffers. The setting
// is enough for the test: ovs-vswitchd reads the setting only at its start.
func TestNodePort_TooLargePacketGetsICMPError(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	const size = "1420" // and headers: the fabric takes 1500 bytes, pods 1442
	ns, node := world.Namespace(t), nodes[1]
	world.Run(t, world.Pod(ns, "server", node, world.Behind("web")))
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	from := world.Run(t, world.Pod(ns, "from", node))[0]
	world.FromPod(from).Answered(t, "udp", world.Frontends(web)[0])
	before := strings.TrimSpace(world.MustOnNode(t, node, "ovs-vsctl", "--if-exists", "get", "Open_vSwitch", ".",
		"other_config:userspace-tso-enable"))
	if before == "" {
		t.Skip("the kernel's datapath")
	}
	look := func(want bool) {
		world.OnNode(node, "ovs-vsctl", "set", "Open_vSwitch", ".", fmt.Sprintf("other_config:userspace-tso-enable=%t", !want))
		patchNode(t, node, fmt.Sprintf(`{"test-looks":"%t"}`, want)) // the agent looks again
		world.Eventually(t, world.Soon, fmt.Sprintf("the gateway looks at sizes: %t", want), func() (bool, string) {
			out := nbctl(t, "get", "Logical_Router_Port", "rtoj-GR_"+node, "options")
			return strings.Contains(out, "gateway_mtu=") == want, out
		})
		synced(t)
	}
	// A host caches the path MTU for ten minutes.
	forget := func() {
		world.OnNode(outside, "ip", "-4", "route", "flush", "cache")
		world.OnNode(outside, "ip", "-6", "route", "flush", "cache")
	}
	t.Cleanup(func() { look(false); forget(); patchNode(t, node, `{"test-looks":null}`) })
	for _, address := range world.NodeAddresses(t, node) {
		look(false)
		forget()
		target := netip.AddrPortFrom(address, uint16(web.Spec.Ports[1].NodePort)).String()
		world.MustOnNode(t, outside, "probe", "dial", "udp", target)
		if out, err := world.OnNode(outside, "probe", "dial", "udp", target, size); err == nil || !strings.Contains(out,
			"timeout") {
			t.Errorf("%s, not looked at: %v: %s", target, err, out)
		}
		look(true)
		if out, err := world.OnNode(outside, "probe", "dial", "udp", target, size); err == nil || !strings.Contains(out,
			"message too long") {
			t.Errorf("%s: want an error that it is too long, got %v: %s", target, err, out)
		}
		world.MustOnNode(t, outside, "probe", "dial", "udp", target)
	}
}

func patchNode(t *testing.T, node, labels string) {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":` + labels + `}}`)
	if _, err := cluster.client.CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// TestPod_UsesAllDefaultGateways: the host's default route has two next hops, and its pods'
// connections go by both; before, by the one that there is.
func TestPod_UsesAllDefaultGateways(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	const far, port = "198.51.100.7", world.OutsidePort + 2 // the external host serves at the others
	onlyInLab(t, "it changes the machine that is the nodes' gateway")
	ns, node := world.Namespace(t), nodes[1]
	pod := world.Run(t, world.Pod(ns, "pod", node))[0]
	for _, machine := range []string{outside, "fabric"} {
		world.MustOnNode(t, machine, "ip", "addr", "replace", far+"/32", "dev", "lo")
		pid := strings.TrimSpace(world.MustOnNode(t, machine, "sh", "-c",
			fmt.Sprintf("probe serve %d %s </dev/null >/dev/null 2>&1 & echo $!", port, machine)))
		t.Cleanup(func() {
			world.OnNode(machine, "kill", pid)
			world.OnNode(machine, "ip", "addr", "del", far+"/32", "dev", "lo")
		})
	}
	ways := func() map[string]int {
		seen := map[string]int{}
		const script = `for i in $(seq 20); do probe dial tcp "$1" 0 ` + world.Patience + ` || echo lost lost; done`
		for line := range strings.Lines(world.MustInPod(t, pod, "sh", "-c", script, "sh", fmt.Sprintf("%s:%d", far, port))) {
			if got, err := world.ReadAnswer(line, nil); err == nil {
				seen[got.Server]++
			}
		}
		return seen
	}
	// On a busy machine some have no answer.
	byOne := func() (bool, string) {
		seen := ways()
		return seen["fabric"] >= 10 && seen[outside] == 0, fmt.Sprint(seen)
	}
	world.Eventually(t, world.PodWithin, "by one gateway", byOne)
	one := strings.TrimSpace(world.MustOnNode(t, node, "ip", "-4", "route", "show", "default"))
	gateway := strings.Fields(one)[2]
	second := world.OfFamily(world.NodeAddresses(t, outside), netip.MustParseAddr(gateway)).String()
	t.Cleanup(func() {
		world.OnNode(node, "ip", "route", "replace", "default", "via", gateway, "dev", "breth0")
		world.Eventually(t, world.PodWithin, "one gateway again", byOne)
	})
	world.MustOnNode(t, node, "ip", "route", "replace", "default", "nexthop", "via", gateway, "dev", "breth0", "nexthop",
		"via", second, "dev", "breth0")
	world.Eventually(t, world.PodWithin, "both gateways are used", func() (bool, string) {
		seen := ways()
		return seen["fabric"] >= 3 && seen[outside] >= 3, fmt.Sprint(seen)
	})
	if now := world.MustOnNode(t, node, "ip", "-4", "route", "show", "default"); strings.Count(now, "nexthop") != 2 {
		t.Errorf("the host's own route: %s", now)
	}
}
