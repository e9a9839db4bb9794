package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	cnitypes "github.com/containernetworking/cni/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni/shim"
)

// serve runs the node's server on its socket until the test ends.
func (n *node) serve() {
	n.t.Helper()
	must(n.t, n.srv.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.srv.Run(ctx) }()
	n.sweeps()
	n.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("server: %v", err)
		}
	})
}

// sweeps runs the server's sweeps until the test ends.
func (n *node) sweeps() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.srv.RunSweeps(ctx) }()
	n.t.Cleanup(func() { cancel(); <-done })
}

// pluginDir holds the binary, which the first test that needs it builds.
var pluginDir string

var plugin = sync.OnceValues(func() (string, error) {
	file := filepath.Join(pluginDir, "plugin")
	out, err := exec.Command("go", "build", "-o", file, "../../cmd/cni").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the plugin: %w: %s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	var err error
	if pluginDir, err = os.MkdirTemp("", "cni-plugin-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(pluginDir)
	os.Exit(code)
}

// execute runs the binary as a runtime does and gives its stdout.
func (n *node) execute(command, sandbox, netns, config string, env ...string) ([]byte, error) {
	n.t.Helper()
	file, err := plugin()
	must(n.t, err)
	cmd := exec.CommandContext(n.t.Context(), file)
	cmd.Env = append([]string{
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + sandbox, "CNI_NETNS=" + netns, "CNI_IFNAME=eth0",
		"CNI_PATH=/opt/cni/bin", "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=" + webUID,
	}, env...)
	cmd.Stdin = strings.NewReader(config)
	return cmd.Output()
}

func (n *node) config(version, more string) string {
	return fmt.Sprintf(`{"cniVersion":%q,"name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","socket":%q,"later":{"x":1}%s}`,
		version, n.srv.cfg.Socket, more)
}

func TestBinary_AnswersInEachCNIVersion(t *testing.T) {
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		t.Run(version, func(t *testing.T) {
			n := newNode(t)
			n.serve()
			out, err := n.execute("ADD", sandboxA, "/ns/a", n.config(version, ""))
			if err != nil {
				t.Fatalf("ADD: %v: %s", err, out)
			}
			var result struct {
				CNIVersion string `json:"cniVersion"`
				IPs        []struct {
					Address, Gateway string
				} `json:"ips"`
			}
			must(t, json.Unmarshal(out, &result))
			if result.CNIVersion != version || len(result.IPs) != 1 || result.IPs[0].Address != "10.244.1.5/24" || result.IPs[0].Gateway != "10.244.1.1" {
				t.Errorf("result %s", out)
			}
			for range 2 {
				if out, err := n.execute("DEL", sandboxA, "", n.config(version, "")); err != nil || len(out) != 0 {
					t.Errorf("DEL: %v: %s", err, out)
				}
			}
			n.wantNothing()
		})
	}
}

func TestBinary_EachCommandSucceeds(t *testing.T) {
	n := newNode(t)
	n.serve()
	succeed := func(command, more string) {
		t.Helper()
		if out, err := n.execute(command, sandboxA, "/ns/a", n.config("1.1.0", more)); err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
	succeed("STATUS", "")
	succeed("ADD", "")
	succeed("CHECK", "")
	succeed("GC", fmt.Sprintf(`,"cni.dev/valid-attachments":[{"containerID":%q,"ifname":"eth0"}]`, sandboxA))
	succeed("CHECK", "")
	succeed("GC", `,"cni.dev/valid-attachments":[]`)
	n.wantNothing()
}

func TestBinary_VERSIONWorksWithoutAgent(t *testing.T) {
	n := newNode(t)
	out, err := n.execute("VERSION", "", "", "")
	must(t, err)
	var got map[string]any
	must(t, json.Unmarshal(out, &got))
	want := map[string]any{"cniVersion": "1.1.0", "supportedVersions": []any{"0.3.1", "0.4.0", "1.0.0", "1.1.0"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("VERSION (-want +got):\n%s", diff)
	}
}

func TestBinary_ErrorsHaveCodeAndText(t *testing.T) {
	n := newNode(t).impatient()
	n.srv.deps.Ready = func() error { return errors.New("br-int does not exist") }
	n.serve()
	away := newNode(t) // its server does not run
	tests := []struct {
		name    string
		n       *node
		command string
		config  string
		env     string
		code    uint
		text    string
	}{
		{"agent away, ADD", away, "ADD", away.config("1.1.0", ""), "", 11, "ovn-offload-agent"},
		{"agent away, STATUS", away, "STATUS", away.config("1.1.0", ""), "", 50, "ovn-offload-agent"},
		{"not ready, STATUS", n, "STATUS", n.config("1.1.0", ""), "", 50, "br-int does not exist"},
		{"not ready, ADD", n, "ADD", n.config("1.1.0", ""), "", 11, "br-int does not exist"},
		{"version", n, "ADD", n.config("0.2.0", ""), "", 1, "incompatible"},
		{"later version", n, "ADD", n.config("9.9.9", ""), "", 1, "incompatible"},
		{"CHECK in 0.3.1", n, "CHECK", n.config("0.3.1", ""), "", 1, "CHECK"},
		{"no JSON", n, "ADD", "{", "", 6, "config"},
		{"no network name", n, "ADD", `{"cniVersion":"1.1.0"}`, "", 7, "name"},
		{"unknown command", n, "JUMP", n.config("1.1.0", ""), "", 4, "JUMP"},
		{"no sandbox", n, "ADD", n.config("1.1.0", ""), "CNI_CONTAINERID=", 4, "CNI_CONTAINERID"},
		{"no netns", n, "ADD", n.config("1.1.0", ""), "CNI_NETNS=", 4, "CNI_NETNS"},
		{"no pod", n, "ADD", n.config("1.1.0", ""), "CNI_ARGS=", 4, "K8S_POD_NAME"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := tt.n.execute(tt.command, sandboxA, "/ns/a", tt.config, tt.env)
			var got cnitypes.Error
			if err == nil || json.Unmarshal(out, &got) != nil {
				t.Fatalf("%s: exit %v, stdout %s", tt.command, err, out)
			}
			if got.Code != tt.code || !strings.Contains(got.Msg+got.Details, tt.text) {
				t.Errorf("error %s, want code %d and %q", out, tt.code, tt.text)
			}
		})
	}
}

// TestBinary_AttachesAfterMalformedRequests: the agent refuses requests that no runtime sends, keeps nothing of them, and
// attaches the next pod. The control is the same request without the fault.
func TestBinary_AttachesAfterMalformedRequests(t *testing.T) {
	n := newNode(t)
	n.serve()
	right := n.config("1.1.0", "")
	for _, c := range []struct{ command, config, env string }{
		{"FETCH", right, ""}, {"ADD", "{", ""}, {"ADD", "", ""}, {"ADD", n.config("9.9.9", ""), ""},
		{"ADD", right, "CNI_CONTAINERID="}, {"ADD", right, "CNI_CONTAINERID=../x"}, {"ADD", right, "CNI_IFNAME="}, {"ADD", right, "CNI_IFNAME=a/b"},
		{"ADD", right, "CNI_NETNS="}, {"ADD", right, "CNI_ARGS="}, {"ADD", right, "CNI_ARGS=K8S_POD_NAMESPACE=default;K8S_POD_NAME=a/b"},
	} {
		out, err := n.execute(c.command, sandboxA, "/ns/a", c.config, c.env)
		var got cnitypes.Error
		if err == nil || json.Unmarshal(out, &got) != nil || got.Code == 0 || got.Msg == "" {
			t.Errorf("%s with %q of %q: exit %v, stdout %s", c.command, c.env, c.config, err, out)
		}
		n.wantNothing()
	}
	if out, err := n.execute("ADD", sandboxA, "/ns/a", right, ""); err != nil {
		t.Errorf("ADD afterwards: %v: %s", err, out)
	}
}

// TestBinary_DELSucceedsWithoutAgent: the pod goes; what it leaves is swept at the agent's start.
func TestBinary_DELSucceedsWithoutAgent(t *testing.T) {
	n := newNode(t) // its server does not run
	if out, err := n.execute("DEL", sandboxA, "/ns/a", n.config("1.1.0", ""), ""); err != nil {
		t.Errorf("DEL: %v: %s", err, out)
	}
}

// post sends a body as no plugin of ours would.
func (n *node) post(path string, body []byte) (int, cnitypes.Error) {
	n.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", n.srv.cfg.Socket)
	}}}
	resp, err := client.Post("http://agent"+path, "application/json", bytes.NewReader(body))
	must(n.t, err)
	defer resp.Body.Close()
	var cniErr cnitypes.Error
	_ = json.NewDecoder(resp.Body).Decode(&cniErr)
	return resp.StatusCode, cniErr
}

