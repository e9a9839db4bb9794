package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

func labelledNode(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Labels: labels}}
}

// TestOnceLabelled: nothing of a node changes before the label says so, except on a node that has been set up before.
func TestOnceLabelled(t *testing.T) {
	full := map[string]string{contract.SetUpLabel: ModeFull}
	for _, tt := range []struct {
		node   *corev1.Node
		before bool
		seen   bool
	}{
		{nil, true, false},
		{labelledNode(nil), false, false},
		{labelledNode(map[string]string{contract.SetUpLabel: ModeHost}), false, false},
		{labelledNode(full), false, true},
		{labelledNode(nil), true, true},
	} {
		if got := onceLabelled(tt.node, ModeFull, tt.before); (got != nil) != tt.seen {
			t.Errorf("%v, set up before %t: %v", tt.node, tt.before, got)
		}
	}
}

func TestRelease_RemovesOwnLabelsOnly(t *testing.T) {
	clientset := fake.NewClientset(labelledNode(map[string]string{
		contract.SetUpLabel: ModeFull, contract.PhysicalNetworkLabel + "lan": "true", contract.DPUHostLabel: "",
	}))
	client := apitest.Client(clientset)
	if err := release(t.Context(), client, "n1"); err != nil {
		t.Fatal(err)
	}
	node, err := client.Nodes.Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := node.Labels[contract.SetUpLabel]; ok || len(node.Labels) != 1 {
		t.Errorf("labels: %v", node.Labels)
	}
	clientset.ClearActions()
	for _, name := range []string{"n1", "absent"} {
		if err := release(t.Context(), client, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, action := range clientset.Actions() {
		if action.GetVerb() != "get" {
			t.Errorf("%s of a node without the label", action.GetVerb())
		}
	}
}
