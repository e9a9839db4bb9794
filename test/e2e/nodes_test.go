//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// subnets is how many nodes the lab's pod network (a /16 in parts of /24) has room for.
const subnets = 256

// TestNode_WithoutSubnetGetsConditionAndEvent: nodes beyond the address plan get no subnet, but a condition and an Event
// with the reason. A pod of such a node waits, and no other pod is affected. When a node is deleted, one of these nodes
// gets its subnet without a restart.
func TestNode_WithoutSubnetGetsConditionAndEvent(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	tier.Full(t, "it makes 256 nodes; pkg/ipam has the same without a cluster")
	ns := world.Namespace(t)
	beyond := 3
	for i := range subnets - len(nodes) + beyond {
		createNode(t, fmt.Sprintf("paper-%d", i))
	}
	without := func() (names []string) {
		list, err := cluster.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "paper=yes"})
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range list.Items {
			if node.Annotations[contract.NodeSubnetsKey] == "" {
				names = append(names, node.Name)
			}
		}
		return names
	}
	world.Eventually(t, time.Minute, "all subnets are allocated", func() (bool, string) {
		names := without()
		return len(names) == beyond, strings.Join(names, " ")
	})
	poor := without()[0]
	world.Eventually(t, world.Soon, "a condition and an Event say so", func() (bool, string) {
		node, err := cluster.client.CoreV1().Nodes().Get(t.Context(), poor, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return unavailable(node) && eventFor(t, poor), fmt.Sprint(node.Status.Conditions)
	})
	world.Create(t, world.Pod(ns, "stuck", poor))
	world.Run(t, world.Pod(ns, "fine", nodes[1]))
	stuck, err := cluster.client.CoreV1().Pods(ns).Get(t.Context(), "stuck", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stuck.Annotations[contract.PodNetworksKey] != "" {
		t.Errorf("a pod of a node without a subnet has %s", stuck.Annotations[contract.PodNetworksKey])
	}
	rich := "paper-0"
	if poor == rich {
		rich = "paper-1"
	}
	if err := cluster.client.CoreV1().Nodes().Delete(t.Context(), rich, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, world.Soon, "the free subnet is given to one that waits", func() (bool, string) {
		names := without()
		return len(names) == beyond-1, strings.Join(names, " ")
	})
}

// createNode makes a Node without a machine, on which no DaemonSet of ours runs.
func createNode(t *testing.T, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"paper": "yes", "k8s.ovn.org/dpu-host": ""}}}
	node.Spec.Unschedulable = true
	if _, err := cluster.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

func unavailable(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			return c.Status == corev1.ConditionTrue && c.Reason == "SubnetsExhausted"
		}
	}
	return false
}

func eventFor(t *testing.T, node string) bool {
	t.Helper()
	events, err := cluster.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + node})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events.Items {
		if event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, "exhausted") {
			return true
		}
	}
	return false
}
