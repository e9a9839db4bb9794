//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const southbound = "ssl:172.18.0.3:6642"

// chassisCredentials are those that a node's ovn-controller uses.
func chassisCredentials(t *testing.T, node string) credentials {
	t.Helper()
	read := func(name string) string {
		return world.MustOnNode(t, node, "cat", "/var/lib/ovn-offload/chassis/"+name)
	}
	return credentials{read("tls.crt"), read("tls.key"), read("ca.crt")}
}

// systemID is the name of a node's chassis.
func systemID(t *testing.T, node string) string {
	t.Helper()
	object, err := cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.Annotations[contract.NodeChassisIDKey]
}

// sbctl runs ovn-sbctl on the control plane's local socket, which may do everything.
func sbctl(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(world.MustOnNode(t, nodes[0], append([]string{"ovn-sbctl", "--timeout=20"}, args...)...))
}

// The key of a node, on a host that is no node, changes the rows of the node's own
// chassis. What it is refused, the local socket of the database may do.
func TestChassisCertificate_ChangesItsOwnChassisOnly(t *testing.T) {
	world.Test(t, world.Access, world.Core, world.Strict)
	own, other := systemID(t, nodes[1]), systemID(t, nodes[2])
	key := chassisCredentials(t, nodes[1])
	if block, _ := pem.Decode([]byte(key.cert)); block == nil {
		t.Fatalf("no certificate: %s", key.cert)
	} else if cert, err := x509.ParseCertificate(block.Bytes); err != nil || cert.Subject.CommonName != own {
		t.Fatalf("certificate of %v, %v, want %s", cert.Subject, err, own)
	}
	encap := sbctl(t, "--bare", "--columns=_uuid", "find", "Encap", "chassis_name="+other)
	address := sbctl(t, "get", "Encap", encap, "ip")
	t.Cleanup(func() {
		sbctl(t, "remove", "Chassis", other, "external_ids", "e2e")
		sbctl(t, "set", "Encap", encap, "ip="+address)
	})
	for _, tc := range []struct {
		name    string
		refused bool
		args    []string
	}{
		{"reads", false, []string{"show"}},
		{"its own chassis", false, []string{"set", "Chassis", own, "external_ids:e2e=1"}},
		{"its own chassis again", false, []string{"remove", "Chassis", own, "external_ids", "e2e"}},
		{"another chassis", true, []string{"set", "Chassis", other, "external_ids:e2e=1"}},
		{"the tunnel of another", true, []string{"set", "Encap", encap, "ip=172.18.0.99"}},
		{"a new chassis", true, []string{"chassis-add", "e2e", "geneve", "172.18.0.99"}},
		{"the database's options", true, []string{"set", "SB_Global", ".", "options:e2e=1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := overTLS("ovn-sbctl", key, southbound, tc.args...)
			if (err != nil) != tc.refused || tc.refused && !strings.Contains(out, "permission error") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	sbctl(t, "set", "Chassis", other, "external_ids:e2e=1")
	sbctl(t, "set", "Encap", encap, "ip="+address)
	// Beside other tests no node is to have a tunnel to a new chassis: the transaction does not end.
	const newChassis = `["OVN_Southbound",
{"op":"insert","table":"Encap","uuid-name":"e","row":{"type":"geneve","ip":"172.18.0.99","chassis_name":"e2e"}},
{"op":"insert","table":"Chassis","row":{"name":"e2e","encaps":["named-uuid","e"]}},{"op":"abort"}]`
	out := world.MustOnNode(t, nodes[0], "ovsdb-client", "--timeout=20", "transact", "unix:/run/ovn/ovnsb_db.sock", newChassis)
	if !strings.Contains(out, "aborted") || strings.Contains(out, "permission") {
		t.Errorf("a new chassis by the local socket: %s", out)
	}
}

func TestChassisCertificate_NoNodeHasASharedKey(t *testing.T) {
	world.Test(t, world.Access, world.Strict)
	_, err := cluster.client.CoreV1().Secrets(system).Get(t.Context(), "ovn-sb-client", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("Secret ovn-sb-client: %v", err)
	}
	keys := map[string]string{}
	for _, node := range nodes {
		key := chassisCredentials(t, node).key
		if other, ok := keys[key]; ok {
			t.Errorf("%s and %s have the same key", node, other)
		}
		keys[key] = node
	}
}

// requestAs asks for the certificate of a chassis as the agent of a node, and gives
// the answer: Approved, or the reason of a denial.
func requestAs(t *testing.T, user, node, id string) string {
	t.Helper()
	config := rest.CopyConfig(cluster.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: id}}, key)
	if err != nil {
		t.Fatal(err)
	}
	requests := cluster.client.CertificatesV1().CertificateSigningRequests()
	request, err := client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-chassis-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: chassis.SignerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: asked}),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var answer string
	world.Eventually(t, world.PodWithin, "the signer answers", func() (bool, string) {
		if request, err = requests.Get(t.Context(), request.Name, metav1.GetOptions{}); err != nil {
			return false, err.Error()
		}
		for _, c := range request.Status.Conditions {
			answer = string(c.Type)
			if c.Type == certificatesv1.CertificateDenied {
				answer = c.Message
			}
		}
		return answer != "" && (answer != "Approved" || len(request.Status.Certificate) > 0), answer
	})
	return answer
}

