//go:build e2e

package e2e

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const (
	genevePort = 6081
	closedPort = 9 // where nothing listens in pods
)

// TestGeneve_ForgedByPodReachesNoPod: a pod without capabilities sends what looks like
// a tunnel's packet to another node, directly and by services that lead
// to that node's tunnels. Inside is a packet from the node to one of its pods. It
// arrives while another rule takes the place of ours, and not with ours.
func TestGeneve_ForgedByPodReachesNoPod(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive, world.Strict)
	ns := world.Namespace(t)
	attacker, victim := world.Pod(ns, "attacker", nodes[1], world.Unprivileged()), world.Pod(ns, "victim", nodes[2])
	world.Run(t, attacker, victim)
	end := world.NodeAddresses(t, victim.Spec.NodeName)[0] // of the tunnels
	ways := map[string]netip.AddrPort{
		"direct":                     netip.AddrPortFrom(end, genevePort),
		"by a ClusterIP":             leadingTo(t, ns, "cluster", end, nil),
		"by another node's NodePort": leadingTo(t, ns, "third", end, nodePortAt(t, nodes[0], corev1.ServiceExternalTrafficPolicyCluster)),
	}
	for _, to := range world.Addresses(victim) {
		for name, target := range ways {
			wantForged(t, attacker, victim, name+", to "+to.String(), []string{"probe", "send", hex.EncodeToString(forged(t, victim, to, 10)), target.String()})
		}
	}
}

// TestGeneve_ForgedOnLocalnetReachesNoPod: a pod on the nodes' own network, without addresses from us, sends a tunnel's
// packet as if it were another node.
func TestGeneve_ForgedOnLocalnetReachesNoPod(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive, world.Strict)
	ns := world.Namespace(t)
	apply(t, networkOf(ns, "wire", `"topology": "localnet", "physicalNetworkName": "physnet"`))
	attacker, victim := world.Pod(ns, "attacker", nodes[1], world.OnNetworks("wire")), world.Pod(ns, "victim", nodes[2])
	world.Run(t, attacker, victim)
	peer, end := world.NodeAddresses(t, nodes[0])[0], world.NodeAddresses(t, nodes[2])[0] // of the tunnels
	mac := strings.TrimSpace(world.MustOnNode(t, nodes[2], "cat", "/sys/class/net/breth0/address"))
	// The pod does not answer for the address of the node.
	script := fmt.Sprintf("set -e; ip link set net1 arp off; ip addr add %s dev net1; ip route add %s dev net1 src %s; ip neigh replace %s lladdr %s nud permanent dev net1",
		netip.PrefixFrom(peer, peer.BitLen()), netip.PrefixFrom(end, end.BitLen()), peer, end, mac)
	world.MustInPod(t, attacker, "sh", "-c", script)
	to := world.Addresses(victim)[0]
	wantForged(t, attacker, victim, "on a localnet", []string{"probe", "send", hex.EncodeToString(forged(t, victim, to, 10)), netip.AddrPortFrom(end, genevePort).String()})
}

// wantForged: packets arrive without our rules only.
func wantForged(t *testing.T, attacker, victim *corev1.Pod, how string, send []string) {
	t.Helper()
	allowed := allowGeneve(t, attacker.Namespace)
	// Open vSwitch has taken the attacker's MAC for that of the other end of the tunnel, and would send packets there for minutes.
	t.Cleanup(func() { world.MustOnNode(t, nodes[2], "ovs-appctl", "tnl/neigh/flush") })
	before := refusedPackets(t, victim)
	world.Eventually(t, world.Soon, "without the rules a forged packet arrives "+how, func() (bool, string) {
		world.MustInPod(t, attacker, send...)
		return refusedPackets(t, victim) > before, ""
	})
	allowed()
	before = refusedPackets(t, victim)
	for range 5 {
		world.MustInPod(t, attacker, send...)
	}
	// Packets by the attacker's own tunnel are behind them.
	own := 0
	world.Eventually(t, world.Soon, "a packet of the attacker's own arrives", func() (bool, string) {
		own++
		world.MustInPod(t, attacker, "probe", "send", "00", netip.AddrPortFrom(world.Addresses(victim)[0], closedPort).String())
		return refusedPackets(t, victim) > before, ""
	})
	if after := refusedPackets(t, victim); after > before+own {
		t.Errorf("with the rules %d forged packets arrived %s", after-before-own, how)
	}
}

