//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPodNetwork_GrowsWhileTheClusterRuns: a node joins a pod network that is full, and waits. With a further network in
// the chart's values, the node gets a subnet of this network, and its pods reach all others and the external host. Pods
// and nodes of before keep their addresses, and their connections go on. A network with pods cannot be removed.
func TestPodNetwork_GrowsWhileTheClusterRuns(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	tier.Full(t, "it makes 256 nodes")
	onlyInLab(t, "it joins a node again")
	ns, joining := world.Namespace(t), nodes[2]
	from, to := world.Pod(ns, "from", nodes[0]), world.Pod(ns, "to", nodes[1])
	world.Run(t, from, to)
	target := netip.AddrPortFrom(world.Addresses(to)[0], world.EchoPort)
	former := podNetworks(t)
	fillPodNetworks(t, former)
	rejoin(t, joining)
	world.Eventually(t, time.Minute, "the node that joins has a condition", func() (bool, string) {
		node, err := cluster.client.CoreV1().Nodes().Get(t.Context(), joining, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return unavailable(node), fmt.Sprint(node.Annotations, node.Status.Conditions)
	})
	world.Create(t, world.Pod(ns, "waits", joining))
	subnets := nodeSubnets(t, nodes[:2])
	flows := map[string]*flow{"tcp": startFlow(t, ns, from.Name, "tcp", target), "udp": startFlow(t, ns, from.Name, "udp", target)}
	witness := withinPod(t, from)

	further := furtherNetworks(former)
	t.Cleanup(func() { givePodNetworks(t, nil) })
	t.Cleanup(func() { // the plan of before has no place for these
		background := metav1.DeleteOptions{}
		cluster.client.CoreV1().Pods(ns).Delete(context.Background(), "waits", background)
		waitGone(t, ns, "waits")
	})
	givePodNetworks(t, slices.Concat(former, further))
	pod := world.Running(t, ns, "waits")
	for i, addr := range world.Addresses(pod) {
		if network := netip.MustParsePrefix(further[i][:strings.LastIndex(further[i], "/")]); !network.Contains(addr) {
			t.Errorf("the pod has %s, not of %s", addr, network)
		}
	}
	if now := nodeSubnets(t, nodes[:2]); !slices.Equal(now, subnets) {
		t.Errorf("the other nodes have %v, had %v", now, subnets)
	}
	for _, other := range []*corev1.Pod{from, to} {
		unchangedPod(t, other)
		for _, addr := range world.Addresses(other) {
			world.MustInPod(t, pod, "probe", "dial", "tcp", netip.AddrPortFrom(addr, world.EchoPort).String())
		}
		for _, addr := range world.Addresses(pod) {
			world.MustInPod(t, other, "probe", "dial", "tcp", netip.AddrPortFrom(addr, world.EchoPort).String())
		}
	}
	world.ServeOutside(t)
	for _, at := range world.NodeAddresses(t, outside) {
		if seen, err := seenAs(pod, "tcp", at); err != nil || seen != world.OfFamily(world.NodeAddresses(t, joining), at) {
			t.Errorf("the external host sees the pod as %s, %v", seen, err)
		}
	}

	givePodNetworks(t, former)
	world.Eventually(t, 2*time.Minute, "the controller refuses a plan without the pod's network", func() (bool, string) {
		out, _ := kubectl(t, "", "logs", "-n", system, "-l", "app=ovnkube-master", "-c", "ovn-offload-controller", "--tail=30")
		return strings.Contains(out, "node "+joining+" has subnet ") && strings.Contains(out, "has no such subnet"), out
	})
	world.MustInPod(t, from, "probe", "dial", "tcp", netip.AddrPortFrom(world.Addresses(pod)[0], world.EchoPort).String())
	for _, f := range flows {
		f.wantAnswer(t, world.Soon)
	}
	wantShortSilences(t, "the pod network grew", flows, witness, 5*time.Second)
}

// podNetworks are the cluster's, as the chart takes them.
func podNetworks(t *testing.T) []string {
	t.Helper()
	config, err := cluster.client.CoreV1().ConfigMaps(system).Get(t.Context(), "ovn-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(config.Data["net_cidr"], ",")
}

// furtherNetworks has a network of each family behind the given one's.
func furtherNetworks(former []string) []string {
	var further []string
	for _, network := range former {
		if netip.MustParsePrefix(network[:strings.LastIndex(network, "/")]).Addr().Is4() {
			further = append(further, "10.250.0.0/22/24")
		} else {
			further = append(further, "fd00:10:250::/62/64")
		}
	}
	return further
}

// givePodNetworks upgrades the chart; without networks it has the lab's own again.
func givePodNetworks(t *testing.T, networks []string) {
	t.Helper()
	args := []string{"upgrade", "ovn-offload", filepath.Join(cluster.root, "deploy/chart"), "--namespace=" + system,
		"--force-conflicts", "--values=" + filepath.Join(theLab().Workdir(), "values.yaml")}
	if networks != nil {
		encoded, err := json.Marshal(networks)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "--set-json=network.podCIDRs="+string(encoded))
	}
	helm(t, args...)
}

// fillPodNetworks makes Nodes without machines, of which one waits for a subnet.
func fillPodNetworks(t *testing.T, networks []string) {
	t.Helper()
	parsed, err := ipam.ParseClusterSubnets(strings.Join(networks, ","))
	if err != nil {
		t.Fatal(err)
	}
	there, err := cluster.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	room := 1 << 16
	for _, subnet := range parsed {
		room = min(room, 1<<(subnet.NodeBits-subnet.Bits()))
	}
	for i := range room - len(there.Items) + 1 {
		createNode(t, fmt.Sprintf("paper-%d", i))
	}
	world.Eventually(t, 2*time.Minute, "all subnets but one Node's are allocated", func() (bool, string) {
		list, err := cluster.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var without []string
		for _, node := range list.Items {
			if node.Annotations[contract.NodeSubnetsKey] == "" {
				without = append(without, node.Name)
			}
		}
		return len(without) == 1, strings.Join(without, " ")
	})
}

// rejoin deletes a Node, without its pods of the pod network, and has its kubelet make it again.
func rejoin(t *testing.T, node string) {
	t.Helper()
	const cordoned = `{"spec":{"unschedulable":true}}`
	if _, err := cluster.client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(cordoned), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pods, err := cluster.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if !pod.Spec.HostNetwork {
			world.DeletePod(t, pod.Namespace, pod.Name)
			waitGone(t, pod.Namespace, pod.Name)
		}
	}
	if err := cluster.client.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, world.Soon, "the Node that waited has the subnet", func() (bool, string) {
		_, err := cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		list, _ := cluster.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		for _, node := range list.Items {
			if node.Annotations[contract.NodeSubnetsKey] == "" {
				return false, node.Name
			}
		}
		return err != nil, fmt.Sprint(err)
	})
	restart(t, "kubelet@"+node)
	world.Eventually(t, time.Minute, "the Node is there again", func() (bool, string) {
		_, err := cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

func waitGone(t *testing.T, ns, name string) {
	t.Helper()
	world.Eventually(t, world.PodWithin, "pod "+ns+"/"+name+" is gone", func() (bool, string) {
		pod, err := cluster.client.CoreV1().Pods(ns).Get(context.Background(), name, metav1.GetOptions{})
		return err != nil, fmt.Sprint(pod.Status)
	})
}

func nodeSubnets(t *testing.T, names []string) (subnets []string) {
	t.Helper()
	for _, name := range names {
		node, err := cluster.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		subnets = append(subnets, node.Annotations[contract.NodeSubnetsKey])
	}
	return subnets
}

// unchangedPod holds a pod to the addresses and the containers that it had.
func unchangedPod(t *testing.T, before *corev1.Pod) {
	t.Helper()
	now, err := cluster.client.CoreV1().Pods(before.Namespace).Get(t.Context(), before.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(now.Status.PodIPs, before.Status.PodIPs) || now.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("pod %s is another one: %v, was %v", now.Name, now.Status, before.Status)
	}
}
