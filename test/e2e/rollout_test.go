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
)

// TestRestart_OVSAndAgentTogether: a node loses both, as in an update of both
// DaemonSets, and its kubelet still reaches the API server, without which neither
// would come back.
func TestRestart_OVSAndAgentTogether(t *testing.T) {
	ns := namespace(t)
	node := nodes[1]
	from, to := running(t, ns, "from", node), running(t, ns, "to", nodes[2])
	target := netip.AddrPortFrom(addresses(t, to)[0], echoPort).String()
	mustInPod(t, from, "probe", "dial", "tcp", target)
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
	eventually(t, 2*time.Minute, node+" has both again", func() (bool, string) {
		pods := nodePods(t, node)
		pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return former[pod.UID] || !isReady(pod) })
		return len(pods) == 2, fmt.Sprint(len(pods))
	})
	eventually(t, soon, "the node's pods talk again", func() (bool, string) {
		out, err := inPod(ns, from.Name, "probe", "dial", "tcp", target)
		return err == nil, out
	})
	probe := running(t, ns, "after", node)
	mustInPod(t, probe, "probe", "dial", "tcp", target)
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
	ns := namespace(t)
	changeRole(t, nodes[1], 2*time.Minute)
	probe, to := running(t, ns, "after", nodes[1]), running(t, ns, "to", nodes[2])
	mustInPod(t, probe, "probe", "dial", "tcp", netip.AddrPortFrom(addresses(t, to)[0], echoPort).String())
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
	if out := mustOnNode(t, node, "sh", "-c", leftovers); !strings.Contains(out, "ovn-k8s-mp0") { // the probe sees the network where it is
		t.Fatalf("%s has no network to remove: %s", node, out)
	}
	var pings strings.Builder
	done := make(chan error, 1)
	go func() {
		done <- cluster.Run(&pings, nodes[0], "ping", "-i", "0.5", "-W", "2", "-w", "1800", object.Status.Addresses[0].Address)
	}()
	begin := time.Now()
	label(t.Context(), `"yes"`)
	t.Cleanup(func() { label(context.Background(), "null") })
	eventually(t, within, node+" is cleaned", func() (bool, string) {
		var names []string
		for _, pod := range nodePods(t, node) {
			names = append(names, pod.Name)
		}
		return len(names) == 0, strings.Join(names, " ")
	})
	t.Logf("%s was cleaned after %s", node, time.Since(begin).Round(time.Second))
	if out := mustOnNode(t, node, "sh", "-c", leftovers); out != "" {
		t.Errorf("left on %s:\n%s", node, out)
	}
	if object, err = cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); err != nil || object.Labels[contract.SetUpLabel] != "" {
		t.Errorf("%s: labels %v, %v", node, object.Labels, err)
	}
	label(t.Context(), "null")
	eventually(t, within, node+" has its network again", func() (bool, string) {
		pods := slices.DeleteFunc(nodePods(t, node), func(pod corev1.Pod) bool { return !isReady(pod) })
		return len(pods) == 2, fmt.Sprint(len(pods))
	})
	mustOnNode(t, nodes[0], "pkill", "-INT", "-x", "ping")
	<-done
	lost := lossOf(t, pings.String())
	t.Logf("lost pings to %s: %d", node, lost)
	if lost > 6 {
		t.Errorf("%d pings lost, half a second each:\n%s", lost, pings.String())
	}
}

func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
