//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// hostMoves puts the host into another VLAN.
func (l lan) hostMoves(t *testing.T, vlan int) {
	t.Helper()
	world.MustOnNode(t, nodes[0], "ovs-vsctl", "set", "Port", l.nic+"-host", fmt.Sprintf("tag=%d", vlan))
}

// hostReaches checks that the host is answered by a pod, also with long packets.
func (l lan) hostReaches(t *testing.T, to netip.Addr) {
	t.Helper()
	world.MustOnNode(t, nodes[0], "ip", "netns", "exec", l.nic, "ping", "-c1", "-w5", to.String())
	world.MustOnNode(t, nodes[0], "ip", "netns", "exec", l.nic, "probe", "dial", "tcp",
		netip.AddrPortFrom(to, world.EchoPort).String(), "300000", world.LongPatience)
}

// connected says whether a node has the bridge, the mapping and the NIC's port.
func (l lan) connected(t *testing.T, node, network string) (is bool, seen string) {
	t.Helper()
	out := world.MustOnNode(t, node, "sh", "-c",
		fmt.Sprintf("ovs-vsctl get Open_vSwitch . external_ids:ovn-bridge-mappings; ovs-vsctl list-br; ovs-vsctl port-to-br %s || true", l.nic))
	mapped, bridge := strings.Contains(out, network+":br-"+l.nic), strings.Count(out, "br-"+l.nic+"\n")
	return mapped && bridge == 2, fmt.Sprintf("mapped %t, bridge %d of 2: %s", mapped, bridge, out)
}

// waitConnected waits until nodes are connected to a physical network, or are not.
func (l lan) waitConnected(t *testing.T, network string, want bool, some ...string) {
	t.Helper()
	for _, node := range some {
		world.Eventually(t, world.Soon, fmt.Sprintf("%s is connected to %s: %t", node, network, want), func() (bool, string) {
			is, seen := l.connected(t, node, network)
			return is == want && (is || strings.Contains(seen, "mapped false, bridge 0")), seen
		})
	}
}

// link describes a NIC as `ip` does. An ovs-vswitchd that was killed leaves it promiscuous (docs/physical-networks.md).
func (l lan) link(t *testing.T, node string) string {
	t.Helper()
	return regexp.MustCompile(`,PROMISC|promiscuity \d+`).ReplaceAllString(world.MustOnNode(t, node, "ip", "-d", "link",
		"show", l.nic), "")
}

// answeredFully checks that a peer answers to packets of all lengths.
func answeredFully(t *testing.T, from *corev1.Pod, to netip.Addr, name string) {
	t.Helper()
	world.MustInPod(t, from, "ping", "-c1", "-w10", to.String())
	world.MustInPod(t, from, "probe", "dial", "tcp", netip.AddrPortFrom(to, world.EchoPort).String(), "300000")
	world.FromPod(from).AnsweredOnceBy(t, to.String(), name)
}

// hasItsMTU: packets of the interface's MTU pass unfragmented, and longer ones do not.
func hasItsMTU(t *testing.T, pod *corev1.Pod, to netip.Addr) {
	t.Helper()
	var mtu int
	if _, err := fmt.Sscan(world.MustInPod(t, pod, "cat", "/sys/class/net/net1/mtu"), &mtu); err != nil {
		t.Fatal(err)
	}
	const headers = 28 // of IPv4 and ICMP
	world.MustInPod(t, pod, "ping", "-c1", "-w10", "-M", "do", "-s", fmt.Sprint(mtu-headers), to.String())
	world.FromPod(pod).PingsFail(t, []string{"-M", "do", "-s", fmt.Sprint(mtu - headers + 1), to.String()}, []string{"-M", "do", "-s", fmt.Sprint(mtu - headers), to.String()})
}

