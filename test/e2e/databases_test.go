//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// nbctl runs ovn-nbctl on the control plane's local socket.
func nbctl(t *testing.T, args ...string) string {
	t.Helper()
	return world.MustOnNode(t, nodes[0], append([]string{"ovn-nbctl", "--timeout=20"}, args...)...)
}

// synced waits until the nodes have what the Northbound database has, and no flow of a datapath is older.
func synced(t *testing.T) {
	t.Helper()
	nbctl(t, "--wait=hv", "sync")
	for _, node := range nodes {
		world.MustOnNode(t, node, "ovs-appctl", "revalidator/wait")
	}
}

// credentials are the PEM texts of a client of a database.
type credentials struct{ cert, key, ca string }

// secretCredentials reads a Secret as made for our own clients.
func secretCredentials(t *testing.T, name string) credentials {
	t.Helper()
	secret, err := cluster.client.CoreV1().Secrets(system).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return credentials{string(secret.Data["tls.crt"]), string(secret.Data["tls.key"]), string(secret.Data["ca.crt"])}
}

// unknownCredentials are a key and a self-signed certificate.
func unknownCredentials(t *testing.T, ca string) credentials {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "unknown"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return credentials{encode("CERTIFICATE", cert), encode("PRIVATE KEY", private), ca}
}

// overTLS runs a tool of OVN on the host that is no node.
func overTLS(tool string, c credentials, endpoint string, args ...string) (string, error) {
	script := "d=$(mktemp -d); trap 'rm -rf $d' EXIT; "
	for file, text := range map[string]string{"tls.crt": c.cert, "tls.key": c.key, "ca.crt": c.ca} {
		script += "cat >$d/" + file + " <<'PEM'\n" + text + "\nPEM\n"
	}
	script += tool + " -vconsole:dbg --timeout=30 --db=" + endpoint + " -p $d/tls.key -c $d/tls.crt -C $d/ca.crt " + strings.Join(args, " ") + " 2>$d/err; code=$?; grep -i 'alert\\|SSL_\\|permission error' $d/err; exit $code"
	return world.OnNode("outside", "sh", "-c", script)
}

// TestDatabase_TLSNeedsSignedCertificate: from a host that is no node, with a certificate, the
// databases show the topology of three nodes. A client with a certificate that
// the database's authority did not sign is refused by the server, and so is a
// node's at the Northbound database.
func TestDatabase_TLSNeedsSignedCertificate(t *testing.T) {
	world.Test(t, world.Access, world.Core, world.Strict)
	nb, sb := "ssl:172.18.0.3:6641", southbound
	controller, node := secretCredentials(t, "ovn-nb-client"), chassisCredentials(t, nodes[1])
	show, err := overTLS("ovn-nbctl", controller, nb, "show")
	if err != nil {
		t.Fatalf("%v: %s", err, show)
	}
	want := []string{"ext_ovn-control-plane", "ext_ovn-worker", "ext_ovn-worker2", "join", "ovn-control-plane", "ovn-worker", "ovn-worker2"}
	// other tests' networks have more, beside this test
	if got := named(show, "switch"); !sets.New(got...).HasAll(want...) {
		t.Errorf("switches: %v, want %v among them", got, want)
	}
	want = []string{"GR_ovn-control-plane", "GR_ovn-worker", "GR_ovn-worker2", "ovn_cluster_router"}
	if got := named(show, "router"); !sets.New(got...).HasAll(want...) {
		t.Errorf("routers: %v, want %v among them", got, want)
	}
	show, err = overTLS("ovn-sbctl", node, sb, "show")
	if err != nil {
		t.Fatalf("%v: %s", err, show)
	}
	for node, ip := range map[string]string{nodes[0]: "172.18.0.3", nodes[1]: "172.18.0.2", nodes[2]: "172.18.0.4"} {
		chassis := regexp.MustCompile(`hostname: "?` + node + `"?\n\s+Encap geneve\n\s+ip: "` + regexp.QuoteMeta(ip) + `"`)
		if !chassis.MatchString(show) {
			t.Errorf("no chassis %s with geneve at %s in:\n%s", node, ip, show)
		}
	}
	refused := map[string]struct {
		tool, endpoint string
		client         credentials
	}{
		"an unknown client at the Northbound":    {"ovn-nbctl", nb, unknownCredentials(t, controller.ca)},
		"an unknown client at the Southbound":    {"ovn-sbctl", sb, unknownCredentials(t, node.ca)},
		"a node's certificate at the Northbound": {"ovn-nbctl", nb, credentials{node.cert, node.key, controller.ca}},
		"the controller's own at the Southbound": {"ovn-sbctl", sb, credentials{controller.cert, controller.key, node.ca}},
	}
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			out, err := overTLS(c.tool, c.client, c.endpoint, "show")
			if err == nil {
				t.Fatalf("shown: %s", out)
			}
			// It is the server that ends this, with an alert that may come too
			// late to be read; the client trusts the server.
			if !regexp.MustCompile(`alert|Broken pipe|reset by peer`).MatchString(out) || strings.Contains(out, "verify failed") {
				t.Errorf("want the server to refuse, got: %s", out)
			}
		})
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

// TestController_RepairsEditedRows: what is edited by hand comes back, and rows that are not ours stay.
func TestController_RepairsEditedRows(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive)
	ns := world.Namespace(t)
	pods := world.Run(t, world.Pod(ns, "web", nodes[1]), world.Pod(ns, "other", nodes[2]))
	pod, other := pods[0], pods[1]
	port := ns + "_" + pod.Name
	nbctl(t, "ls-add", "another-systems")
	t.Cleanup(func() { nbctl(t, "--if-exists", "ls-del", "another-systems") })
	before := topology(t, port)
	edits := map[string][]string{
		"a deleted port":    {"lsp-del", port},
		"changed addresses": {"lsp-set-addresses", port, "unknown"},
		"a deleted router":  {"lr-del", "ovn_cluster_router"},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			nbctl(t, edit...)
			world.Eventually(t, world.PodWithin, "everything is as before", func() (bool, string) {
				now := topology(t, port)
				return now == before, now
			})
			nbctl(t, "--wait=hv", "sync")
			world.MustInPod(t, pod, "ping", "-c1", "-w5", world.Addresses(other)[0].String())
		})
	}
	if out := nbctl(t, "ls-list"); !strings.Contains(out, "another-systems") {
		t.Errorf("another system's switch is gone: %s", out)
	}
}

// topology is what the edits touch: the pod's port, and the ports, addresses and
// routes of the cluster router.
func topology(t *testing.T, port string) string {
	t.Helper()
	list := func(table, columns string, condition ...string) string {
		out, err := world.OnNode(nodes[0], append([]string{"ovn-nbctl", "--bare", "--columns=" + columns, "find", table},
			condition...)...)
		if err != nil {
			return err.Error()
		}
		lines := strings.Split(out, "\n")
		slices.Sort(lines)
		return strings.Join(lines, " ")
	}
	show, _ := world.OnNode(nodes[0], "ovn-nbctl", "lrp-list", "ovn_cluster_router")
	return strings.Join([]string{
		list("Logical_Switch_Port", "name,addresses,options", "name="+port),
		list("Logical_Router_Port", "name,mac,networks"), list("Logical_Router_Static_Route", "ip_prefix,nexthop,policy"),
		fmt.Sprint(strings.Count(show, "(rtos-"), strings.Count(show, "(rtoj-")),
	}, "\n")
}
