//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

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
			if out, err := run.patiently(t.Context(), block); err != nil {
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
		"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: i}], absent: 1}", "apiVersion: v1\nkind: Absent\nmetadata: {name: x}",
	} {
		if out, err := run.block(t.Context(), pages.Block{Text: text}); err == nil {
			t.Errorf("%q passes: %s", text, out)
		}
	}
}

// pageRunner runs blocks of pages in the shell of a user with kubectl, and validates objects by requests of its own: a process
// for each object would ask for all kinds of the API first.
type pageRunner struct {
	replace []replacement
	prelude string
	env     []string
	client  dynamic.Interface
	kinds   meta.RESTMapper
	ran     map[string]bool // commands that have passed: several pages have the same
}

// replacement is what a placeholder stands for.
type replacement struct {
	placeholder *regexp.Regexp
	value       string
}

// newPageRunner makes what placeholders stand for: a pod on each of two nodes, and a service.
func newPageRunner(t *testing.T) *pageRunner {
	t.Helper()
	ns := world.Namespace(t)
	one, two := world.Pod(ns, "one", nodes[1]), world.Pod(ns, "two", nodes[0])
	world.Run(t, one, two)
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
	r := &pageRunner{env: append(os.Environ(), "KUBECONFIG="+config, "PATH="+path), ran: map[string]bool{}}
	if r.client, err = dynamic.NewForConfig(cluster.config); err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(cluster.client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	r.kinds = restmapper.NewDiscoveryRESTMapper(groups)
	for variable, app := range map[string]string{"OVS": "ovs-node", "AGENT": "ovnkube-node"} { // as docs/commands.md sets them
		r.prelude += variable + "=pod/" + systemPod(t, app, nodes[1]) + "\n"
	}
	port := world.MustOnNode(t, nodes[1], "ovs-vsctl", "--bare", "--columns=ofport", "find", "Interface",
		"external_ids:iface-id="+ns+"_one")
	for _, of := range [][2]string{
		{"NAMESPACE_POD2", ns + "_two"}, {"NAMESPACE_POD", ns + "_one"}, {"NAMESPACE", ns},
		{"POD", "one"}, {"SERVICE", "web"}, {"NODE", nodes[1]}, {"ovn-worker", nodes[1]},
		{"namespace: shop", "namespace: " + ns}, // that of the examples' objects
		{"MAC2", mac(t, two)}, {"MAC", mac(t, one)}, {"ADDRESS2", two.Status.PodIP}, {"ADDRESS", one.Status.PodIP}, {"PORT", strings.TrimSpace(port)},
	} {
		r.replace = append(r.replace, replacement{regexp.MustCompile(`\b` + of[0] + `\b`), of[1]})
	}
	return r
}

// systemPod is the name of the network's pod of an app on a node.
func systemPod(t *testing.T, app, node string) string {
	t.Helper()
	list, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app, FieldSelector: "spec.nodeName=" + node})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("pods of %s on %s: %v, %v", app, node, list, err)
	}
	return list.Items[0].Name
}

func mac(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	m := regexp.MustCompile(`"mac_address":"([^"]+)"`).FindStringSubmatch(pod.Annotations[contract.PodNetworksKey])
	if m == nil {
		t.Fatalf("pod %s has no MAC: %s", pod.Name, pod.Annotations)
	}
	return m[1]
}

// patiently runs a block again while it fails: its commands read what other tests change.
func (r *pageRunner) patiently(ctx context.Context, b pages.Block) (out string, err error) {
	for deadline := time.Now().Add(world.Soon); ; time.Sleep(2 * time.Second) {
		if out, err = r.block(ctx, b); err == nil || time.Now().After(deadline) {
			return out, err
		}
	}
}

// block runs the commands of a block, or validates its objects. Other blocks pass.
func (r *pageRunner) block(ctx context.Context, b pages.Block) (string, error) {
	if b.Reason != "" || !b.IsObject() && !b.Runs() {
		return "", nil
	}
	text := b.Text
	for _, of := range r.replace {
		text = of.placeholder.ReplaceAllLiteralString(text, of.value)
	}
	if b.IsObject() {
		return text, r.validate(ctx, text)
	}
	if r.ran[text] {
		return "", nil
	}
	out, err := r.shell(r.prelude + text)
	r.ran[text] = err == nil
	return out, err
}

// validate has the API server apply objects strictly, without keeping them.
func (r *pageRunner) validate(ctx context.Context, text string) error {
	for part := range strings.SplitSeq(text, "\n---\n") {
		var object unstructured.Unstructured
		content, err := yaml.YAMLToJSONStrict([]byte(part))
		if err != nil {
			return err
		}
		if err := object.UnmarshalJSON(content); err != nil {
			return err
		}
		kind := object.GroupVersionKind()
		mapping, err := r.kinds.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		resource, force := dynamic.ResourceInterface(r.client.Resource(mapping.Resource)), true
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			resource = r.client.Resource(mapping.Resource).Namespace(cmp.Or(object.GetNamespace(), metav1.NamespaceDefault))
		}
		if _, err := resource.Patch(ctx, object.GetName(), types.ApplyPatchType, content, metav1.PatchOptions{
			DryRun: []string{metav1.DryRunAll}, FieldManager: "docs", FieldValidation: metav1.FieldValidationStrict, Force: &force,
		}); err != nil {
			return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
	return nil
}

// shell runs a script. Its longest commands wait for roll-outs, and take less than a minute.
func (r *pageRunner) shell(script string) (string, error) {
	cmd := exec.Command("timeout", "180", "bash", "-euo", "pipefail", "-c", script)
	cmd.Env, cmd.Dir, cmd.WaitDelay = r.env, cluster.root, time.Minute
	out, err := cmd.CombinedOutput()
	return string(out), err
}