// TestPhysicalNetwork_PodsReachItsHosts: with the object, pods of two nodes reach each other and a host of their VLAN, and
// no one of another VLAN. Who may not use the network has an Event. Without the object the NIC is as it was.
func TestPhysicalNetwork_PodsReachItsHosts(t *testing.T) {
	world.Test(t, world.Networks, world.Core, tier.Pick(world.Beside, world.Disruptive))
	ns, foreign := world.Namespace(t), world.Namespace(t)
	suffix := ns[len(ns)-5:]
	host := netip.MustParseAddr("10.90.0.200")
	l := newLAN(t, "lan0", 70, host.String()+"/24")
	before := l.link(t, nodes[1])
	name, vlan70 := "lan-"+suffix, "vlan70-"+suffix
	l.physicalNetwork(t, name, ns, "70-71", nodes[1:]...)
	l.waitConnected(t, name, true, nodes[1], nodes[2])

	clusterUserDefined(t, vlan70, fmt.Sprintf("{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [%s, %s]}]}, network: {topology: Localnet, localnet: "+
		"{role: Secondary, physicalNetworkName: %s, subnets: [10.90.0.0/24], excludeSubnets: [10.90.0.128/25], vlan: {mode: Access, access: {id: 70}}}}}", ns, foreign, name))
	localnet := `"topology": "localnet", "physicalNetworkName": "` + name + `", "subnets": "10.90.0.0/24", "excludeSubnets": "10.90.0.0/25,10.90.0.192/26", "vlanID": `
	apply(t, networkOf(ns, "vlan71", localnet+"71")+networkOf(ns, "vlan72", localnet+"72"))
	waitNames(t, objectsOf(t, nadResource, foreign), vlan70)
	wish{foreign, "denied", nodes[2], vlan70}.create(t)
	pods := allOnNetworks(t, wish{ns, "a", nodes[1], vlan70}, wish{ns, "b", nodes[2], vlan70}, wish{ns, "other", nodes[2], "vlan71"})
	a, other := pods["a"], pods["other"]
	addrA, addrB, addrOther := furtherAddress(t, a, vlan70), furtherAddress(t, pods["b"], vlan70), furtherAddress(t, other, "vlan71")

	check := func() {
		t.Helper()
		answeredFully(t, a, addrB, "b")
		answeredFully(t, a, host, "host")
		l.hostReaches(t, addrB)
		for _, to := range []netip.Addr{host, addrA, addrB} {
			world.FromPod(other).Unanswered(t, to.String())
		}
	}
	check()
	hasItsMTU(t, a, host)
	multiPolicy(t, ns, "no-host", vlan70, fmt.Sprintf("{podSelector: {matchLabels: {app: a}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.90.0.0/24, except: [%s/32]}}]}]}", host))
	world.Eventually(t, world.PolicyWithin, "a policy keeps the host from the pod, and not other pods", func() (bool, string) {
		atHost, errHost := world.InPod(ns, "a", "probe", "dial", "tcp", netip.AddrPortFrom(host, world.EchoPort).String())
		atB, errB := world.InPod(ns, "a", "probe", "dial", "tcp", netip.AddrPortFrom(addrB, world.EchoPort).String())
		return errHost != nil && errB == nil, atHost + atB
	})
	kubectlDelete(t, ns, "multi-networkpolicies.k8s.cni.cncf.io", "no-host")
	world.Eventually(t, world.PolicyWithin, "the host answers without the policy", func() (bool, string) {
		out, err := world.InPod(ns, "a", "probe", "dial", "tcp", netip.AddrPortFrom(host, world.EchoPort).String())
		return err == nil, out
	})
	l.hostMoves(t, 71)
	l.hostReaches(t, addrOther)
	answeredFully(t, other, host, "host")
	world.FromPod(a).Unanswered(t, host.String())
	l.hostMoves(t, 70)
	wantEvent(t, ns, "InvalidConfig", "vlan72", "PhysicalNetwork "+name+" does not let namespace "+ns+" use VLAN 72")
	wantEvent(t, foreign, "InvalidConfig", vlan70, "PhysicalNetwork "+name+" does not let namespace "+foreign+" use VLAN 70")
	staysPending(t, foreign, "denied", foreign+"/"+vlan70)

	if tier.IsFull() {
		restart(t, "agent@"+nodes[1])
		restart(t, "ovs-vswitchd@"+nodes[1])
		world.Eventually(t, world.Soon, "pods on the restarted switch answer", func() (bool, string) {
			out, err := world.InPod(ns, "a", "probe", "dial", "tcp", netip.AddrPortFrom(addrB, world.EchoPort).String())
			return err == nil, out
		})
		check()
	}

	kubectlDelete(t, ns, "physicalnetwork", name)
	l.waitConnected(t, name, false, nodes[1], nodes[2])
	world.Eventually(t, world.Soon, "the NIC is as it was", func() (bool, string) {
		now := l.link(t, nodes[1])
		return now == before, fmt.Sprintf("%s\nwas\n%s", now, before)
	})
	world.FromPod(a).Unanswered(t, host.String()) // pods may reach each other by tunnels: to OVN, a network without a bridge is like any other
	wish{ns, "late", nodes[1], vlan70}.create(t)
	staysPending(t, ns, "late", "this node has no bridge for it")
	l.physicalNetwork(t, name, ns, "70-71", nodes[1:]...)
	late := world.Running(t, ns, "late")
	l.waitConnected(t, name, true, nodes[1], nodes[2])
	answeredFully(t, late, host, "host")
	answeredFully(t, a, addrB, "b")
}

