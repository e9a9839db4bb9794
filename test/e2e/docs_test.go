//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/pages"
)

// TestDocs_CommandsRun runs the commands of the pages for users, with their placeholders replaced by a node, pods and a
// service, and lets the API server validate the objects. Pages say which commands are not run, and why.
func TestDocs_CommandsRun(t *testing.T) {
	world.Test(t, world.Docs)
	run, ran := newPageRunner(t), 0
	paths, err := filepath.Glob(filepath.Join(cluster.root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	further, err := filepath.Glob(filepath.Join(cluster.root, "docs", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, further...) {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(cluster.root, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range pages.Blocks(string(page)) {
			if out, err := run.block(block); err != nil {
				t.Errorf("%s:%d: %v\n%s\n%s", name, block.Line, err, block.Text, out)
			}
			if block.Runs() {
				ran += len(block.Commands())
			}
		}
	}
	t.Logf("%d commands", ran)
	if ran < 40 {
		t.Errorf("only %d commands", ran)
	}
	for _, text := range []string{ // the control: commands and objects that do not work are found
		"kubectl get nodes NODE-absent", "kubectl -n ovn-kubernetes exec $OVS -c absent -- ovs-vsctl show",
		"kubectl get nodes -o absent", "apiVersion: ovn-offload.io/v1alpha1\nkind: OffloadPolicy\nmetadata: {name: x}\nspec: {numVFs: 1}",
	} {
		if out, err := run.block(pages.Block{Text: text}); err == nil {
			t.Errorf("%q passes: %s", text, out)
		}
	}
}

// pageRunner runs blocks of pages in the shell of a user with kubectl.
type pageRunner struct {
	replace []string // pairs: pattern, value
	prelude string
	env     []string
}

// newPageRunner makes what placeholders stand for: a pod on each of two nodes, and a service.
func newPageRunner(t *testing.T) *pageRunner {
	t.Helper()
	ns := namespace(t)
	one, two := running(t, ns, "one", nodes[1]), running(t, ns, "two", nodes[0])
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	if _, err := cluster.client.CoreV1().Services(ns).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	program, config := cluster.Kubectl()
	binary, err := plugin()
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{filepath.Dir(program), filepath.Dir(binary), os.Getenv("PATH")}, ":")
	r := &pageRunner{
		env: append(os.Environ(), "KUBECONFIG="+config, "PATH="+path),
		replace: []string{
			`\bNAMESPACE_POD2\b`, ns + "_two", `\bNAMESPACE_POD\b`, ns + "_one", `\bNAMESPACE\b`, ns,
			`\bPOD\b`, "one", `\bSERVICE\b`, "web", `\bNODE\b`, nodes[1], `\bovn-worker\b`, nodes[1],
			`\bnamespace: shop\b`, "namespace: " + ns, // that of the examples' objects
			`\bMAC2\b`, mac(t, two), `\bMAC\b`, mac(t, one), `\bADDRESS2\b`, two.Status.PodIP, `\bADDRESS\b`, one.Status.PodIP,
		},
	}
	for variable, app := range map[string]string{"OVS": "ovs-node", "AGENT": "ovnkube-node"} { // as docs/commands.md sets them
		name, err := r.shell("kubectl -n ovn-kubernetes get pods -l app=" + app + " --field-selector spec.nodeName=" + nodes[1] + " -o name")
		if err != nil {
			t.Fatalf("%v: %s", err, name)
		}
		r.prelude += variable + "=" + strings.TrimSpace(name) + "\n"
	}
	port, err := r.shell(r.prelude + "kubectl -n ovn-kubernetes exec $OVS -c ovs-daemons -- ovs-vsctl --bare --columns=ofport find Interface external_ids:iface-id=" + ns + "_one")
	if err != nil {
		t.Fatalf("%v: %s", err, port)
	}
	r.replace = append(r.replace, `\bPORT\b`, strings.TrimSpace(port))
	return r
}

func mac(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	m := regexp.MustCompile(`"mac_address":"([^"]+)"`).FindStringSubmatch(pod.Annotations[contract.PodNetworksKey])
	if m == nil {
		t.Fatalf("pod %s has no MAC: %s", pod.Name, pod.Annotations)
	}
	return m[1]
}

// block runs the commands of a block, or validates its object. Other blocks pass.
func (r *pageRunner) block(b pages.Block) (string, error) {
	text := b.Text
	switch {
	case b.Reason != "":
		return "", nil
	case b.IsObject():
		text = "kubectl apply --dry-run=server --validate=strict -f - <<'END'\n" + text + "\nEND"
	case !b.Runs():
		return "", nil
	}
	for i := 0; i < len(r.replace); i += 2 {
		text = regexp.MustCompile(r.replace[i]).ReplaceAllLiteralString(text, r.replace[i+1])
	}
	return r.shell(r.prelude + text)
}

func (r *pageRunner) shell(script string) (string, error) {
	cmd := exec.Command("timeout", "60", "bash", "-euo", "pipefail", "-c", script)
	cmd.Env, cmd.Dir, cmd.WaitDelay = r.env, cluster.root, time.Minute
	out, err := cmd.CombinedOutput()
	return string(out), err
}
