//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		out, code := kubectlOffload(t, append([]string{"preflight", "--nodes", nodes[1] + "," + nodes[2]}, c.args...)...)
		t.Log(out)
		if c.unfit != (code == 2) || code > 2 || c.unfit != strings.Contains(out, "fail: uplink") || !strings.Contains(out, nodes[1]) || !strings.Contains(out, nodes[2]) {
			t.Errorf("%v: exit code %d", c.args, code)
		}
		if _, err := cluster.client.CoreV1().Namespaces().Get(t.Context(), nodecheck.Namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("namespace %s is there: %v", nodecheck.Namespace, err)
		}
	}
	if out, code := kubectlOffload(t, "preflight", "--nodes", "none"); code != 64 {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestPlugin_LintJoinsManifestAndCluster: a pod on a VF loses hardware by a service of the cluster, and not without it.
func TestPlugin_LintJoinsManifestAndCluster(t *testing.T) {
	world.Test(t, world.Tools)
	ns := namespace(t)
	running(t, ns, "to", nodes[1])
	file := filepath.Join(t.TempDir(), "pod.yaml")
	manifest := "kind: Pod\napiVersion: v1\nmetadata: {name: client}\nspec: {containers: [{name: c, resources: {limits: {ovn-offload.io/vf: 1}}}]}\n"
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	tracedService(t, ns, "to", nil)
	if out, code := kubectlOffload(t, "lint", "-f", file, "-n", ns); code != 0 {
		t.Errorf("without the service: exit code %d: %s", code, out)
	}
	out, code := kubectlOffload(t, "lint", "-f", file, "-n", ns, "--all")
	if code != 1 || !strings.Contains(out, "pod/"+ns+"/client") || !strings.Contains(out, "svc/"+ns+"/") || !strings.Contains(out, "pod/"+ns+"/to") {
		t.Errorf("with the service: exit code %d: %s", code, out)
	}
	if out, code := kubectlOffload(t, "lint"); code != 64 {
		t.Errorf("exit code %d: %s", code, out)
	}
}
