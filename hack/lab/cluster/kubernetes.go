package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	ctx, cancel := context.WithTimeout(ctx, apiWithin)
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
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
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

// deploy applies the project's manifests with the lab's settings and waits for the rollout.
func (l *Lab) deploy(ctx context.Context) error {
	dir := l.path("manifests")
	if err := l.writeManifests(dir); err != nil {
		return err
	}
	if err := l.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", dir); err != nil {
		return err
	}
	out, err := l.kubectlOutput(ctx, "get", "deployments,daemonsets", "-n", systemSpace, "-o", "name")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(out) {
		start := time.Now()
		if err := l.kubectl(ctx, "rollout", "status", "-n", systemSpace, name, "--timeout=5m"); err != nil {
			return err
		}
		l.say("    %5.1fs %s", time.Since(start).Seconds(), name)
	}
	return nil
}

// writeManifests copies deploy/manifests, with the lab's own values in its ConfigMap.
func (l *Lab) writeManifests(dir string) error {
	hub, err := l.find(fabric)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(l.cfg.Repo, "deploy/manifests/*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("deploy/manifests is empty")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if filepath.Base(file) == "10-config.yaml" {
			if data, err = l.settings(data, datapath(hub)); err != nil {
				return fmt.Errorf("setting %s: %w", file, err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// settings are the values of the ConfigMap that a lab decides.
func (l *Lab) settings(manifest []byte, datapath string) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(manifest, &object); err != nil {
		return nil, err
	}
	data, ok := object["data"].(map[string]any)
	if !ok {
		return nil, errors.New("the ConfigMap has no data")
	}
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
		data[key] = value
	}
	return yaml.Marshal(object)
}

func (l *Lab) kubectl(ctx context.Context, args ...string) error {
	_, err := l.kubectlOutput(ctx, args...)
	return err
}

func (l *Lab) kubectlOutput(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.cfg.Repo, "_output/bin/kubectl"), append([]string{"--kubeconfig", l.Kubeconfig()}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(append(out, stderr.Bytes()...)))
	}
	return string(out), nil
}
