//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/nodecheck"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestPlugin_PreflightNamesWhatIsWrong: nodes that run are fit, with an uplink that is not there they are not, and nothing
// is left of either.
func TestPlugin_PreflightNamesWhatIsWrong(t *testing.T) {
	world.Test(t, world.Tools)
	for _, c := range []struct {
		args  []string
		unfit bool
	}{{nil, false}, {[]string{"--", "--gateway-interface=none0"}, true}} {
		world.Eventually(t, 3*time.Minute, fmt.Sprintf("with %q both nodes answer, and are unfit: %t", c.args, c.unfit),
			func() (bool, string) {
				out, code := kubectlOffload(t, append([]string{"preflight", "--nodes", nodes[1] + "," + nodes[2]}, c.args...)...)
				t.Logf("exit code %d: %s", code, out)
				if unfit := strings.Contains(out, "fail: uplink"); code <= int(says.Broken) && (c.unfit != (code == int(says.Broken)) || c.unfit != unfit) {
					t.Fatalf("with %q: exit code %d, want nodes that are unfit: %t", c.args, code, c.unfit)
				}
				return code <= int(says.Broken) && strings.Contains(out, nodes[1]) && strings.Contains(out, nodes[2]), out // 3: a node has not answered
			})
		if _, err := cluster.client.CoreV1().Namespaces().Get(t.Context(), nodecheck.Namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("namespace %s is there: %v", nodecheck.Namespace, err)
		}
	}
}

// TestPlugin_LintJoinsManifestAndCluster: a pod on a VF loses hardware by a service of the cluster, and not without it.
func TestPlugin_LintJoinsManifestAndCluster(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	world.Run(t, world.Pod(ns, "to", nodes[1]))
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(podOnVF), 0o600); err != nil {
		t.Fatal(err)
	}
	tracedService(t, ns, "to", nil)
	if out, code := kubectlOffload(t, "lint", "-f", file, "-n", ns); code != 0 {
		t.Errorf("without the service: exit code %d: %s", code, out)
	}
	world.Eventually(t, world.Soon, "with the service lint names it and its pod", func() (bool, string) {
		out, code := kubectlOffload(t, "lint", "-f", file, "-n", ns, "--all")
		return code == 1 && strings.Contains(out, "pod/"+ns+"/client") && strings.Contains(out, "svc/"+ns+"/") && strings.Contains(out, "pod/"+ns+"/to"), fmt.Sprintf("exit code %d: %s", code, out)
	})
}