// TestGeneve_FromPodToNodeInEachFamily: in each family a node gets no Geneve from a
// pod, also in the one without tunnels, but for the time in which another rule takes
// the place of ours. A host that is no node gets it always.
func TestGeneve_FromPodToNodeInEachFamily(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive, world.Strict)
	ns := world.Namespace(t)
	pod := world.Run(t, world.Pod(ns, "pod", nodes[1], world.Unprivileged()))[0]
	pid := strings.TrimSpace(world.MustOnNode(t, outside, "sh", "-c",
		fmt.Sprintf("probe serve %d </dev/null >/dev/null 2>&1 & echo $!", genevePort)))
	t.Cleanup(func() { world.OnNode(outside, "kill", pid) })
	for _, host := range world.NodeAddresses(t, outside) {
		node := world.OfFamily(world.NodeAddresses(t, nodes[2]), host)
		if !world.OfFamily(world.Addresses(pod), host).IsValid() || !node.IsValid() {
			continue
		}
		ask := func() (bool, string) {
			out, err := world.InPod(ns, pod.Name, "probe", "dial", "udp", netip.AddrPortFrom(host, genevePort).String())
			return err == nil, out
		}
		world.Eventually(t, world.Soon, "a host that is no node gets Geneve", ask)
		fragments, masquerade, name := "ip[6:2] & 0x1fff != 0", "169.254.0.2", "local-4"
		if node.Is6() {
			fragments, masquerade, name = "ip6[6] == 44", "fd69::2", "local-6"
		}
		direct := netip.AddrPortFrom(node, genevePort)
		local := leadingTo(t, ns, name, node, nodePortAt(t, nodes[2], corev1.ServiceExternalTrafficPolicyLocal))
		send := func(size int, to netip.AddrPort) func() {
			return func() {
				world.MustInPod(t, pod, "probe", "send", hex.EncodeToString(make([]byte, size)), to.String())
			}
		}
		// Between these nodes tunnels have no packets of this size.
		ways := []struct {
			name string
			came func() bool
		}{
			{"directly", func() bool {
				return captured(t, fmt.Sprintf("udp port %d and greater 800 and dst host %s", genevePort, node), send(800, direct))
			}},
			{"by a Local NodePort", func() bool { return forwarded(t, masquerade, send(800, local)) }},
		}
		for _, way := range tier.Pick(ways[1:], ways) {
			came := way.came
			allowed := allowGeneve(t, ns)
			world.Eventually(t, world.Soon, fmt.Sprintf("without the rules Geneve comes to %s %s", node, way.name),
				func() (bool, string) { return came(), "" })
			allowed()
			if came() {
				t.Errorf("with the rules Geneve came to %s %s", node, way.name)
			}
		}
		// These flows are the gateway bridge's; another port shows that fragments come.
		come := func(port uint16) bool {
			return captured(t, fmt.Sprintf("%s and dst host %s", fragments, node), send(3000, netip.AddrPortFrom(node, port)))
		}
		world.Eventually(t, world.Soon, fmt.Sprintf("fragments to %s port %d come", node, closedPort),
			func() (bool, string) { return come(closedPort), "" })
		if come(genevePort) {
			t.Errorf("fragments to %s port %d come", node, genevePort)
		}
		world.Eventually(t, world.Soon, "a host that is no node gets Geneve still", ask)
	}
}

// forwarded tells whether the switch of nodes[2] does anything with Geneve to an address
// but to drop it. No other process sees a packet that the switch takes for a tunnel's.
func forwarded(t *testing.T, address string, send func()) bool {
	t.Helper()
	to := regexp.MustCompile(`dst=` + regexp.QuoteMeta(address) + `,.*udp\(dst=6081\).*actions:(.*)`)
	world.MustOnNode(t, nodes[2], "ovs-appctl", "dpctl/del-flows")
	for range 10 {
		send()
		for _, flow := range to.FindAllStringSubmatch(world.MustOnNode(t, nodes[2], "ovs-appctl", "dpctl/dump-flows"), -1) {
			if flow[1] != "drop" {
				return true
			}
		}
	}
	return false
}

