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
	label := func(ctx context.Context, value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, contract.DPUHostLabel, value)
		if _, err := cluster.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(want int) {
		t.Helper()
		eventually(t, 2*time.Minute, fmt.Sprintf("%s has %d of both", node, want), func() (bool, string) {
			list, err := cluster.client.CoreV1().Pods("ovn-kubernetes").List(t.Context(), metav1.ListOptions{
				LabelSelector: "app in (ovs-node, ovnkube-node)", FieldSelector: "spec.nodeName=" + node,
			})
			if err != nil {
				return false, err.Error()
			}
			var names []string
			for _, pod := range list.Items {
				if want == 0 || isReady(pod) {
					names = append(names, pod.Name)
				}
			}
			return len(names) == want, strings.Join(names, " ")
		})
	}
	// The manifests leave hosts with a DPU to those of another folder.
	label(t.Context(), `"yes"`)
	t.Cleanup(func() { label(context.Background(), "null") })
	ready(0)
	label(t.Context(), "null")
	ready(2)
	eventually(t, soon, "the node's pods talk again", func() (bool, string) {
		out, err := inPod(ns, from.Name, "probe", "dial", "tcp", target)
		return err == nil, out
	})
	probe := running(t, ns, "after", node)
	mustInPod(t, probe, "probe", "dial", "tcp", target)
}

func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