// TestProviderNetwork_MakesItsBridges: a ProviderNetwork of each type on one interface. Their pods and hosts do not reach
// each other, although all have one subnet. The nodes follow their labels, and nothing is left of deleted objects.
func TestProviderNetwork_MakesItsBridges(t *testing.T) {
	world.Test(t, world.Networks)
	if withMultus() {
		t.Skip("Multus does not read the annotations of OVN4NFV")
	}
	ns := world.Namespace(t)
	suffix := ns[len(ns)-5:]
	l := newLAN(t, "lan1", 80, "10.91.0.200/24")
	world.ServeOutside(t)
	world.MustOnNode(t, outside, "ip", "addr", "add", "10.91.0.201/24", "dev", l.nic) // a host without a tag
	for _, node := range nodes[1:] {
		setNodeLabel(t, node, "lan-"+suffix, "yes")
	}
	provider := func(name, kind, choice string) string {
		return fmt.Sprintf("\napiVersion: k8s.plugin.opnfv.org/v1alpha1\nkind: ProviderNetwork\nmetadata: {namespace: %s, name: %s}\n"+
			"spec: {cniType: ovn4nfv, providerNetType: %s, %s, providerInterfaceName: %s, nodeLabelList: [lan-%s=yes]}, ipv4Subnets: [{name: s, subnet: 10.91.0.0/24, gateway: 10.91.0.1/24}]}\n---",
			ns, name, kind, choice, l.nic, suffix)
	}
	tagged, direct := "tagged-"+suffix, "direct-"+suffix
	apply(t, provider(tagged, "VLAN", `vlan: {vlanId: "80", logicalInterfaceName: lan1.80, vlanNodeSelector: specific`)+
		provider(direct, "DIRECT", "direct: {directNodeSelector: specific"))
	for _, name := range []string{tagged, direct} {
		l.waitConnected(t, "nw_"+name, true, nodes[1], nodes[2])
	}
	if is, seen := l.connected(t, nodes[0], "nw_"+tagged); is {
		t.Errorf("the node without the label is connected: %s", seen)
	}
	on := func(network, address string) string {
		return fmt.Sprintf(`{"type": "ovn4nfv", "interface": [{"name": %q, "interface": "net0", "ipAddress": %q}]}`, network, address)
	}
	pods := allOnNetworks(t, wish{ns, "tagged1", nodes[1], on(tagged, "10.91.0.10")}, wish{ns, "tagged2", nodes[2], on(tagged, "10.91.0.20")},
		wish{ns, "direct1", nodes[1], on(direct, "10.91.0.30")}, wish{ns, "direct2", nodes[2], on(direct, "10.91.0.40")})
	answeredFully(t, pods["tagged1"], netip.MustParseAddr("10.91.0.20"), "tagged2")
	answeredFully(t, pods["tagged1"], netip.MustParseAddr("10.91.0.200"), "host")
	l.hostReaches(t, netip.MustParseAddr("10.91.0.20"))
	answeredFully(t, pods["direct1"], netip.MustParseAddr("10.91.0.40"), "direct2")
	world.MustInPod(t, pods["direct1"], "probe", "dial", "tcp", fmt.Sprintf("10.91.0.201:%d", world.OutsidePort), "300000")
	for _, to := range []string{"10.91.0.30", "10.91.0.201"} {
		world.FromPod(pods["tagged1"]).Unanswered(t, to)
	}
	world.FromPod(pods["tagged1"]).PingsFail(t, []string{"10.91.0.201"}, []string{"10.91.0.200"})
	world.FromPod(pods["direct1"]).Unanswered(t, "10.91.0.200")

	setNodeLabel(t, nodes[2], "lan-"+suffix, "no")
	l.waitConnected(t, "nw_"+tagged, false, nodes[2])
	world.FromPod(pods["tagged1"]).Unanswered(t, "10.91.0.20")
	answeredFully(t, pods["tagged1"], netip.MustParseAddr("10.91.0.200"), "host")
	for name := range pods {
		world.DeletePod(t, ns, name)
	}
	for _, name := range []string{tagged, direct} {
		deleteObject(t, objectsOf(t, opnfv.ProviderNetworks(), ns), name)
		waitObjectGone(t, objectsOf(t, opnfv.ProviderNetworks(), ns), name)
		if is, seen := l.connected(t, nodes[1], "nw_"+direct); name == tagged && !is {
			t.Errorf("with one of two ProviderNetworks: %s", seen)
		}
	}
	l.waitConnected(t, "nw_"+tagged, false, nodes[1])
	l.waitConnected(t, "nw_"+direct, false, nodes[1])
}

// setNodeLabel gives a node a label until the test ends.
func setNodeLabel(t *testing.T, node, key, value string) {
	t.Helper()
	if out, err := kubectl(t, "", "label", "--overwrite", "node", node, key+"="+value); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _, _ = kubectl(t, "", "label", "node", node, key+"-") })
}