func TestServer_RefusesMalformedRequests(t *testing.T) {
	n := newNode(t)
	n.serve()
	tests := []struct {
		name string
		body string
		code uint
	}{
		{"empty", "", 6},
		{"no object", "[]", 6},
		{"no configuration", `{"command":"ADD"}`, 6},
		{"too large", strings.Repeat("x", shim.MaxBody+1), 5},
		{"no sandbox", `{"command":"ADD","config":{"cniVersion":"1.1.0","name":"n"}}`, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, err := n.post("/", []byte(tt.body))
			if status != http.StatusBadRequest || err.Code != tt.code || err.Msg == "" {
				t.Errorf("status %d, error %+v, want code %d", status, err, tt.code)
			}
		})
	}
	if status, _ := n.post("/other", nil); status != http.StatusNotFound {
		t.Errorf("another path: status %d", status)
	}
}

// TestServer_IgnoresFieldsOfLaterPlugin sends a request with fields of a later plugin.
func TestServer_IgnoresFieldsOfLaterPlugin(t *testing.T) {
	n := newNode(t)
	n.serve()
	body := fmt.Sprintf(`{"command":"ADD","containerID":%q,"netns":"/ns/a","ifName":"eth0","future":[1],
		"args":"K8S_POD_NAMESPACE=default;K8S_POD_NAME=web","config":{"cniVersion":"1.1.0","name":"ovn-kubernetes","future":{}}}`, sandboxA)
	if status, err := n.post("/", []byte(body)); status != http.StatusOK {
		t.Errorf("status %d, error %+v", status, err)
	}
}

