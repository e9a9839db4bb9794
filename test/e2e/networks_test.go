//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// networkOf is a NetworkAttachmentDefinition of a network with its name. The lab's physical network is the nodes' own.
func networkOf(ns, name, fields string) string {
	return fmt.Sprintf(`
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {namespace: %[1]s, name: %[2]s}
spec:
  config: '{"cniVersion": "1.0.0", "name": "%[1]s.%[2]s", "type": "ovn-k8s-cni-overlay", "netAttachDefName": "%[1]s/%[2]s", %[3]s}'
---`, ns, name, fields)
}

// sharedWith lists a further namespace that may use the networks of NetworkAttachmentDefinitions.
func sharedWith(namespace, nads string) string {
	return regexp.MustCompile(`(?m)^(metadata: \{.*)\}$`).ReplaceAllString(nads, "${1}, annotations: {"+contract.NamespacesKey+": "+namespace+"}}")
}

// testNetworks are of each topology; the last two are one subnet on two VLANs.
func testNetworks(ns string) string {
	return networkOf(ns, "routed", `"topology": "layer3", "subnets": "10.201.0.0/16/24", "mtu": 1300`) +
		networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.202.0.0/24", "excludeSubnets": "10.202.0.0/28"`) +
		networkOf(ns, "bare", `"topology": "layer2"`) +
		networkOf(ns, "vlan70", `"topology": "localnet", "physicalNetworkName": "physnet", "vlanID": 70, "subnets": "10.203.0.0/16", "excludeSubnets": "10.203.128.0/17"`) +
		networkOf(ns, "vlan71", `"topology": "localnet", "physicalNetworkName": "physnet", "vlanID": 71, "subnets": "10.203.0.0/16", "excludeSubnets": "10.203.0.0/17"`)
}

// furtherAddress is what a pod has on a network; key is without the namespace.
func furtherAddress(t *testing.T, pod *corev1.Pod, key string) netip.Addr {
	t.Helper()
	return addressOn(t, pod, pod.Namespace+"/"+key)
}

// TestNetworks_PodsReachEachOther: on networks of each topology, between nodes; in the full tier, while components start again
// and afterwards, too. A pod of another network, of another VLAN or without the network reaches no pod there, and a deleted
// pod leaves nothing.
func TestNetworks_PodsReachEachOther(t *testing.T) {
	world.Test(t, world.Networks, world.Core, tier.Pick(world.Beside, world.Disruptive), world.Strict)
	ns := world.Namespace(t)
	apply(t, testNetworks(ns))
	pods := world.Run(t, world.Pod(ns, "a", nodes[1], world.OnNetworks("routed, flat, flat, bare, vlan70")),
		world.Pod(ns, "b", nodes[2], world.OnNetworks("routed, flat, bare, vlan70")),
		world.Pod(ns, "other", nodes[2], world.OnNetworks("vlan71, flat@flat0")), world.Pod(ns, "none", nodes[2]))
	a, b, other, none := pods[0], pods[1], pods[2], pods[3]
	routed, flat, vlan := furtherAddress(t, b, "routed"), furtherAddress(t, b, "flat"), furtherAddress(t, b, "vlan70")

	check := func() {
		world.FromPod(a).ReachesOn(t, "net1", routed)
		for i, via := range []string{furtherAddress(t, a, "flat").String(), furtherAddress(t, a, "flat/1").String()} {
			world.MustInPod(t, a, "ping", "-c1", "-w10", "-I", via, flat.String()) // from an address, by its interface
			if got := strings.TrimSpace(world.MustInPod(t, a, "sh", "-c",
				"ip route get "+flat.String()+" from "+via)); !strings.Contains(got, fmt.Sprintf("dev net%d", i+2)) {
				t.Errorf("packets from %s leave by %s", via, got)
			}
			world.FromPod(b).ReachesOn(t, "net2", netip.MustParseAddr(via))
		}
		world.FromPod(a).ReachesOn(t, "net5", vlan)
		world.SilentOn(t, world.FromPod(other), "net1", vlan, "flat0", flat.String())
		world.SilentOn(t, world.FromPod(other), "net1", furtherAddress(t, a, "vlan70"), "flat0", flat.String())
		world.FromPod(other).ReachesOn(t, "flat0", flat) // its control
		world.SilentOn(t, world.FromPod(none), "eth0", flat, "eth0", world.Endpoints(a)[0].Addr().String())
		world.SilentOn(t, world.FromPod(none), "eth0", routed, "eth0", world.Endpoints(a)[0].Addr().String())
	}
	check()
	if mtu := strings.TrimSpace(world.MustInPod(t, a, "cat", "/sys/class/net/net1/mtu")); mtu != "1300" {
		t.Errorf("MTU of net1: %s", mtu)
	}
	if links := world.MustInPod(t, none, "ls", "/sys/class/net"); strings.Contains(links, "net1") {
		t.Errorf("the pod without further networks has %s", links)
	}
	for i, pod := range []*corev1.Pod{a, b} {
		world.MustInPod(t, pod, "ip", "addr", "add", fmt.Sprintf("192.168.77.%d/24", i+1), "dev", []string{"net4", "net3"}[i])
	}
	world.MustInPod(t, a, "ping", "-c1", "-w10", "-I", "net4", "192.168.77.2")
	checkStatus(t, a)

	if tier.IsFull() {
		streams := map[string]*flow{"tcp": startFlow(t, ns, "a", "tcp", netip.AddrPortFrom(flat, world.EchoPort)),
			"udp": startFlow(t, ns, "a", "udp", netip.AddrPortFrom(vlan, world.EchoPort))}
		witness := withinPod(t, a)
		restart(t, "controller")
		restart(t, "agent@"+nodes[1])
		restart(t, "ovn-controller@"+nodes[1])
		check()
		for _, stream := range streams {
			stream.wantAnswer(t, world.Soon)
		}
		wantShortSilences(t, "components started again", streams, witness, 5*time.Second)
	}
	late := world.Run(t, world.Pod(ns, "late", nodes[1], world.OnNetworks("flat, vlan70")))[0]
	world.FromPod(late).ReachesOn(t, "net1", flat)
	world.FromPod(late).ReachesOn(t, "net2", vlan)
	leaveNothing(t, append(pods, late)...)
}

