package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"
)

const (
	apiWithin   = 2 * time.Minute
	nodesWithin = 5 * time.Minute
	systemSpace = "ovn-kubernetes"
)

// control waits for the API server and for the nodes to appear, and marks the control plane's.
func (l *Lab) control(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience(apiWithin))
	defer cancel()
	client, err := l.Client()
	if err != nil {
		return err
	}
	if err := l.apiReady(ctx, client); err != nil {
		return err
	}
	if err := l.untilNodes(ctx, client, func(*corev1.Node) bool { return true }); err != nil {
		return fmt.Errorf("waiting for the nodes to appear: %w", err)
	}
	const label = `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`
	_, err = client.CoreV1().Nodes().Patch(ctx, l.cfg.NodeNames()[0], types.MergePatchType, []byte(label), metav1.PatchOptions{})
	return err
}

func (l *Lab) apiReady(ctx context.Context, client kubernetes.Interface) error {
	for {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server: %w; see %s", err, l.spec(l.cfg.NodeNames()[0]).Logs())
		case <-time.After(50 * time.Millisecond): // an API server that is not there sends no events
		}
	}
}

// untilNodes watches until ok holds for every node.
func (l *Lab) untilNodes(ctx context.Context, client kubernetes.Interface, ok func(*corev1.Node) bool) error {
	good := map[string]bool{}
	nodes := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", "", fields.Everything())
	_, err := watchtools.UntilWithSync(ctx, nodes, &corev1.Node{}, nil, func(event watch.Event) (bool, error) {
		node, isNode := event.Object.(*corev1.Node)
		if !isNode {
			return false, nil
		}
		good[node.Name] = ok(node)
		for _, name := range l.cfg.NodeNames() {
			if !good[name] {
				return false, nil
			}
		}
		return true, nil
	})
	if err == nil {
		return nil
	}
	var missing []string
	for _, name := range l.cfg.NodeNames() {
		if !good[name] {
			missing = append(missing, name)
		}
	}
	return fmt.Errorf("%s: %w", strings.Join(missing, ", "), err)
}

func (l *Lab) nodesReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience(nodesWithin))
	defer cancel()
	client, err := l.Client()
	if err != nil {
		return err
	}
	return l.untilNodes(ctx, client, func(node *corev1.Node) bool {
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady {
				return false
			}
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status == corev1.ConditionTrue
			}
		}
		return false
	})
}

func (l *Lab) network(ctx context.Context) error {
	if l.cfg.CNI == CNIBridge {
		return l.bridgeNetwork(ctx)
	}
	return l.deploy(ctx)
}

// bridgeNetwork is what a network costs that does nothing: the floor of measurements.
func (l *Lab) bridgeNetwork(ctx context.Context) error {
	nodes, err := l.nodes()
	if err != nil {
		return err
	}
	for i, node := range nodes {
		var ranges, routes []any
		for _, subnet := range bridgeSubnets(l.cfg.PodCIDRs, i) {
			ranges = append(ranges, []any{map[string]string{"subnet": subnet.String()}})
			all := "0.0.0.0/0"
			if subnet.Addr().Is6() {
				all = "::/0"
			}
			routes = append(routes, map[string]string{"dst": all})
		}
		conf, err := json.Marshal(map[string]any{
			"cniVersion": "1.0.0", "name": "bridge",
			"plugins": []any{map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
				"ipam": map[string]any{"type": "host-local", "ranges": ranges, "routes": routes},
			}},
		})
		if err != nil {
			return err
		}
		const install = "mkdir -p /opt/cni/bin /etc/cni/net.d && cp /opt/lab/kubernetes/bridge /opt/lab/kubernetes/host-local /opt/cni/bin/ && cat > /etc/cni/net.d/10-bridge.conflist"
		cmd := node.Command(ctx, "sh", "-c", install)
		cmd.Stdin = bytes.NewReader(conf)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("installing the bridge network on %s: %w: %s", node.Name, err, out)
		}
		if err := l.bridgeRoutes(node); err != nil {
			return err
		}
	}
	return nil
}

