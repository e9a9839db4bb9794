//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/testbed"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// secondaryPods are two pods on two networks, and one without.
const secondaryPods = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {namespace: default, name: flat}
spec: {config: '{"cniVersion": "1.0.0", "name": "flat", "type": "ovn-k8s-cni-overlay", "netAttachDefName": "default/flat", "topology": "layer2", "subnets": "10.71.0.0/24"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {namespace: default, name: routed}
spec: {config: '{"cniVersion": "1.0.0", "name": "routed", "type": "ovn-k8s-cni-overlay", "netAttachDefName": "default/routed", "topology": "layer3", "subnets": "10.72.0.0/16/24"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {namespace: default, name: primary}
spec: {config: '{"cniVersion": "1.0.0", "name": "primary", "type": "ovn-k8s-cni-overlay", "netAttachDefName": "default/primary", "topology": "layer2", "role": "primary", "subnets": "10.73.0.0/24"}'}
---
`

func secondaryPod(name, node, networks string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: %s, annotations: {k8s.v1.cni.cncf.io/networks: '%s'}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: "lab-tools:dev", imagePullPolicy: Never, command: [probe, serve, "8080"], securityContext: {capabilities: {add: [NET_RAW]}}}
---`, name, networks, node)
}

// TestSecondaryOnly_LeavesDefaultNetworkAlone: in a lab whose default network is a plain bridge, pods get two further networks
// between nodes. Addresses, routes, nftables and CNI configurations of the nodes stay as they were, with the chart and after
// its removal. A pod without the networks reaches no pod there. The userspace datapath, which the lab has, needs a bridge
// with the end of tunnels, on a cable between the nodes.
func TestSecondaryOnly_LeavesDefaultNetworkAlone(t *testing.T) {
	world.Test(t, world.Networks, world.Disruptive)
	tier.Full(t, "it brings up a lab of its own")
	onlyInLab(t, "it makes another one")
	m := migration{testbed.Lab{Root: cluster.root, Name: "secondary"}, nodes[:2]}
	t.Cleanup(func() {
		if *keep {
			return
		}
		if err := m.Command(t.Output(), "down"); err != nil {
			t.Error(err)
		}
		os.RemoveAll(m.Workdir())
	})
	if err := m.Command(t.Output(), "up", "--cni=bridge", "--multus", "--nodes=2", "--families=ipv4"); err != nil {
		t.Fatal(err)
	}
	if err := m.Load(filepath.Join(cluster.root, "_output/image/ovn-offload.tar")); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	m.cable(t, "enc0")
	for _, node := range m.nodes {
		m.onNode(t, node, "ip link set enc0 up")
		before[node] = m.hostState(t, node)
	}
	if out, err := m.installSecondary(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.kubectl(t, "-n", "ovn-kubernetes", "rollout", "status", "daemonset/ovs-node", "--timeout=3m")
	for i, node := range m.nodes {
		m.onNode(t, node, fmt.Sprintf("ovs-vsctl add-br br-enc -- set bridge br-enc datapath_type=netdev -- add-port br-enc enc0 && "+
			"ip addr add 10.74.0.%d/24 dev br-enc && ip link set br-enc up", i+1))
	}
	m.kubectl(t, "-n", "ovn-kubernetes", "rollout", "status", "deployment,daemonset", "--timeout=5m")
	m.apply(t, secondaryPods+secondaryPod("a", m.nodes[0], "flat, routed")+secondaryPod("b", m.nodes[1], "flat, routed")+secondaryPod("none", m.nodes[1], ""))
	m.kubectl(t, "wait", "--for=condition=Ready", "pod/a", "pod/b", "pod/none", "--timeout=2m")
	address := func(pod, link string) string {
		fields := strings.Fields(m.inSecondary(t, pod, "ip", "-4", "-o", "addr", "show", "dev", link))
		return strings.Split(fields[3], "/")[0]
	}
	for _, link := range []string{"net1", "net2"} {
		m.inSecondary(t, "a", "probe", "await", address("b", link)+":8080")
		m.inSecondary(t, "b", "probe", "await", address("a", link)+":8080")
		if out, err := m.try("", "kubectl", "exec", "none", "--", "ping", "-c2", "-W1", address("b", link)); err == nil {
			t.Errorf("a pod without the networks reaches %s of b: %s", link, out)
		}
	}
	m.inSecondary(t, "none", "probe", "await", address("b", "eth0")+":8080") // its control
	if eth0 := address("a", "eth0"); !strings.HasPrefix(eth0, "10.244.") {
		t.Errorf("eth0 of a has %s", eth0)
	}
	if routes := strings.TrimSpace(m.inSecondary(t, "a", "ip", "-4", "route", "show", "default")); strings.Count(routes, "default") != 1 || !strings.Contains(routes, "dev eth0") {
		t.Errorf("default routes of a: %q", routes)
	}
	events := m.kubectl(t, "get", "events", "--field-selector", "involvedObject.name=primary", "-o", "jsonpath={.items[*].message}")
	if !strings.Contains(events, "needs the default network") {
		t.Errorf("Events of a primary network: %q", events)
	}
	ports := m.onNode(t, m.nodes[0], `ovn-nbctl --bare --columns=name find Logical_Switch_Port 'type=""'`)
	if names := strings.Fields(ports); len(names) != 4 {
		t.Errorf("ports of pods: %v", names)
	}
	ours := regexp.MustCompile(`(?m)^.*\b(br-enc|br-int|ovs-netdev|genev_sys_6081|ovs-system|[0-9a-f]{15})\b.*\n`) // and the ends of pods' links
	for _, node := range m.nodes {
		if diff := cmp.Diff(before[node], ours.ReplaceAllString(m.hostState(t, node), "")); diff != "" {
			t.Errorf("%s with the chart (+) and before (-):\n%s", node, diff)
		}
	}
	m.kubectl(t, "delete", "pod/a", "pod/b", "network-attachment-definitions/flat", "network-attachment-definitions/routed", "network-attachment-definitions/primary")
	for _, node := range m.nodes {
		m.onNode(t, node, "ovs-vsctl del-br br-enc")
	}
	if out, err := m.try("", "helm", "uninstall", "ovn-offload", "--namespace=ovn-kubernetes", "--wait", "--timeout=5m"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, node := range m.nodes {
		if diff := cmp.Diff(before[node], m.hostState(t, node)); diff != "" {
			t.Errorf("%s after the removal (+) and before (-):\n%s", node, diff)
		}
	}
}

// cable connects the nodes by a pair of interfaces.
func (m migration) cable(t *testing.T, name string) {
	t.Helper()
	var at [2]string
	for i, node := range m.nodes {
		found, err := machine.Find(m.Name, node)
		if err != nil || found == nil {
			t.Fatalf("machine %s: %v", node, err)
		}
		at[i] = strconv.Itoa(found.PID)
	}
	if out, err := exec.Command("ip", "link", "add", name, "netns", at[0], "type", "veth", "peer", "name", name, "netns", at[1]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (m migration) installSecondary() (string, error) {
	address := "172.18.0.3"
	return m.try("", "helm", "upgrade", "--install", "ovn-offload", "deploy/chart", "--namespace=ovn-kubernetes", "--create-namespace", "--set=image.tag=dev",
		"--set=apiServer=https://"+address+":6443", "--set=databases.address="+address, "--set=nodes.datapath=netdev", "--set=nodes.encapIP=10.74.0.0/24",
		"--set=networks.secondaryOnly=true", "--set=network.podCIDRs={10.244.0.0/16/24}", "--set=network.serviceCIDRs={10.96.0.0/16}")
}

// onNode runs a script in the namespaces of a node.
func (m migration) onNode(t *testing.T, node, script string) string {
	t.Helper()
	var out strings.Builder
	if err := m.Run(&out, node, "sh", "-c", script); err != nil {
		t.Fatalf("%s on %s: %v: %s", script, node, err, out.String())
	}
	return out.String()
}

// hostState is what a network plugin may change on a node, without the ends of the bridge network's links, whether it has
// any, and the cable of the test.
func (m migration) hostState(t *testing.T, node string) string {
	t.Helper()
	return m.onNode(t, node, `ip -o addr show | grep -v 'veth\|enc0' | sed 's/^[0-9]*: //; s/valid_lft.*//'
ip route show table all | grep -v 'veth\|enc0' | sed 's/ linkdown//'
ip rule show; nft list ruleset; ls /etc/cni/net.d; ls /sys/class/net | grep -v veth`)
}

func (m migration) inSecondary(t *testing.T, pod string, command ...string) string {
	t.Helper()
	return m.kubectl(t, append([]string{"exec", pod, "--"}, command...)...)
}