// leaveNothing deletes pods of one namespace, and waits until nothing is left of them.
func leaveNothing(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	if furtherTraces(t, pods...) == "" {
		t.Fatal("the pods leave no trace: the search for leftovers finds nothing")
	}
	for _, pod := range pods {
		world.DeletePod(t, pod.Namespace, pod.Name)
	}
	world.Eventually(t, world.PodWithin, "nothing is left of the pods", func() (bool, string) {
		left := furtherTraces(t, pods...)
		return left == "", left
	})
}

// checkStatus looks at what the pod's users see of its interfaces.
func checkStatus(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	world.Eventually(t, world.Soon, "network-status names all interfaces", func() (bool, string) {
		now := world.WaitPod(t, pod.Namespace, pod.Name, "there", world.IsRunning)
		status := now.Annotations[contract.NetworkStatusKey]
		missing := slices.DeleteFunc([]string{"eth0", "net1", "net2", "net3", "net4", "net5", furtherAddress(t, pod, "flat/1").String()},
			func(word string) bool { return strings.Contains(status, `"`+word+`"`) })
		return len(missing) == 0, fmt.Sprintf("%q are missing in %s", missing, status)
	})
}

// furtherTraces is what there is of pods of one namespace, on any network: logical ports, OVS ports and links.
func furtherTraces(t *testing.T, pods ...*corev1.Pod) string {
	t.Helper()
	ns := pods[0].Namespace
	var left []string
	for _, name := range strings.Fields(nbctl(t, "--bare", "--columns=name", "find", "Logical_Switch_Port", "external_ids:pod=true")) {
		if strings.Contains(name, ns+"_") {
			left = append(left, "logical port "+name)
		}
	}
	for _, node := range nodes {
		for line := range strings.Lines(world.MustOnNode(t, node, "ovs-vsctl", "--bare", "--columns=external_ids,name",
			"list", "Interface")) {
			if strings.Contains(line, ns+"_") {
				left = append(left, node+" port "+line)
			}
		}
		for line := range strings.Lines(world.MustOnNode(t, node, "ip", "-o", "link", "show", "type", "veth")) {
			if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return strings.Contains(line, " "+string(pod.UID)+" ") }) {
				left = append(left, node+" link "+line)
			}
		}
	}
	return strings.TrimSpace(strings.Join(left, "\n"))
}