func TestServer_SocketIsForRootOnly(t *testing.T) {
	n := newNode(t)
	socket := n.srv.cfg.Socket
	must(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	must(t, os.WriteFile(socket, nil, 0o666)) // what an earlier agent may have left
	n.serve()
	for path, want := range map[string]os.FileMode{filepath.Dir(socket): 0o700, socket: 0o600} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	// With the file modes out of the way, the credentials alone must refuse.
	must(t, os.Chmod(socket, 0o666))
	for dir := filepath.Dir(socket); dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		must(t, err)
		must(t, os.Chmod(dir, info.Mode()|0o055))
		if dir == os.TempDir() {
			break
		}
	}
	file, err := plugin()
	must(t, err)
	must(t, os.Chmod(filepath.Dir(file), 0o755))
	cmd := exec.CommandContext(t.Context(), file)
	cmd.Env = []string{"CNI_COMMAND=STATUS", "CNI_PATH=/"}
	cmd.Stdin = strings.NewReader(n.config("1.1.0", ""))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	var cniErr cnitypes.Error
	if err == nil || json.Unmarshal(out, &cniErr) != nil || cniErr.Code != 50 {
		t.Errorf("another user's STATUS: %v: %s", err, out)
	}
}

// TestServer_StopRollsBackWaitingADD ends the agent while an ADD waits.
func TestServer_StopRollsBackWaitingADD(t *testing.T) {
	n := newNode(t)
	n.db.flows = false
	must(t, n.srv.Listen())
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- n.srv.Run(ctx) }()
	answered := make(chan []byte, 1)
	go func() {
		out, _ := n.execute("ADD", sandboxA, "/ns/a", n.config("1.1.0", ""))
		answered <- out
	}()
	until(t, "the port is there", func() bool { _, ok := find(n.db, web); return ok })
	cancel()
	must(t, <-stopped)
	if out := <-answered; !bytes.Contains(out, []byte(`"code"`)) {
		t.Errorf("ADD got %q, want a CNI error", out)
	}
	n.wantNothing()
}

// TestBinary_ImportsNoLargePackages keeps what makes a plugin large and slow to start out of it.
func TestBinary_ImportsNoLargePackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../cmd/cni").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, out)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, heavy := range []string{"k8s.io/", "github.com/ovn-kubernetes/", "github.com/vishvananda/netlink", "github.com/prometheus/"} {
			if strings.HasPrefix(dep, heavy) {
				t.Errorf("the binary imports %s", dep)
			}
		}
	}
}
