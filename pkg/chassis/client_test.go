package chassis

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
)

// rig is an API server with a signer, and the agents of Nodes.
type rig struct {
	t      *testing.T
	kube   *fake.Clientset
	cfg    pki.Config
	signer *Signer

	mu  sync.Mutex
	now time.Time
}

func newRig(t *testing.T, objects ...runtime.Object) *rig {
	r := &rig{t: t, kube: fake.NewClientset(objects...), now: time.Now()}
	r.cfg = pki.Defaults()
	r.cfg.NBHosts, r.cfg.SBHosts, r.cfg.Now = []string{"127.0.0.1"}, []string{"127.0.0.1"}, r.clock
	client := apitest.Client(r.kube)
	r.signer = NewSigner(client, r.cfg, slog.New(slog.DiscardHandler))
	if err := r.signer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.cfg.Chassis = r.signer.Chassis
	r.secrets()
	background(t, r.signer.Run)
	return r
}

// background runs until the test ends, which waits: a last pass writes files.
func background(t *testing.T, run func(context.Context) error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run(t.Context())
	}()
	t.Cleanup(func() { <-ended })
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// secrets makes one pass of pkg/pki.
func (r *rig) secrets() {
	r.t.Helper()
	if _, err := pki.Ensure(r.t.Context(), apitest.Client(r.kube), r.cfg); err != nil {
		r.t.Fatal(err)
	}
}

// agent runs a Client whose requests come with a user and a Node, as the API server
// would write them.
func (r *rig) agent(user, node, id string) (*Client, string) {
	r.t.Helper()
	as := fake.NewClientset()
	as.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if create, ok := a.(clienttesting.CreateAction); ok && a.GetResource().Resource == "certificatesigningrequests" {
			request := create.GetObject().(*certificatesv1.CertificateSigningRequest)
			request.Name, request.Spec.Username = request.GenerateName+rand.Text(), user
			request.Spec.Extra = map[string]certificatesv1.ExtraValue{nodeClaim: {node}}
		}
		object, err := r.kube.Invokes(a, nil)
		return true, object, err
	})
	as.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := r.kube.InvokesWatch(a)
		return true, w, err
	})
	cfg := Defaults()
	cfg.Dir, cfg.SystemID, cfg.Now = filepath.Join(r.t.TempDir(), "chassis"), func() string { return id }, r.clock
	cfg.Logger, cfg.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	c := NewClient(apitest.Client(as), cfg)
	background(r.t, c.Run)
	return c, cfg.Dir
}

