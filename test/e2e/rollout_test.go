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

// TestRestart_OVSAndAgentTogether: a node loses both, as in an update of both
// DaemonSets, and its kubelet still reaches the API server, without which neither
// would come back.
func TestRestart_OVSAndAgentTogether(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive)
	ns := world.Namespace(t)
	node := nodes[1]
	pods := world.Run(t, world.Pod(ns, "from", node), world.Pod(ns, "to", nodes[2]))
	from, target := pods[0], world.Endpoints(pods[1])[0].String()
	world.MustInPod(t, from, "probe", "dial", "tcp", target)
	former := map[types.UID]bool{}
	for _, pod := range nodePods(t, node) {
		former[pod.UID] = true
		if err := cluster.client.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(former) != 2 {
		t.Fatalf("%d pods of OVS and the agent", len(former))
	}
	world.Eventually(t, 2*time.Minute, node+" has both again", func() (bool, string) {
		pods := nodePods(t, node)
		pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return former[pod.UID] || !isReady(pod) })
		return len(pods) == 2, fmt.Sprint(len(pods))
	})
	world.Eventually(t, world.PodWithin, "the node's pods talk again", func() (bool, string) {
		out, err := world.InPod(ns, from.Name, "probe", "dial", "tcp", target)
		return err == nil, out
	})
	probe := world.Run(t, world.Pod(ns, "after", node))[0]
	world.MustInPod(t, probe, "probe", "dial", "tcp", target)
}

// TestNode_StaysReadyWithoutItsAgentForAWhile: the kubelet asks for STATUS every 5 s and reports every 10 s, so the test lasts
// long enough for it to report the node NotReady. It does once the plugin does not know that the agent was ready.
func TestNode_StaysReadyWithoutItsAgentForAWhile(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	const socket, aside = "/run/ovn-kubernetes/cni/ovn-cni-server.sock", "/run/ovn-kubernetes/cni/aside"
	node := nodes[1]
	ready := func() (corev1.ConditionStatus, bool, string) {
		object, err := cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(object.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		c := object.Status.Conditions[i]
		return c.Status, c.Status == corev1.ConditionTrue && len(object.Spec.Taints) == 0, fmt.Sprint(c, object.Spec.Taints)
	}
	becomes := func(want bool) {
		t.Helper()
		world.Eventually(t, world.PodWithin, fmt.Sprintf("ready: %t", want), func() (bool, string) {
			_, is, text := ready()
			return is == want, text
		})
	}
	becomes(true)
	world.MustOnNode(t, node, "mv", socket, aside)
	// Only the kubelet says False: when it is late on a busy machine the status is Unknown.
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		if status, _, text := ready(); status == corev1.ConditionFalse {
			t.Errorf("without an agent: %s", text)
			break
		}
	}
	world.MustOnNode(t, node, "rm", socket+".ready")
	becomes(false)
	world.MustOnNode(t, node, "mv", aside, socket)
	becomes(true)
}

// nodePods are those of OVS, the agent and the clean-up on a node.
func nodePods(t *testing.T, node string) []corev1.Pod {
	t.Helper()
	list, err := cluster.client.CoreV1().Pods("ovn-kubernetes").List(t.Context(), metav1.ListOptions{
		LabelSelector: "app in (ovs-node, ovnkube-node, ovn-offload-leave)", FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestRole_NodeIsCleanedBeforeOVSEnds: a running node becomes the host of a DPU, and an ordinary node again.
func TestRole_NodeIsCleanedBeforeOVSEnds(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	ns := world.Namespace(t)
	changeRole(t, nodes[1], 2*time.Minute)
	probe, to := world.Pod(ns, "after", nodes[1]), world.Pod(ns, "to", nodes[2])
	world.Run(t, probe, to)
	world.MustInPod(t, probe, "probe", "dial", "tcp", netip.AddrPortFrom(world.Addresses(to)[0], world.EchoPort).String())
}

// changeRole labels a running node as the host of a DPU. The node keeps its address all the time, and nothing of the
// network is left there. Without the label the node gets its network again.
func changeRole(t *testing.T, node string, within time.Duration) {
	t.Helper()
	label := func(ctx context.Context, value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, contract.DPUHostLabel, value)
		if _, err := cluster.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	object, err := cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil || object.Labels[contract.SetUpLabel] != "full" {
		t.Fatalf("%s: labels %v, %v", node, object.Labels, err)
	}
	if out := world.MustOnNode(t, node, "sh", "-c", leftovers); !strings.Contains(out,
		"ovn-k8s-mp0") { // the probe sees the network where it is
		t.Fatalf("%s has no network to remove: %s", node, out)
	}
	lost := pinged(t, object.Status.Addresses[0].Address)
	begin := time.Now()
	label(t.Context(), `"yes"`)
	t.Cleanup(func() { label(context.Background(), "null") })
	world.Eventually(t, within, node+" is cleaned", func() (bool, string) {
		var names []string
		for _, pod := range nodePods(t, node) {
			names = append(names, pod.Name)
		}
		return len(names) == 0, strings.Join(names, " ")
	})
	t.Logf("%s was cleaned after %s", node, time.Since(begin).Round(time.Second))
	if out := world.MustOnNode(t, node, "sh", "-c", leftovers); out != "" {
		t.Errorf("left on %s:\n%s", node, out)
	}
	if object, err = cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); err != nil || object.Labels[contract.SetUpLabel] != "" {
		t.Errorf("%s: labels %v, %v", node, object.Labels, err)
	}
	label(t.Context(), "null")
	world.Eventually(t, within, node+" has its network again", func() (bool, string) {
		pods := slices.DeleteFunc(nodePods(t, node), func(pod corev1.Pod) bool { return !isReady(pod) })
		return len(pods) == 2, fmt.Sprint(len(pods))
	})
	lost(t)
}

func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
