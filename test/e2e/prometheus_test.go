//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/testbed"
)

// scraper is Debian's Prometheus, on the machine of the test. It reaches the nodes through the external host:
// Prometheus -> a proxy of the test -> nc on that host -> the node's port.
type scraper struct{ address string }

// startPrometheus runs it with the example configuration, the token of an account that may get /metrics, and the pods as
// Kubernetes' discovery would give them: Debian builds Prometheus without that.
func startPrometheus(t *testing.T) *scraper {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("this test needs the Debian package prometheus: ", err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token, pods := write("token", []byte(metricsToken(t))), write("pods.json", discovered(t))
	proxy := httptest.NewServer(http.HandlerFunc(connect))
	t.Cleanup(proxy.CloseClientConnections)
	config := scrapeConfig(t, func(job map[string]any) {
		delete(job, "kubernetes_sd_configs")
		job["file_sd_configs"] = []any{map[string]any{"files": []string{pods}}}
		job["authorization"] = map[string]any{"credentials_file": token}
		job["proxy_url"] = proxy.URL
	})
	p := &scraper{address: ovsdbtest.FreeAddress(t)}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+write("prometheus.yaml", config), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address, "--log.level=warn")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus says: %s", log.String())
		}
	})
	world.Eventually(t, time.Minute, "Prometheus answers", func() (bool, string) {
		_, err := p.read("/-/ready")
		return err == nil, fmt.Sprint(err)
	})
	return p
}

// scrapeConfig is the example with the changes that each job needs here.
func scrapeConfig(t *testing.T, change func(job map[string]any)) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cluster.root, "deploy/monitoring/prometheus.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	config["global"] = map[string]any{"scrape_interval": "5s", "scrape_timeout": "5s", "evaluation_interval": "5s"}
	config["rule_files"] = []string{filepath.Join(cluster.root, "deploy/chart/files/rules.yaml")}
	for _, job := range config["scrape_configs"].([]any) {
		change(job.(map[string]any))
	}
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	return text
}

// metricsToken is of an account that is bound to the chart's role for metrics.
func metricsToken(t *testing.T) string {
	t.Helper()
	ns := world.Namespace(t)
	token := accountToken(t, ns, "prometheus")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ovn-offload-metrics"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "prometheus", Namespace: ns}},
	}
	if _, err := cluster.client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cluster.client.RbacV1().ClusterRoleBindings().Delete(context.Background(), ns, metav1.DeleteOptions{})
	})
	return token
}

// discovered are the ports of the network's pods, with the labels that the discovery of pods gives them.
func discovered(t *testing.T) []byte {
	t.Helper()
	pods, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	type target struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	var targets []target
	for i := range pods.Items {
		pod := &pods.Items[i]
		for j := range pod.Spec.Containers {
			for _, port := range pod.Spec.Containers[j].Ports {
				targets = append(targets, target{
					[]string{net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port.ContainerPort))},
					map[string]string{
						"__meta_kubernetes_pod_container_port_name": port.Name, "__meta_kubernetes_pod_node_name": pod.Spec.NodeName,
						"__meta_kubernetes_pod_label_app": pod.Labels["app"],
					},
				})
			}
		}
	}
	text, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// connect is the proxy: it passes a connection on to nc on the external host, which ends with the connection.
func connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil || r.Method != http.MethodConnect {
		http.Error(w, "want CONNECT", http.StatusBadRequest)
		return
	}
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	lab := theLab()
	cmd := exec.Command(lab.Binary(), "exec", "--name="+lab.Name, "--workdir="+lab.Workdir(), testbed.External, "--", "nc", "-N", host, port)
	cmd.Stdout = conn
	input, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	go func() {
		_, _ = io.Copy(input, buffered)
		_ = input.Close() // nc ends its half, the process the other, and then nc ends
	}()
	_ = cmd.Wait()
}

// read gets a path of Prometheus' API.
func (p *scraper) read(path string) ([]byte, error) {
	client := http.Client{Timeout: 20 * time.Second}
	response, err := client.Get("http://" + p.address + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode >= http.StatusInternalServerError {
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return text, err
}