func eventually(t *testing.T, what string, try func() bool) {
	t.Helper()
	for deadline := time.Now().Add(8 * time.Second); !try(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// leaf is the certificate in a directory, nil while there is none.
func leaf(dir string) *x509.Certificate {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil
	}
	return pair.Leaf
}

func (r *rig) record(node string) string {
	records, err := r.kube.CoreV1().ConfigMaps("ovn-kubernetes").Get(r.t.Context(), RecordMap, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return records.Data[node]
}

func (r *rig) setRecord(node, text string) {
	r.t.Helper()
	maps := r.kube.CoreV1().ConfigMaps("ovn-kubernetes")
	records, err := maps.Get(r.t.Context(), RecordMap, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	records.Data[node] = text
	if _, err := maps.Update(r.t.Context(), records, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) denied() (messages []string) {
	list, _ := r.kube.CertificatesV1().CertificateSigningRequests().List(r.t.Context(), metav1.ListOptions{})
	for _, request := range list.Items {
		for _, c := range request.Status.Conditions {
			if c.Type == certificatesv1.CertificateDenied {
				messages = append(messages, c.Message)
			}
		}
	}
	return messages
}

func TestClient_GetsACertificateAndKeepsItOverRestarts(t *testing.T) {
	r := newRig(t, testNode("n1", "uid-1", "id-1"))
	c, dir := r.agent(agentUser, "n1", "id-1")
	eventually(t, "a certificate", func() bool { return c.Problem() == nil })
	first := leaf(dir)
	if first.Subject.CommonName != "id-1" {
		t.Errorf("name %s", first.Subject)
	}
	if want := "id-1 uid-1 " + agentUser; r.record("n1") != want {
		t.Errorf("recorded %q, want %q", r.record("n1"), want)
	}
	for _, name := range []string{".", "tls.key", "tls.crt", "ca.crt"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	again := Defaults()
	again.Dir, again.SystemID, again.Now = dir, func() string { return "id-1" }, r.clock
	again.Logger, again.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	r.kube.ClearActions()
	restarted := NewClient(apitest.Client(r.kube), again)
	background(t, restarted.Run)
	eventually(t, "the restarted agent is content", func() bool { return restarted.Problem() == nil })
	if !leaf(dir).Equal(first) || slices.ContainsFunc(r.kube.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "create" }) {
		t.Error("a restart has asked for another certificate")
	}
}

func TestClient_RenewsWithANewKeyInTheLastThird(t *testing.T) {
	r := newRig(t, testNode("n1", "uid-1", "id-1"))
	c, dir := r.agent(agentUser, "n1", "id-1")
	eventually(t, "a certificate", func() bool { return c.Problem() == nil })
	first := leaf(dir)
	key, _ := os.ReadFile(filepath.Join(dir, "tls.key"))
	advance := func(d time.Duration) {
		r.mu.Lock()
		r.now = r.now.Add(d)
		r.mu.Unlock()
		c.mark()
	}
	advance(19 * 24 * time.Hour)
	eventually(t, "a pass", func() bool { return len(c.wake) == 0 })
	if !leaf(dir).Equal(first) {
		t.Error("renewed in the second third")
	}
	advance(24 * time.Hour)
	eventually(t, "a renewed certificate", func() bool { return !leaf(dir).Equal(first) })
	if now, _ := os.ReadFile(filepath.Join(dir, "tls.key")); string(now) == string(key) {
		t.Error("the key is the same: ovn-controller reads both files again only when both have changed")
	}
	eventually(t, "the removal of the replaced files, which comes after the new ones are in use", func() bool {
		versions, _ := filepath.Glob(filepath.Join(dir, "..version-*"))
		return len(versions) == 1
	})
}

func TestSigner_DeniesAnotherNodesChassis(t *testing.T) {
	r := newRig(t, testNode("n1", "uid-1", "id-1"), testNode("n2", "uid-2", "id-2"))
	c, _ := r.agent(agentUser, "n1", "id-1")
	eventually(t, "a certificate", func() bool { return c.Problem() == nil })
	thief, dir := r.agent(agentUser, "n2", "id-1")
	eventually(t, "a denied request", func() bool { return len(r.denied()) > 0 })
	if got := r.denied()[0]; !strings.Contains(got, "Node n1 is chassis id-1") {
		t.Errorf("denied: %s", got)
	}
	if thief.Problem() == nil || leaf(dir) != nil || r.record("n2") != "" {
		t.Errorf("problem %v, certificate %v, record %q", thief.Problem(), leaf(dir), r.record("n2"))
	}
}

// A host with a DPU that has taken its label off its Node gets ovnkube-node, and
// with it a token that the API server binds to the Node.
func TestSigner_DeniesAHostWithADPU(t *testing.T) {
	r := newRig(t, testNode("n1", "uid-1", "id-1"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: DPUNamespace, Name: "n1"}})
	_, dir := r.agent(agentUser, "n1", "id-1")
	eventually(t, "a denied request", func() bool { return len(r.denied()) > 0 })
	if got := r.denied()[0]; !strings.Contains(got, "host with a DPU") || leaf(dir) != nil {
		t.Errorf("denied: %s", got)
	}
	dpu, _ := r.agent(dpuUser, "", "id-1")
	eventually(t, "the DPU's certificate", func() bool { return dpu.Problem() == nil })
}

func TestRevoked_NodeIsRefusedAndOthersGetNewCertificates(t *testing.T) {
	r := newRig(t, testNode("n1", "uid-1", "id-1"), testNode("n2", "uid-2", "id-2"))
	stolen, stolenDir := r.agent(agentUser, "n1", "id-1")
	other, otherDir := r.agent(agentUser, "n2", "id-2")
	eventually(t, "certificates", func() bool { return stolen.Problem() == nil && other.Problem() == nil })
	before := leaf(otherDir)
	trusts := func(cert *x509.Certificate) bool {
		secret, err := r.kube.CoreV1().Secrets("ovn-kubernetes").Get(context.Background(), "ovn-sb-server", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(secret.Data["ca.crt"])
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err == nil
	}
	if !trusts(leaf(stolenDir)) || !trusts(before) {
		t.Fatal("not trusted before")
	}

	r.setRecord("n1", "revoked")
	<-r.signer.Wake()
	eventually(t, "the signer knows", func() bool { return len(r.signer.Chassis().Revoked) == 1 })
	r.secrets()
	eventually(t, "the other's new certificate", func() bool { return !leaf(otherDir).Equal(before) })
	if trusts(leaf(stolenDir)) || !trusts(leaf(otherDir)) {
		t.Errorf("revoked: %t, other: %t", trusts(leaf(stolenDir)), trusts(leaf(otherDir)))
	}
	eventually(t, "the revoked one is denied", func() bool {
		return slices.ContainsFunc(r.denied(), func(m string) bool { return strings.Contains(m, "n1 is revoked") })
	})
}
