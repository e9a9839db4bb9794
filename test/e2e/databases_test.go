//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nbctl runs ovn-nbctl on the control plane's local socket.
func nbctl(t *testing.T, args ...string) string {
	t.Helper()
	return mustOnNode(t, nodes[0], append([]string{"ovn-nbctl", "--timeout=20"}, args...)...)
}

// overTLS runs a tool of OVN on the host that is no node, with a client
// certificate of the cluster.
func overTLS(t *testing.T, tool, secret, endpoint string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	object, err := cluster.client.CoreV1().Secrets(system).Get(ctx, secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := "d=$(mktemp -d); trap 'rm -rf $d' EXIT; "
	for _, file := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(dir, file), object.Data[file], 0o600); err != nil {
			t.Fatal(err)
		}
		script += "cat >$d/" + file + " <<'PEM'\n" + string(object.Data[file]) + "\nPEM\n"
	}
	script += tool + " --timeout=10 --db=" + endpoint + " -p $d/tls.key -c $d/tls.crt -C $d/ca.crt " + strings.Join(args, " ")
	return onNode("outside", "sh", "-c", script)
}

// TestDatabasesOverTLS: from a host that is no node, with a certificate, the
// databases show the topology of three nodes; without one they are refused, and
// so is a node's certificate at the Northbound database.
func TestDatabasesOverTLS(t *testing.T) {
	nb, sb := "ssl:172.18.0.3:6641", "ssl:172.18.0.3:6642"
	show, err := overTLS(t, "ovn-nbctl", "ovn-nb-client", nb, "show")
	if err != nil {
		t.Fatalf("%v: %s", err, show)
	}
	want := []string{"ext_ovn-control-plane", "ext_ovn-worker", "ext_ovn-worker2", "join", "ovn-control-plane", "ovn-worker", "ovn-worker2"}
	if got := named(show, "switch"); !slices.Equal(got, want) {
		t.Errorf("switches: %v, want %v", got, want)
	}
	want = []string{"GR_ovn-control-plane", "GR_ovn-worker", "GR_ovn-worker2", "ovn_cluster_router"}
	if got := named(show, "router"); !slices.Equal(got, want) {
		t.Errorf("routers: %v, want %v", got, want)
	}
	show, err = overTLS(t, "ovn-sbctl", "ovn-sb-client", sb, "show")
	if err != nil {
		t.Fatalf("%v: %s", err, show)
	}
	for node, ip := range map[string]string{nodes[0]: "172.18.0.3", nodes[1]: "172.18.0.2", nodes[2]: "172.18.0.4"} {
		chassis := regexp.MustCompile(`hostname: "?` + node + `"?\n\s+Encap geneve\n\s+ip: "` + regexp.QuoteMeta(ip) + `"`)
		if !chassis.MatchString(show) {
			t.Errorf("no chassis %s with geneve at %s in:\n%s", node, ip, show)
		}
	}
	if out, err := onNode("outside", "ovn-nbctl", "--timeout=5", "--db="+nb, "show"); err == nil {
		t.Errorf("shown without a certificate: %s", out)
	}
	if out, err := overTLS(t, "ovn-nbctl", "ovn-sb-client", nb, "show"); err == nil {
		t.Errorf("a node's certificate opens the Northbound database: %s", out)
	}
}

// named lists the names of the switches or routers in a show, sorted.
func named(show, kind string) []string {
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^`+kind+` \S+ \(([^)]+)\)`).FindAllStringSubmatch(show, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return names
}

// TestRepair: what is edited by hand comes back, and rows that are not ours stay.
func TestRepair(t *testing.T) {
	ns := namespace(t)
	pod := running(t, ns, "web", nodes[1])
	port := ns + "_" + pod.Name
	nbctl(t, "ls-add", "somebody-elses")
	t.Cleanup(func() { nbctl(t, "--if-exists", "ls-del", "somebody-elses") })
	edits := map[string][]string{
		"a deleted port":    {"lsp-del", port},
		"changed addresses": {"lsp-set-addresses", port, "unknown"},
		"a deleted router":  {"lr-del", "ovn_cluster_router"},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			nbctl(t, edit...)
			address := addresses(t, pod)[0].String()
			eventually(t, 20*time.Second, "the row is right again", func() (bool, string) {
				out, err := onNode(nodes[0], "ovn-nbctl", "lsp-get-addresses", port)
				return err == nil && strings.Contains(out, address) && strings.Contains(nbctl(t, "show"), "router-port rtoj-ovn_cluster_router") ||
					err == nil && strings.Contains(out, address) && strings.Contains(nbctl(t, "lr-list"), "ovn_cluster_router"), out
			})
		})
	}
	if out := nbctl(t, "ls-list"); !strings.Contains(out, "somebody-elses") {
		t.Errorf("another system's switch is gone: %s", out)
	}
}