// captured tells whether a packet comes to nodes[2] from the physical network while
// send sends some.
func captured(t *testing.T, filter string, send func()) bool {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := world.OnNode(nodes[2], "timeout", "4", "tcpdump", "-ni", "eth0", "-c1", "-Q", "in", filter)
		done <- err
	}()
	for {
		send()
		select {
		case err := <-done:
			return err == nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// TestRouterAdvertisement_PodAndNodeTakeNone: a pod says to be a router; another pod of
// the node and the node itself take no route from it, as the pod does whose sysctl is
// set back to the kernel's default.
func TestRouterAdvertisement_PodAndNodeTakeNone(t *testing.T) {
	world.Test(t, world.Node, world.Strict)
	if !slices.Contains(sixes(), true) {
		t.Skip("a lab without IPv6")
	}
	ns, node := world.Namespace(t), nodes[1]
	pods := world.Run(t, world.Pod(ns, "rogue", node), world.Pod(ns, "pod", node), world.Pod(ns, "open", node))
	rogue, pod, open := pods[0], pods[1], pods[2]
	own := world.Addresses(open)[0].String()
	const script = `for ns in $(ip netns list | cut -d' ' -f1); do ip -n $ns addr show dev eth0 2>/dev/null | grep -q "inet6* $1/" && ip netns exec $ns sysctl -qw net.ipv6.conf.eth0.accept_ra=1 && echo opened; done`
	if out, err := world.OnNode(node, "sh", "-c", script, "sh", own); !strings.Contains(out, "opened") {
		t.Fatalf("opening pod %s: %v: %s", own, err, out)
	}
	learned := func(pod *corev1.Pod) string {
		return world.MustInPod(t, pod, "sh", "-c", "ip -6 route show default | grep 'proto ra' || true")
	}
	world.Eventually(t, world.Soon, "the pod that listens to routers has a route", func() (bool, string) {
		world.MustInPod(t, rogue, "probe", "advertise", "eth0")
		return learned(open) != "", ""
	})
	if got := learned(pod); got != "" {
		t.Errorf("a pod has taken the route %s", got)
	}
	if got, _ := world.OnNode(node, "sh", "-c", "ip -6 route show | grep 'proto ra' | grep ovn-k8s-mp0"); got != "" {
		t.Errorf("the node has taken the route %s", got)
	}
	if got := strings.TrimSpace(world.MustOnNode(t, node, "sysctl", "-n", "net.ipv6.conf.ovn-k8s-mp0.accept_ra")); got != "0" {
		t.Errorf("accept_ra of the management port is %s", got)
	}
}

// allowGeneve adds a rule to the external switches, and those of localnets of a namespace, that comes before ours; the
// result takes it away. Switches of tests that have ended may go at any time.
func allowGeneve(t *testing.T, ns string) func() {
	t.Helper()
	const match = "udp"
	var switches []string
	for _, name := range strings.Fields(nbctl(t, "--bare", "--columns=name", "find", "Logical_Switch")) {
		external := slices.ContainsFunc(nodes, func(node string) bool { return name == contract.Network{}.ExternalSwitch(node) })
		if own := strings.HasPrefix(name, strings.ReplaceAll(ns, "-", ".")+"."); external || own && strings.HasSuffix(name, "_ovn_localnet_switch") {
			switches = append(switches, name)
		}
	}
	for _, name := range switches {
		nbctl(t, "acl-add", name, "from-lport", "2000", match, "allow")
	}
	remove := func() {
		for _, name := range switches {
			world.OnNode(nodes[0], "ovn-nbctl", "acl-del", name, "from-lport", "2000", match)
		}
		synced(t)
	}
	t.Cleanup(remove)
	nbctl(t, "--wait=hv", "sync")
	return remove
}

// refusedPackets is how many UDP packets have come to a pod's ports on which nothing listens.
func refusedPackets(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	out := world.MustInPod(t, pod, "cat", "/proc/net/snmp", "/proc/net/snmp6")
	four := regexp.MustCompile(`(?m)^Udp: \d+ (\d+)`).FindStringSubmatch(out)
	six := regexp.MustCompile(`(?m)^Udp6NoPorts\s+(\d+)`).FindStringSubmatch(out)
	if four == nil || six == nil {
		t.Fatalf("counters of %s: %s", pod.Name, out)
	}
	all := 0
	for _, text := range []string{four[1], six[1]} {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		all += n
	}
	return all
}

// nodePortAt makes a service one of type NodePort, and says at which node it is asked.
func nodePortAt(t *testing.T, node string, policy corev1.ServiceExternalTrafficPolicy) func(*corev1.ServiceSpec) string {
	t.Helper()
	return func(spec *corev1.ServiceSpec) string {
		spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, policy
		return node
	}
}

// leadingTo makes a service without pods that leads to the port of tunnels at an
// address of the node nodes[2], and gives where to ask it.
func leadingTo(t *testing.T, ns, name string, end netip.Addr, change func(*corev1.ServiceSpec) string) netip.AddrPort {
	t.Helper()
	node, single := "", corev1.IPFamilyPolicySingleStack
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		family := corev1.IPv4Protocol
		if end.Is6() {
			family = corev1.IPv6Protocol
		}
		spec.Selector, spec.IPFamilyPolicy, spec.IPFamilies = nil, &single, []corev1.IPFamily{family}
		spec.Ports = []corev1.ServicePort{{Name: "udp", Protocol: corev1.ProtocolUDP, Port: world.ServicePort,
			TargetPort: intstr.FromInt32(genevePort)}}
		if change != nil {
			node = change(spec)
		}
	})
	kind, port, protocol, portName, local := discoveryv1.AddressTypeIPv4, int32(genevePort), corev1.ProtocolUDP, "udp", nodes[2]
	if end.Is6() {
		kind = discoveryv1.AddressTypeIPv6
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: web.Name}},
		AddressType: kind,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{end.String()}, NodeName: &local}},
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Protocol: &protocol, Port: &port}},
	}
	if _, err := cluster.client.DiscoveryV1().EndpointSlices(ns).Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if node == "" {
		return netip.AddrPortFrom(world.ClusterAddresses(web)[0], world.ServicePort)
	}
	return netip.AddrPortFrom(world.OfFamily(world.NodeAddresses(t, node), end), uint16(web.Spec.Ports[0].NodePort))
}

