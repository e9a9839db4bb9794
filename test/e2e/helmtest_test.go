//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestHelmTest_FindsBlockedPods: helm test passes in a network that works, with an answer from a pod of each node. With a
// policy that isolates these pods it fails and names an address. The quick form of kubectl offload test passes, too, and fails
// with a policy that it does not know (in the gate TestPlugin_TestFindsWhatDoesNotWork alone shows that). Dozens of timed
// cases load both cores: it runs alone.
func TestHelmTest_FindsBlockedPods(t *testing.T) {
	world.Test(t, world.Tools, world.Alone)
	onlyInLab(t, "it needs the release of Helm")
	began := time.Now()
	out, err := helmTest()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("in %s: %s", time.Since(began).Round(time.Second), out)
	testIsGone(t)
	if got := strings.Count(out, "the pod with the address"); got != len(nodes)*len(sixes()) || !strings.Contains(out, "the network works") || !strings.Contains(out, " 0 failed") {
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
	policies.Delete(t.Context(), policy.Name, metav1.DeleteOptions{})
	if tier.IsFull() {
		helmTestFails(t)
	}
}

// helmTestFails isolates a pod of the quick form as soon as its namespace is there.
func helmTestFails(t *testing.T) {
	t.Helper()
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := helmTest()
		done <- result{out, err}
	}()
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "not-of-the-test"}}
	policy.Spec.PodSelector.MatchLabels = map[string]string{"ovn-offload.io/test-pod": "other"}
	world.Eventually(t, 4*world.Soon, "the namespace of the quick form takes a policy", func() (bool, string) {
		_, err := cluster.client.NetworkingV1().NetworkPolicies(conncheck.Namespace).Create(t.Context(), policy, metav1.CreateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	got := <-done
	if got.err == nil || !strings.Contains(got.out, "failed: pod-pod/client-to-pod-other/tcp") || strings.Contains(got.out, "failed: pod-pod/client-to-pod-same") {
		t.Errorf("with an isolated pod: %v: %s", got.err, got.out)
	}
	testIsGone(t)
}

func helmTest() (string, error) {
	_, config := theLab().Kubectl()
	cmd := exec.Command(filepath.Join(cluster.root, "_output/bin/helm"), "test", "ovn-offload", "--namespace="+system, "--logs", "--timeout=5m")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