// TestNetworks_PodWaitsForNetwork: a pod that asks for a network that is not there says so in an Event, with the network's
// name, and starts when the network comes.
func TestNetworks_PodWaitsForNetwork(t *testing.T) {
	world.Test(t, world.Networks, world.Core)
	if withMultus() {
		t.Skip("Multus looks for NetworkAttachmentDefinitions itself, and its Events say what it does not find")
	}
	ns := world.Namespace(t)
	for name, networks := range map[string]string{"early": "flat", "foreign": "foreign"} {
		pod := world.Pod(ns, name, nodes[1])
		pod.Annotations = map[string]string{contract.NetworksKey: networks}
		world.Create(t, pod)
	}
	foreign := strings.Replace(networkOf(ns, "foreign", `"topology": "layer2"`), contract.PluginType, "macvlan", 1)
	apply(t, foreign)
	for name, want := range map[string]string{"early": ns + "/flat for net1", "foreign": ns + "/foreign for net1"} {
		world.Eventually(t, world.PodWithin, "an Event of pod "+name+" names the network", func() (bool, string) {
			out, err := kubectl(t, "", "-n", ns, "get", "events", "--field-selector=reason=FailedCreatePodSandBox,involvedObject.name="+name, "-o", "jsonpath={.items[*].message}")
			return err == nil && strings.Contains(out, want) && strings.Contains(out, "of type "+contract.PluginType), out
		})
	}
	apply(t, networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.202.0.0/24"`))
	world.Running(t, ns, "early")
}

// TestNetworks_DefinitionOfDefaultNetwork: a NetworkAttachmentDefinition without a topology is the default network, and no
// Event complains. A pod may have it as its default network, which Multus then makes by this definition, and further networks
// beside it. One that asks for it as a further network waits, and an Event says why.
func TestNetworks_DefinitionOfDefaultNetwork(t *testing.T) {
	world.Test(t, world.Networks)
	ns := world.Namespace(t)
	definition := func(name, fields string) string {
		return fmt.Sprintf("\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {namespace: %s, name: %s}\n"+
			"spec: {config: '{\"cniVersion\": \"1.0.0\", \"name\": \"by-definition\", \"type\": \"ovn-k8s-cni-overlay\"%s}'}\n---", ns, name, fields)
	}
	apply(t, definition("first", "")+definition("wrong", `, "topology": "layer2"`)+networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.214.0.0/24"`))
	object := world.Pod(ns, "by", nodes[1])
	object.Annotations = map[string]string{contract.DefaultNetworkKey: ns + "/first", contract.NetworksKey: "flat"}
	world.Create(t, object)
	asks := world.Pod(ns, "asks", nodes[1])
	asks.Annotations = map[string]string{contract.NetworksKey: "first"}
	world.Create(t, asks)
	plain := world.Run(t, world.Pod(ns, "plain", nodes[2], world.OnNetworks("flat")))[0]
	by := world.Running(t, ns, "by")
	for _, pair := range [][2]*corev1.Pod{{by, plain}, {plain, by}} {
		world.FromPod(pair[0]).ReachesOn(t, "eth0", world.Endpoints(pair[1])[0].Addr())
		world.FromPod(pair[0]).ReachesOn(t, "net1", furtherAddress(t, pair[1], "flat"))
	}
	world.MustInPod(t, by, "curl", "-sk", "-m", "30", "-o", "/dev/null", "https://kubernetes.default/version")
	if links := strings.Fields(world.MustInPod(t, by, "ls", "/sys/class/net")); !slices.Equal(links,
		[]string{"eth0", "lo", "net1"}) {
		t.Errorf("the pod has the interfaces %v", links)
	}
	configured := world.MustOnNode(t, nodes[1], "ovs-vsctl", "--bare", "--columns=external_ids", "find", "Interface",
		"external_ids:iface-id="+ns+"_by")
	if got := strings.Contains(configured, "by-definition"); got != withMultus() {
		t.Errorf("made by the definition: %t, in %s", got, configured)
	}
	wantEvent(t, ns, "NetworkNotFound", "asks", ns+"/first has no topology: it is the default network")
	staysPending(t, ns, "asks", "")
	wantEvent(t, ns, "InvalidConfig", "wrong", "netAttachDefName")
	if events, err := kubectl(t, "", "-n", ns, "get", "events", "--field-selector=involvedObject.name=first"); err != nil || strings.Contains(events, "Warning") {
		t.Errorf("Events of the definition: %s, %v", events, err)
	}
	leaveNothing(t, by, plain, world.WaitPod(t, ns, "asks", "there", func(*corev1.Pod) bool { return true }))
}