// forged is the payload of a tunnel's packet: UDP with so many bytes from the node of a
// pod to a port of the pod at which nothing listens. The keys are those that northd
// has given; they are small numbers that a pod may guess.
func forged(t *testing.T, victim *corev1.Pod, to netip.Addr, size int) []byte {
	t.Helper()
	key := func(table, condition string) uint64 {
		out := world.MustOnNode(t, nodes[0], "ovn-sbctl", "--timeout=20", "--bare", "--columns=tunnel_key", "find", table,
			condition)
		number, err := strconv.ParseUint(strings.TrimSpace(out), 10, 24)
		if err != nil {
			t.Fatalf("key of %s in %s: %v", condition, table, err)
		}
		return number
	}
	sw := contract.Network{}.NodeSwitch(victim.Spec.NodeName)
	network := key("Datapath_Binding", "external_ids:name="+sw)
	from := key("Port_Binding", "logical_port="+contract.Network{}.ManagementPort(victim.Spec.NodeName))
	port := key("Port_Binding", "logical_port="+contract.Network{}.PodPort(victim.Namespace, victim.Name))
	header := []byte{2, 0x40, 0x65, 0x58} // two words of options, a critical one; Ethernet
	header = binary.BigEndian.AppendUint32(header, uint32(network)<<8)
	header = append(header, 0x01, 0x02, 0x80, 1)
	header = binary.BigEndian.AppendUint32(header, uint32(from)<<16|uint32(port))
	mac := podNetwork(t, victim).MAC
	source := managementAddress(t, to)
	frame := append(append(header, mac...), contract.MACFromAddress(source)...)
	return append(frame, udpPacket(source, to, size)...)
}

// udpPacket is an EtherType and the packet.
func udpPacket(from, to netip.Addr, size int) []byte {
	udp := binary.BigEndian.AppendUint16(nil, 40000)
	udp = binary.BigEndian.AppendUint16(udp, closedPort)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+size))
	udp = append(udp, make([]byte, 2+size)...)
	ends := append(from.AsSlice(), to.AsSlice()...)
	pseudo := binary.BigEndian.AppendUint32(ends, uint32(len(udp)))
	pseudo = append(binary.BigEndian.AppendUint32(pseudo, 17), udp...)
	binary.BigEndian.PutUint16(udp[6:], checksum(pseudo))
	if to.Is6() {
		packet := binary.BigEndian.AppendUint16([]byte{0x86, 0xdd, 0x60, 0, 0, 0}, uint16(len(udp)))
		packet = append(packet, 17, 64)
		return append(append(packet, ends...), udp...)
	}
	ip := binary.BigEndian.AppendUint16([]byte{0x45, 0}, uint16(20+len(udp)))
	ip = append(append(ip, 0, 1, 0, 0, 64, 17, 0, 0), ends...)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return append(append([]byte{0x08, 0x00}, ip...), udp...)
}

// checksum is that of the internet.
func checksum(data []byte) uint16 {
	var sum uint32
	for i, b := range data {
		sum += uint32(b) << (8 * uint(1-i%2))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func podNetwork(t *testing.T, pod *corev1.Pod) *contract.PodNetwork {
	t.Helper()
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], "default")
	if err != nil || network == nil {
		t.Fatalf("network of %s: %v, %v", pod.Name, network, err)
	}
	return network
}