// With a record "revoked" the Southbound refuses the key that a node has had, the
// other nodes get new ones by themselves, and pods go on.
func TestChassisCertificate_RevokedIsRefused(t *testing.T) {
	world.Test(t, world.Access, world.Disruptive)
	tier.Full(t, "the kubelet takes up to two minutes to bring a changed Secret to a pod")
	ns := world.Namespace(t)
	a, b := world.Pod(ns, "a", nodes[0]), world.Pod(ns, "b", nodes[1])
	world.Run(t, a, b)
	stolen, before := chassisCredentials(t, nodes[2]), chassisCredentials(t, nodes[1])
	if out, err := overTLS("ovn-sbctl", stolen, southbound, "show"); err != nil {
		t.Fatalf("before: %v: %s", err, out)
	}
	records := cluster.client.CoreV1().ConfigMaps(system)
	patch := func(value string) {
		t.Helper()
		text := fmt.Sprintf(`{"data": {%q: %s}}`, nodes[2], value)
		if _, err := records.Patch(context.Background(), chassis.RecordMap, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	connected := func(node string) func() (bool, string) {
		return func() (bool, string) {
			out, err := world.OnNode(node, "ovn-appctl", "-t", "/run/ovn/ovn-controller.ctl", "connection-status")
			return err == nil && strings.TrimSpace(out) == "connected", out
		}
	}
	t.Cleanup(func() {
		patch("null")
		world.Eventually(t, 3*time.Minute, "the node is admitted again", connected(nodes[2]))
	})
	patch(`"revoked"`)
	world.Eventually(t, 4*time.Minute, "the revoked key is refused", func() (bool, string) {
		out, err := overTLS("ovn-sbctl", stolen, southbound, "show")
		return err != nil && regexp.MustCompile(`alert|Broken pipe|reset by peer`).MatchString(out), out
	})
	for _, node := range nodes[:2] {
		world.Eventually(t, time.Minute, node+" is connected", connected(node))
	}
	if now := chassisCredentials(t, nodes[1]); now.cert == before.cert {
		t.Error("the other node has its old certificate")
	}
	world.Eventually(t, time.Minute, "the revoked node's connection ends", func() (bool, string) {
		ok, status := connected(nodes[2])()
		return !ok, status
	})
	world.MustInPod(t, a, "ping", "-c1", "-W2", world.Addresses(b)[0].String())
	if answer := requestAs(t, "system:serviceaccount:ovn-kubernetes:ovnkube-node", nodes[2], systemID(t, nodes[2])); !strings.Contains(answer, "is revoked") {
		t.Errorf("a new request of the revoked node: %s", answer)
	}
}
