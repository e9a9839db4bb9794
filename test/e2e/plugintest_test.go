//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPlugin_TestFindsWhatDoesNotWork: all cases are good in a network that works, and with a policy that the test does not
// know the cases fail that it concerns, and no other. What a killed test has left, --cleanup deletes. Dozens of timed cases load both
// cores: it runs alone.
func TestPlugin_TestFindsWhatDoesNotWork(t *testing.T) {
	world.Test(t, world.Tools, world.Alone)
	junit := filepath.Join(t.TempDir(), "result.xml")
	which := tier.Pick("--run=^(external|pod-pod)/", "--full") // the gate has the other cases in TestHelmTest_FindsBlockedPods
	out, code := kubectlOffload(t, append(askOutside(t, world.OutsidePort), which, "--junit", junit)...)
	t.Log(out)
	if code != 0 || !strings.Contains(out, " 0 failed") || strings.Count(out, " external/") != 4*len(sixes()) || !strings.Contains(out, " in software (port)") || !strings.Contains(out, " in software (output)") {
		t.Errorf("exit code %d", code)
	}
	if text, err := os.ReadFile(junit); err != nil || !strings.Contains(string(text), `failures="0"`) {
		t.Errorf("%v: %s", err, text)
	}
	testIsGone(t)

	wait, _ := startTest(t, "--run", "^pod-pod/client-to-pod-(same|other|denied)/tcp")
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "not-of-the-test"}}
	policy.Spec.PodSelector.MatchLabels = map[string]string{"ovn-offload.io/test-pod": "other"}
	if _, err := cluster.client.NetworkingV1().NetworkPolicies(conncheck.Namespace).Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	out, code = wait()
	if code != 1 || !strings.Contains(out, "failed: pod-pod/client-to-pod-other/tcp") || strings.Contains(out, "failed: pod-pod/client-to-pod-same") ||
		strings.Contains(out, "failed: pod-pod/client-to-pod-denied") {
		t.Errorf("exit code %d: %s", code, out)
	}
	testIsGone(t)

	if tier.IsFull() {
		testFindsPlaces(t)
		testAsksOutside(t)
	}

	wait, process := startTest(t)
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	wait()
	if out, code := kubectlOffload(t, "test"); code != 3 || !strings.Contains(out, "test --cleanup") {
		t.Errorf("beside what a killed test has left: exit code %d: %s", code, out)
	}
	if out, code := kubectlOffload(t, "test", "--cleanup"); code != 0 || !strings.Contains(out, "deleted namespace") {
		t.Errorf("exit code %d: %s", code, out)
	}
	testIsGone(t)
}

// testFindsPlaces: no packet is in hardware here, and a test that has to find hardware fails.
func testFindsPlaces(t *testing.T) {
	t.Helper()
	for expect, want := range map[string]int{"hardware": 1, "software": 0} {
		out, code := kubectlOffload(t, "test", "--run", "^pod-pod/client-to-pod-(same|other)/tcp", "--expect", expect)
		if wrong := strings.Contains(out, "failed: pod-pod/client-to-pod-other/tcp") && strings.Contains(out, "expected hardware"); code != want || wrong != (want == 1) {
			t.Errorf("--expect=%s: exit code %d: %s", expect, code, out)
		}
		testIsGone(t)
	}
}

// askOutside has a test ask the external host at a port.
func askOutside(t *testing.T, port uint16) []string {
	t.Helper()
	world.ServeOutside(t)
	args := []string{"test"}
	for _, addr := range world.NodeAddresses(t, outside) {
		args = append(args, "--external", netip.AddrPortFrom(addr, port).String())
	}
	return args
}

// testAsksOutside: a port outside at which no server is fails the cases but the control, which never gets there. That of the
// external host's server has been asked with the other cases.
func testAsksOutside(t *testing.T) {
	t.Helper()
	out, code := kubectlOffload(t, append(askOutside(t, world.OutsidePort+1), "--run", "^external/")...)
	failed := strings.Count(out, "failed: external/client-to-") + strings.Count(out, "failed: external/other-to-") + strings.Count(out, "failed: external/host-a-to-")
	if code != 1 || failed != 3*len(sixes()) || strings.Contains(out, "failed: external/caged") {
		t.Errorf("exit code %d: %s", code, out)
	}
	testIsGone(t)
}

func startTest(t *testing.T, args ...string) (wait func() (string, int), process *os.Process) {
	t.Helper()
	return startIn(t, conncheck.Namespace, append([]string{"test"}, args...)...)
}

// startIn begins a verb that makes a namespace, and waits for that.
func startIn(t *testing.T, namespace string, args ...string) (wait func() (string, int), process *os.Process) {
	t.Helper()
	path, err := plugin()
	if err != nil {
		t.Fatal(err)
	}
	_, config := cluster.Kubectl()
	var out bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "KUBECONFIG="+config), &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, world.Soon, "the namespace is there", func() (bool, string) {
		_, err := cluster.client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return func() (string, int) {
		killed := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
		defer killed.Stop()
		cmd.Wait()
		return out.String(), cmd.ProcessState.ExitCode()
	}, cmd.Process
}

func testIsGone(t *testing.T) {
	t.Helper()
	isGone(t, conncheck.Namespace)
}

func isGone(t *testing.T, namespace string) {
	t.Helper()
	if _, err := cluster.client.CoreV1().Namespaces().Get(context.Background(), namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("namespace %s is there: %v", namespace, err)
	}
}
