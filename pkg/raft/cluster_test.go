package raft

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
)

const northbound = "/usr/share/ovn/ovn-nb.ovsschema"

// world is a cluster on loopback addresses, with real servers and the certificates of pkg/pki.
type world struct {
	t       *testing.T
	dir     string
	client  *api.Client
	members map[string]string
	running map[string]*exec.Cmd
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ovsdbtest.Need(t, "ovsdb-server", "ovsdb-tool", "ovsdb-client")
	dir, err := os.MkdirTemp("", "raft") // short: the path of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	clients := fake.NewClientset()
	w := &world{t: t, dir: dir, client: apitest.Client(clients), members: map[string]string{}, running: map[string]*exec.Cmd{}}
	cfg := pki.Defaults()
	cfg.NBHosts, cfg.SBHosts = []string{"127.0.0.1"}, []string{"127.0.0.1"}
	if _, err := pki.Ensure(t.Context(), w.client, cfg); err != nil {
		t.Fatal(err)
	}
	secret, err := clients.CoreV1().Secrets("ovn-kubernetes").Get(t.Context(), "ovn-raft", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []string{"m1", "m2", "m3"} {
		w.members[node] = "ssl:" + ovsdbtest.FreeAddress(t)
		if err := os.Mkdir(filepath.Join(dir, node), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for node := range w.running {
			w.kill(node)
		}
	})
	return w
}

func (w *world) path(node, name string) string { return filepath.Join(w.dir, node, name) }

func (w *world) config(node string) Config {
	cfg := Defaults()
	cfg.Database, cfg.File, cfg.Schema = "nb", w.path(node, "db"), northbound
	cfg.Node, cfg.First, cfg.Members = node, "m1", w.members
	cfg.Election, cfg.Retry = time.Second, 20*time.Millisecond
	return cfg
}

// prepare is what a container does before the server starts.
func (w *world) prepare(node string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	return Start(ctx, w.client, w.config(node))
}

// start starts a member and waits until it belongs to the cluster.
func (w *world) start(node string) {
	w.t.Helper()
	if err := w.prepare(node, 20*time.Second); err != nil {
		w.t.Fatal(err)
	}
	w.serve(node)
	w.run("ovsdb-client", "--timeout=30", "wait", w.socket(node), "OVN_Northbound", "connected")
}

func (w *world) serve(node string) {
	w.t.Helper()
	cmd := exec.Command("ovsdb-server", w.path(node, "db"), "--remote=p"+w.socket(node), "--unixctl="+w.path(node, "ctl"), "--no-chdir",
		"--private-key="+w.dir+"/tls.key", "--certificate="+w.dir+"/tls.crt", "--ca-cert="+w.dir+"/ca.crt", "-vsyslog:off", "-vfile:off")
	log, err := os.Create(w.path(node, "log"))
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	log.Close()
	w.running[node] = cmd
}

func (w *world) socket(node string) string { return "unix:" + w.path(node, "sock") }

func (w *world) kill(node string) {
	if cmd := w.running[node]; cmd != nil {
		cmd.Process.Kill()
		cmd.Wait()
		delete(w.running, node)
	}
}

func (w *world) run(name string, args ...string) string {
	w.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func (w *world) addSwitch(node, name string) {
	w.t.Helper()
	reply := w.run("ovsdb-client", "--timeout=20", "transact", w.socket(node),
		fmt.Sprintf(`["OVN_Northbound",{"op":"insert","table":"Logical_Switch","row":{"name":%q}}]`, name))
	if strings.Contains(reply, "error") {
		w.t.Fatal(reply)
	}
}

func (w *world) switches(node string) string {
	w.t.Helper()
	out := w.run("ovsdb-client", "--timeout=20", "dump", "--no-headings", "--format=csv", w.socket(node), "OVN_Northbound", "Logical_Switch", "name")
	return strings.Join(strings.Fields(out)[2:], " ")
}

// Call makes a member's control socket a Control.
func (c control) Call(ctx context.Context, method string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "ovs-appctl", append([]string{"-t", string(c), method}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

type control string

// tidy has the member of a node drop what is not recorded, until the cluster has so many servers.
func (w *world) tidy(node string, want int) {
	w.t.Helper()
	watch := Watch{Client: w.client, Namespace: "ovn-kubernetes", Every: 5 * time.Second, Logger: Defaults().Logger}
	gauges := newGauges(prometheus.NewRegistry())
	database := Database{"nb", "OVN_Northbound", control(w.path(node, "ctl"))}
	eventually(w.t, fmt.Sprintf("%d servers", want), func() error {
		if err := watch.look(w.t.Context(), database, gauges); err != nil {
			return err
		}
		text, err := database.Control.Call(w.t.Context(), "cluster/status", "OVN_Northbound")
		if status, bad := parseStatus(text); err == nil && bad == nil && len(status.Servers) != want {
			return fmt.Errorf("servers %v", status.Servers)
		}
		return err
	})
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestCluster_GrowsFromOneMemberAndReplacesDisks: a file of one member becomes a cluster of three with its content, and
// a member returns with an empty disk, with an old copy of its disk and with the file of another cluster.
func TestCluster_GrowsFromOneMemberAndReplacesDisks(t *testing.T) {
	w := newWorld(t)
	w.run("ovsdb-tool", "create", w.path("m1", "db"), northbound)
	w.serve("m1")
	w.run("ovsdb-client", "--timeout=30", "wait", w.socket("m1"), "OVN_Northbound", "connected")
	w.addSwitch("m1", "before")

	if err := w.prepare("m1", 200*time.Millisecond); err == nil || !strings.Contains(err.Error(), "has") {
		t.Fatalf("the file of a running server was converted: %v", err)
	}
	w.kill("m1")
	if err := w.prepare("m2", 200*time.Millisecond); err == nil || !strings.Contains(err.Error(), "node m1 creates it") {
		t.Fatalf("a second node has created a cluster: %v", err)
	}
	w.start("m1")
	w.start("m2")
	w.start("m3")
	if got := w.switches("m3"); got != "before" {
		t.Fatalf("switches %q", got)
	}
	w.addSwitch("m3", "of-three")
	w.tidy("m1", 3)

	for _, tc := range []struct {
		name  string
		disk  func(path string)
		again bool // as a new server
	}{
		{"same disk", func(string) {}, false},
		{"empty disk", func(string) { os.RemoveAll(w.path("m3", "")); os.Mkdir(w.path("m3", ""), 0o700) }, true},
		{"empty file", func(path string) { os.Truncate(path, 0) }, true},
		{"another cluster", func(path string) {
			os.Remove(path)
			w.run("ovsdb-tool", "create-cluster", path, northbound, w.members["m3"])
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := w.run("ovsdb-tool", "db-sid", w.path("m3", "db"))
			w.kill("m3")
			w.addSwitch("m2", "without-m3")
			tc.disk(w.path("m3", "db"))
			w.start("m3")
			if again := w.run("ovsdb-tool", "db-sid", w.path("m3", "db")) != before; again != tc.again {
				t.Errorf("new server %t", again)
			}
			w.tidy("m2", 3)
			if got, want := w.switches("m3"), w.switches("m1"); got != want {
				t.Errorf("switches %q, want %q", got, want)
			}
			w.kill("m1") // two of three go on
			w.addSwitch("m3", "without-m1")
			w.start("m1")
		})
	}
}

// TestCluster_OldCopyOfADiskIsNotUsed: a server that has forgotten entries could lose them for all.
func TestCluster_OldCopyOfADiskIsNotUsed(t *testing.T) {
	w := newWorld(t)
	for _, node := range []string{"m1", "m2", "m3"} {
		w.start(node)
	}
	w.kill("m3")
	w.run("cp", "-a", w.path("m3", ""), w.dir+"/copy")
	w.start("m3")
	sid := w.run("ovsdb-tool", "db-sid", w.path("m3", "db"))
	w.kill("m3")
	w.addSwitch("m1", "later")
	os.RemoveAll(w.path("m3", ""))
	w.run("mv", w.dir+"/copy", w.path("m3", ""))
	w.start("m3")
	if again := w.run("ovsdb-tool", "db-sid", w.path("m3", "db")); again == sid {
		t.Error("the server goes on with an old copy of its disk")
	}
	w.tidy("m1", 3)
	if got := w.switches("m3"); got != "later" {
		t.Errorf("switches %q", got)
	}
}

// TestCluster_SeedStartsAgainWithTheContentOfOneMember: two of three are lost for good.
func TestCluster_SeedStartsAgainWithTheContentOfOneMember(t *testing.T) {
	w := newWorld(t)
	for _, node := range []string{"m1", "m2", "m3"} {
		w.start(node)
	}
	w.addSwitch("m1", "kept")
	for _, node := range []string{"m1", "m2", "m3"} {
		w.kill(node)
	}
	maps := w.client.ConfigMaps("ovn-kubernetes")
	object, err := maps.Get(t.Context(), RecordMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Data["nb"] = `{"seed":"m2"}`
	if _, err := maps.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.prepare("m1", 200*time.Millisecond); err == nil {
		t.Error("a node that is not the seed has started")
	}
	w.start("m2")
	w.start("m1")
	w.start("m3")
	w.tidy("m1", 3)
	if got := w.switches("m3"); got != "kept" {
		t.Errorf("switches %q", got)
	}
}
