//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHelmTest_FindsBlockedPods: helm test passes in a network that works, with an answer from a pod of each node. With a
// policy that isolates these pods it fails and names an address.
func TestHelmTest_FindsBlockedPods(t *testing.T) {
	t.Parallel()
	onlyInLab(t, "it needs the release of Helm")
	out, err := helmTest()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Count(out, "the pod with the address"); got != len(nodes)*len(sixes()) || !strings.Contains(out, "the network works") {
		t.Errorf("%d addresses answered, want one of each of %d nodes and %d families: %s", got, len(nodes), len(sixes()), out)
	}
	policies := cluster.client.NetworkingV1().NetworkPolicies(system)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "isolates-test"}}
	policy.Spec.PodSelector.MatchLabels = map[string]string{"app": "ovn-offload-test-target"}
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { policies.Delete(context.Background(), policy.Name, metav1.DeleteOptions{}) })
	if out, err := helmTest(); err == nil || !strings.Contains(out, "no answer from the pod with the address") {
		t.Errorf("with isolated pods: %v: %s", err, out)
	}
}

func helmTest() (string, error) {
	_, config := theLab().Kubectl()
	cmd := exec.Command(filepath.Join(cluster.root, "_output/bin/helm"), "test", "ovn-offload", "--namespace="+system, "--logs", "--timeout=5m")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
