//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// lan is a physical network beside the nodes' own: a switch on the machine `outside`, and a NIC of each node. On the
// first node an access port leads to a host, the namespace with the name of the NIC. Its switch is Open vSwitch, because
// the kernel of the lab may have no VLANs.
type lan struct{ nic string }

// newLAN makes a lan, whose host has an address on a VLAN.
func newLAN(t *testing.T, nic string, vlan int, host string) lan {
	t.Helper()
	onlyInLab(t, "it gives nodes NICs")
	world.MustOnNode(t, outside, "sh", "-c", fmt.Sprintf("ip link add %[1]s type bridge && ip link set %[1]s up", nic))
	t.Cleanup(func() { world.OnNode(outside, "ip", "link", "del", nic) })
	for i, node := range nodes {
		port := fmt.Sprintf("%s-%d", nic, i)
		out, err := exec.Command("ip", "link", "add", port, "netns", processOf(t, outside), "type", "veth", "peer", "name", nic, "netns", processOf(t, node)).CombinedOutput()
		if err != nil {
			t.Fatalf("giving %s a NIC: %v: %s", node, err, out)
		}
		t.Cleanup(func() { world.OnNode(node, "ip", "link", "del", nic) })
		world.MustOnNode(t, outside, "ip", "link", "set", port, "master", nic, "up")
		world.MustOnNode(t, node, "ip", "link", "set", nic, "up")
	}
	l := lan{nic}
	pid := strings.TrimSpace(world.MustOnNode(t, nodes[0], "sh", "-c", fmt.Sprintf(`set -e
ip netns add %[1]s; ip link add %[1]s-host type veth peer name eth0 netns %[1]s; ip link set %[1]s-host up
ip -n %[1]s addr add %[2]s dev eth0; ip -n %[1]s link set eth0 up; ip -n %[1]s link set lo up
ovs-vsctl add-br access-%[1]s -- set Bridge access-%[1]s datapath_type=$(ovs-vsctl get Bridge br-int datapath_type) \
 -- add-port access-%[1]s %[1]s -- add-port access-%[1]s %[1]s-host tag=%[3]d
ip netns exec %[1]s probe serve %[4]d host </dev/null >/dev/null 2>&1 & echo $!`, nic, host, vlan, world.EchoPort)))
	t.Cleanup(func() {
		world.OnNode(nodes[0], "sh", "-c", fmt.Sprintf("kill %[2]s; ovs-vsctl del-br access-%[1]s; ip link del %[1]s-host; ip netns del %[1]s", nic, pid))
	})
	return l
}

// processOf is the number of a machine's first process on the host.
func processOf(t *testing.T, name string) string {
	t.Helper()
	m, err := machine.Find(*labName, name)
	if err != nil || m == nil {
		t.Fatalf("machine %s: %v", name, err)
	}
	return strconv.Itoa(m.PID)
}

// physicalNetwork connects nodes, and lets a namespace use VLANs.
func (l lan) physicalNetwork(t *testing.T, name, ns, vlans string, some ...string) {
	t.Helper()
	apply(t, fmt.Sprintf(`
apiVersion: ovn-offload.io/v1alpha1
kind: PhysicalNetwork
metadata: {name: %s}
spec:
  bridges: [{interface: %s, nodeSelector: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}}]
  namespaces: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, vlans: [%q]}]
`, name, l.nic, strings.Join(some, ", "), ns, vlans))
	t.Cleanup(func() { _, _ = kubectl(t, "", "delete", "--ignore-not-found", "physicalnetwork", name) })
}

// TestPhysicalNetwork_PodsArePlacedWhereItIs: pods that would rather be on the first worker are placed on the second one,
// which alone has the physical network, whatever form their annotations have. Without a network they are where they like to
// be, and without a node that has it they wait.
func TestPhysicalNetwork_PodsArePlacedWhereItIs(t *testing.T) {
	world.Test(t, world.Networks)
	ns := world.Namespace(t)
	name := "lan-" + ns[len(ns)-5:]
	l := newLAN(t, "lan2", 90, "10.92.0.200/24")
	l.physicalNetwork(t, name, ns, "0-90", nodes[2])
	key := contract.PhysicalNetworkLabel + name
	labelled := func(want string) {
		t.Helper()
		world.Eventually(t, world.Soon, "nodes with the label: "+want, func() (bool, string) {
			out, err := kubectl(t, "", "get", "nodes", "-l", key+"=true", "-o", "jsonpath={.items[*].metadata.name}")
			return err == nil && out == want, out
		})
	}
	labelled(nodes[2])
	localnet := `"topology": "localnet", "physicalNetworkName": "` + name + `", "subnets": "10.92.0.0/24", "excludeSubnets": "10.92.0.192/26", "vlanID": 90`
	apply(t, networkOf(ns, "lan.90", localnet)+networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.93.0.0/24"`)+
		networkOf(ns, "nowhere", `"topology": "localnet"`))
	place := func(pod, annotation, networks string) {
		t.Helper()
		object := world.Pod(ns, pod, "")
		object.Annotations = map[string]string{annotation: networks}
		object.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: "In", Values: []string{nodes[1]}}}},
		}}}}
		object.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"}
		if pod == "plain" {
			object.Spec.NodeSelector = nil
		}
		world.Create(t, object)
	}
	const nodus = "k8s.plugin.opnfv.org/nfn-network"
	placed := map[string]struct{ annotation, networks, node string }{
		"plain":   {contract.NetworksKey, "lan.90", nodes[2]},
		"list":    {contract.NetworksKey, "flat, " + ns + "/lan.90@lan0", nodes[2]},
		"json":    {contract.NetworksKey, `[{"name": "flat", "cni-args": {"a": "b"}}, {"namespace": "` + ns + `", "name": "lan.90"}]`, nodes[2]},
		"nodus":   {nodus, `{"type": "ovn4nfv", "interface": [{"Name": "lan.90", "interface": "net0"}]}`, nodes[2]},
		"flat":    {contract.NetworksKey, "flat", nodes[1]},
		"similar": {contract.NetworksKey, `[{"name": "flat", "interface": "lan.90"}]`, nodes[1]},
		"none":    {"other", "lan.90", nodes[1]},
	}
	for pod, on := range placed {
		place(pod, on.annotation, on.networks)
	}
	for pod, on := range placed {
		if got := world.WaitPod(t, ns, pod, "Running", world.IsRunning); got.Spec.NodeName != on.node {
			t.Errorf("pod %s is on %s, want %s; it selects %v", pod, got.Spec.NodeName, on.node, got.Spec.NodeSelector)
		}
	}
	place("both", contract.NetworksKey, "lan.90, nowhere")
	both := world.WaitPod(t, ns, "both", "there", func(*corev1.Pod) bool { return true })
	if got := both.Spec.NodeSelector; len(got) != 3 || got[key] != "true" || got[contract.PhysicalNetworkLabel+ns+".nowhere"] != "true" {
		t.Errorf("the pod on two physical networks selects %v", got)
	}
	wantEvent(t, ns, "FailedScheduling", "both", "didn't match Pod's node affinity/selector")
	kubectlDelete(t, ns, "physicalnetwork", name)
	labelled("")
	place("late", contract.NetworksKey, "lan.90")
	wantEvent(t, ns, "FailedScheduling", "late", "didn't match Pod's node affinity/selector")
	l.physicalNetwork(t, name, ns, "0-90", nodes[2])
	world.WaitPod(t, ns, "late", "Running", world.IsRunning)
}