// deploy applies the project's manifests with the lab's settings, in the order of
// their numbers, and waits for the rollout. Those below 40 are done first, the
// certificates among them: kubelet tries a pod that mounts a Secret which is not
// there yet again, slower and slower.
func (l *Lab) deploy(ctx context.Context) error {
	files, err := l.writeManifests(l.path("manifests"))
	if err != nil {
		return err
	}
	first := slices.IndexFunc(files, func(file string) bool { return filepath.Base(file) >= "40" })
	if first < 0 {
		first = len(files)
	}
	for _, group := range [][]string{files[:first], files[first:]} {
		if err := l.apply(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) apply(ctx context.Context, files []string) error {
	if len(files) == 0 {
		return nil
	}
	args := []string{"apply", "--server-side", "--force-conflicts", "-o", "name"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	out, err := l.kubectlOutput(ctx, args...)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(out) {
		if !strings.HasPrefix(name, "deployment.") && !strings.HasPrefix(name, "daemonset.") {
			continue
		}
		if strings.HasSuffix(name, vmSuffix) {
			continue // they have few probes; that the nodes are ready says more
		}
		start := time.Now()
		if err := l.kubectl(ctx, "rollout", "status", "-n", systemSpace, name, "--timeout="+l.patience(5*time.Minute).String()); err != nil {
			return err
		}
		l.say("    %5.1fs %s", time.Since(start).Seconds(), name)
	}
	return nil
}

// writeManifests copies deploy/manifests, with what a lab changes, and gives the copies in order.
func (l *Lab) writeManifests(dir string) ([]string, error) {
	hub, err := l.find(fabric)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(l.cfg.Repo, "deploy/manifests/*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("deploy/manifests is empty")
	}
	kernel := datapath(hub)
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if data, err = l.adapt(data, kernel); err != nil {
			return nil, fmt.Errorf("adapting %s: %w", file, err)
		}
		files[i] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(files[i], data, 0o644); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// adapt changes three things in a manifest: the values of the ConfigMap that a lab
// decides, and a note of the image in pod templates, so that a new image under
// the old name is rolled out; and VMs get DaemonSets of their own.
func (l *Lab) adapt(manifest []byte, datapath string) ([]byte, error) {
	var documents []string
	for document := range strings.SplitSeq("\n"+string(manifest), "\n---") {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, err
		}
		if object.Object == nil {
			continue
		}
		var err error
		switch object.GetKind() {
		case "ConfigMap":
			err = l.settings(object.Object, datapath)
		case "Deployment", "DaemonSet":
			err = unstructured.SetNestedField(object.Object, l.fingerprints[l.productImage()], "spec", "template", "metadata", "annotations", "image-fingerprint")
		}
		if err != nil {
			return nil, err
		}
		objects := []any{object.Object}
		if object.GetKind() == "DaemonSet" {
			if objects, err = l.splitForVMs(object.Object); err != nil {
				return nil, err
			}
		}
		for _, object := range objects {
			data, err := yaml.Marshal(object)
			if err != nil {
				return nil, err
			}
			documents = append(documents, string(data))
		}
	}
	return []byte(strings.Join(documents, "---\n")), nil
}

// settings are the values of the ConfigMap that a lab decides.
func (l *Lab) settings(object map[string]any, datapath string) error {
	var pods []string
	for _, cidr := range l.cfg.PodCIDRs {
		bits := 24
		if cidr.Addr().Is6() {
			bits = 64
		}
		pods = append(pods, fmt.Sprintf("%s/%d", cidr, bits))
	}
	address := l.cfg.apiAddress().Addr()
	host := address.String()
	if address.Is6() {
		host = "[" + host + "]"
	}
	for key, value := range map[string]string{
		"net_cidr": strings.Join(pods, ","), "svc_cidr": join(l.cfg.ServiceCIDRs), "datapath": datapath,
		"k8s_apiserver": l.apiURL(), "ovn_nb": "ssl:" + host + ":6641", "ovn_sb": "ssl:" + host + ":6642",
	} {
		if err := unstructured.SetNestedField(object, value, "data", key); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) kubectl(ctx context.Context, args ...string) error {
	return l.kubectlInput(ctx, nil, args...)
}

func (l *Lab) kubectlOutput(ctx context.Context, args ...string) (string, error) {
	var out strings.Builder
	err := l.runKubectl(ctx, nil, &out, args)
	return out.String(), err
}

func (l *Lab) kubectlInput(ctx context.Context, in io.Reader, args ...string) error {
	var out strings.Builder
	return l.runKubectl(ctx, in, &out, args)
}

func (l *Lab) runKubectl(ctx context.Context, in io.Reader, out *strings.Builder, args []string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(l.cfg.Repo, "_output/bin/kubectl"), append([]string{"--kubeconfig", l.Kubeconfig()}, args...)...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(out.String()+stderr.String()))
	}
	return nil
}
