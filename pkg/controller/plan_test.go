package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestPlan_ThatMovesRunningPodsIsRefused: with another prefix length of nodes in
// net_cidr nothing is written, by one leader after the other, until a flag asks for it.
func TestPlan_ThatMovesRunningPodsIsRefused(t *testing.T) {
	w := newWorld(t, testNode("n0"), testNode("n1"), testPod("a", "n1"))
	w.eventually("a port for the pod", func() bool { return len(w.ports()) == 1 && w.annotation("a") != "" })
	subnets := func() string {
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node.Annotations[contract.NodeSubnetsKey]
	}
	former, pod := subnets(), w.annotation("a")
	w.stop()
	w.cluster = "10.244.0.0/16/23"
	for range 2 {
		w.start()
		select {
		case err := <-w.ended:
			if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "node n1 has subnet "+strings.Trim(former, `{"default:[]}`)) {
				t.Fatalf("the controller ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("the controller runs on; log:\n%s", w.logs)
		}
		w.stop()
	}
	if subnets() != former || w.annotation("a") != pod {
		t.Errorf("node %s, pod %s: were %s and %s", subnets(), w.annotation("a"), former, pod)
	}
	w.renumber = true
	w.startAndLead()
	w.eventually("another subnet and address", func() bool {
		return strings.Contains(subnets(), "/23") && strings.Contains(w.annotation("a"), "/23")
	})
}
