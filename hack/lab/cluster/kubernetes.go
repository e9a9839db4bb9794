package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
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

// control waits for the API server and for the nodes to appear, and marks those of the control plane.
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
	const label = `{"metadata":{"labels":{"` + controlLabel + `":""}}}`
	for _, name := range l.cfg.ControlNodes() {
		if _, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(label), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	l.formed = true
	return l.writeState()
}

func (l *Lab) apiReady(ctx context.Context, client kubernetes.Interface) error {
	err := poll(ctx, lookEvery, func() error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server: %w; see %s", err, l.spec(l.cfg.NodeNames()[0]).Logs())
	}
	return nil
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

// deploy installs the chart with the lab's values, as docs/deploy.md says for a cluster of kubeadm, and waits for the
// rollout. It upgrades an older installation, and takes over objects that kubectl has applied.
func (l *Lab) deploy(ctx context.Context) error {
	if err := l.kubeadmConfigMaps(ctx); err != nil {
		return err
	}
	values, err := l.values()
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.path("values.yaml"), values, 0o644); err != nil {
		return err
	}
	start := time.Now()
	args := []string{
		"upgrade", "--install", "ovn-offload", filepath.Join(l.bin.Product, "deploy/chart"), "--namespace=" + systemSpace, "--create-namespace",
		"--values=" + l.path("values.yaml"), "--take-ownership", "--force-conflicts",
	}
	for _, value := range l.cfg.ChartValues {
		args = append(args, "--set="+value)
	}
	_, err = l.run(ctx, nil, "helm", args)
	if err != nil {
		return err
	}
	l.say("    %5.1fs helm upgrade --install", time.Since(start).Seconds())
	workloads, err := l.kubectlOutput(ctx, "get", "deployment,daemonset", "-n", systemSpace, "-o", "name")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(workloads) {
		if strings.HasSuffix(name, "-"+vmGroup) {
			continue // they have few probes; that the nodes are ready says more
		}
		if err := l.kubectl(ctx, "rollout", "status", "-n", systemSpace, name, "--timeout="+l.patience(5*time.Minute).String()); err != nil {
			return err
		}
		l.say("    %5.1fs %s", time.Since(start).Seconds(), name)
	}
	return nil
}

// kubeadmConfigMaps makes the ConfigMaps in which kubeadm leaves the API server's address and the networks. The chart
// reads them, so the lab's values name neither.
func (l *Lab) kubeadmConfigMaps(ctx context.Context) error {
	cluster, err := yaml.Marshal(map[string]any{"networking": map[string]any{"podSubnet": join(l.cfg.PodCIDRs), "serviceSubnet": join(l.cfg.ServiceCIDRs)}})
	if err != nil {
		return err
	}
	info, err := yaml.Marshal(map[string]any{"clusters": []any{map[string]any{"name": "", "cluster": map[string]any{"server": l.apiURL()}}}})
	if err != nil {
		return err
	}
	list := corev1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for _, object := range []runtime.Object{
		&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespacePublic}},
		configMap(metav1.NamespaceSystem, "kubeadm-config", "ClusterConfiguration", cluster),
		configMap(metav1.NamespacePublic, "cluster-info", "kubeconfig", info),
	} {
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return l.kubectlInput(ctx, bytes.NewReader(data), "apply", "--server-side", "-f", "-")
}

func configMap(namespace, name, key string, value []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{key: string(value)},
	}
}

// values are those of the chart that a lab decides: the image that it has made, with a note so that a new image under
// the old name is rolled out; the datapath; and a group for nodes that are VMs.
func (l *Lab) values() ([]byte, error) {
	hub, err := l.find(fabric)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(l.chartValues(datapath(hub)))
}

func (l *Lab) chartValues(datapath string) map[string]any {
	values := map[string]any{
		"image":          map[string]any{"tag": "dev"},
		"podAnnotations": map[string]any{"image-fingerprint": l.fingerprints[l.productImage()]},
		"nodes":          map[string]any{"datapath": datapath},
	}
	if l.cfg.ControlPlanes > 1 {
		values["databases"] = map[string]any{"members": l.cfg.ControlPlanes}
	}
	if l.cfg.VMNodes > 0 {
		values["nodeGroups"] = []any{map[string]any{
			"name": vmGroup, "label": map[string]any{"key": vmLabel, "value": ""},
			"settings": map[string]any{"datapath": kernelDatapath, "slowMachine": true},
		}}
	}
	return values
}

func (l *Lab) kubectl(ctx context.Context, args ...string) error {
	return l.kubectlInput(ctx, nil, args...)
}

func (l *Lab) kubectlInput(ctx context.Context, in io.Reader, args ...string) error {
	_, err := l.run(ctx, in, "kubectl", args)
	return err
}

func (l *Lab) kubectlOutput(ctx context.Context, args ...string) (string, error) {
	return l.run(ctx, nil, "kubectl", args)
}

// run runs kubectl or helm on the lab's cluster, and gives its output.
func (l *Lab) run(ctx context.Context, in io.Reader, program string, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.cfg.Repo, "_output/bin", program), append([]string{"--kubeconfig", l.Kubeconfig()}, args...)...)
	var stdout, stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(stdout.String()+stderr.String()))
	}
	return stdout.String(), nil
}
