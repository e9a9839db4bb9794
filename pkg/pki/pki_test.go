package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

var allSecrets = []string{"ovn-chassis-ca", "ovn-nb-ca", "ovn-nb-client", "ovn-nb-server", "ovn-raft", "ovn-relay", "ovn-sb-ca", "ovn-sb-server"}

func testConfig(now *time.Time) Config {
	cfg := Defaults()
	cfg.NBHosts, cfg.SBHosts = []string{"127.0.0.1", "nb.example"}, []string{"127.0.0.1", "fd00::3"}
	cfg.Now = func() time.Time { return *now }
	return cfg
}

func ensure(t *testing.T, client *fake.Clientset, cfg Config) map[string]map[string][]byte {
	t.Helper()
	if _, err := Ensure(t.Context(), apitest.Client(client), cfg); err != nil {
		t.Fatal(err)
	}
	return read(t, client)
}

func read(t *testing.T, client *fake.Clientset) map[string]map[string][]byte {
	t.Helper()
	list, err := client.CoreV1().Secrets("ovn-kubernetes").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]map[string][]byte{}
	for _, s := range list.Items {
		data[s.Name] = s.Data
	}
	return data
}

func writes(client *fake.Clientset) (names []string) {
	for _, a := range client.Actions() {
		switch a := a.(type) {
		case clienttesting.UpdateAction: // has GetObject, like CreateAction
			names = append(names, a.GetVerb()+" "+a.GetObject().(metav1.Object).GetName())
		case clienttesting.DeleteAction:
			names = append(names, "delete "+a.GetName())
		}
	}
	client.ClearActions()
	slices.Sort(names)
	return names
}

func pair(t *testing.T, data map[string][]byte) tls.Certificate {
	t.Helper()
	p, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func pool(data map[string][]byte) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(data[caKey])
	return p
}

func TestEnsure_CreatesMissingSecretsOnce(t *testing.T) {
	now := time.Now()
	client := fake.NewClientset()
	secrets := ensure(t, client, testConfig(&now))
	for _, name := range allSecrets {
		if secrets[name] == nil {
			t.Errorf("no Secret %s", name)
		}
	}
	if len(secrets) != len(allSecrets) {
		t.Errorf("%d Secrets, want %d", len(secrets), len(allSecrets))
	}
	for _, name := range []string{"ovn-nb-server", "ovn-nb-client", "ovn-sb-server"} {
		if secrets[name][keyKey] == nil || string(secrets[name][keyKey]) == string(secrets[name[:6]+"-ca"][keyKey]) {
			t.Errorf("%s has no key of its own", name)
		}
	}
	writes(client)
	ensure(t, client, testConfig(&now))
	if w := writes(client); w != nil {
		t.Errorf("the second pass wrote %q", w)
	}
}

// TestEnsure_CountsEndOfEachCertificate: also of those that are there already.
func TestEnsure_CountsEndOfEachCertificate(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	for _, pass := range []string{"makes", "finds"} {
		expiry := newExpiry()
		if _, err := ensureAll(t.Context(), apitest.Client(client), cfg, expiry); err != nil {
			t.Fatal(err)
		}
		for _, name := range allSecrets {
			want := now.Add(cfg.Life)
			if strings.HasSuffix(name, "-ca") {
				want = now.Add(cfg.AuthorityLife)
			}
			if got := testutil.ToFloat64(expiry.WithLabelValues(name)); got < float64(want.Unix())-1 || got > float64(want.Unix())+1 {
				t.Errorf("%s, in a pass that %s it: ends at %.0f, want %d", name, pass, got, want.Unix())
			}
		}
	}
}

// handshake serves one TLS connection the way ovsdb-server does, and says
// whether both sides accepted each other.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = conn.Write([]byte("x")) // completes the handshake first
			conn.Close()
		}
		served <- err
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", listener.Addr().String(), client)
	if err == nil {
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = conn.Read(make([]byte, 1)) // TLS 1.3: a refused client learns it here
	}
	if serveErr := <-served; err == nil {
		err = serveErr
	}
	return err
}

func TestEnsure_PeersOfOneAuthorityConnect(t *testing.T) {
	now := time.Now()
	cluster, cfg := fake.NewClientset(), testConfig(&now)
	s := ensure(t, cluster, cfg)
	chassis := chassisFiles(t, cluster, cfg, "chassis-1")
	other := ensure(t, fake.NewClientset(), testConfig(&now)) // another cluster's
	server := func(data map[string][]byte) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{pair(t, data)}, ClientCAs: pool(data), ClientAuth: tls.RequireAndVerifyClientCert}
	}
	client := func(data map[string][]byte) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{pair(t, data)}, RootCAs: pool(data), ServerName: "127.0.0.1"}
	}
	nameless := client(s["ovn-nb-client"])
	nameless.Certificates = nil
	wrongHost := client(s["ovn-nb-client"])
	wrongHost.ServerName = "db.example"
	trusting := client(chassis) // so that only the server can refuse
	trusting.RootCAs = pool(s["ovn-nb-client"])
	for _, tc := range []struct {
		name           string
		server, client *tls.Config
		ok             bool
	}{
		{"NB client to NB", server(s["ovn-nb-server"]), client(s["ovn-nb-client"]), true},
		{"a chassis to SB", server(s["ovn-sb-server"]), client(chassis), true},
		{"no certificate", server(s["ovn-nb-server"]), nameless, false},
		{"a node's certificate to NB", server(s["ovn-nb-server"]), trusting, false},
		{"NB client to SB", server(s["ovn-sb-server"]), client(s["ovn-nb-client"]), false},
		{"another cluster's client", server(s["ovn-nb-server"]), client(other["ovn-nb-client"]), false},
		{"wrong host", server(s["ovn-nb-server"]), wrongHost, false},
		{"a chassis posing as the server", server(chassis), client(chassis), false},
		{"the server's own certificate to SB", server(s["ovn-sb-server"]), server(s["ovn-sb-server"]), false},
		{"a server's certificate as a client's", server(s["ovn-nb-server"]), client(s["ovn-nb-server"]), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := handshake(t, tc.server, tc.client); (err == nil) != tc.ok {
				t.Errorf("handshake: %v, want success %t", err, tc.ok)
			}
		})
	}
}

func TestEnsure_RenewsSecretsWhenDue(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(cfg *Config, now *time.Time, client *fake.Clientset)
		want   []string
	}{
		{"fresh", func(_ *Config, now *time.Time, _ *fake.Clientset) { *now = now.Add(200 * 24 * time.Hour) }, nil},
		{"last third", func(_ *Config, now *time.Time, _ *fake.Clientset) { *now = now.Add(250 * 24 * time.Hour) },
			[]string{"update ovn-nb-client", "update ovn-nb-server", "update ovn-raft", "update ovn-relay", "update ovn-sb-server"}},
		{"another address", func(cfg *Config, _ *time.Time, _ *fake.Clientset) { cfg.NBHosts = []string{"10.0.0.1"} },
			[]string{"update ovn-nb-server", "update ovn-raft"}},
		{"deleted", func(_ *Config, _ *time.Time, client *fake.Clientset) {
			client.CoreV1().Secrets("ovn-kubernetes").Delete(context.Background(), "ovn-sb-server", metav1.DeleteOptions{})
		}, []string{"create ovn-sb-server"}},
		{"damaged", func(_ *Config, _ *time.Time, client *fake.Clientset) {
			overwrite(client, "ovn-nb-client", keyKey, "nonsense")
		}, []string{"update ovn-nb-client"}},
		{"foreign bundle", func(_ *Config, _ *time.Time, client *fake.Clientset) {
			overwrite(client, "ovn-nb-server", caKey, "nonsense")
		}, []string{"update ovn-nb-server"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Now()
			client, cfg := fake.NewClientset(), testConfig(&now)
			ensure(t, client, cfg)
			tc.change(&cfg, &now, client)
			client.ClearActions()
			s := ensure(t, client, cfg)
			if diff := cmp.Diff(tc.want, writes(client)); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			verify(t, s["ovn-nb-server"], s["ovn-nb-client"][caKey], cfg.NBHosts[0], now)
		})
	}
}

func overwrite(client *fake.Clientset, name, key, value string) {
	secrets := client.CoreV1().Secrets("ovn-kubernetes")
	s, _ := secrets.Get(context.Background(), name, metav1.GetOptions{})
	s.Data[key] = []byte(value)
	secrets.Update(context.Background(), s, metav1.UpdateOptions{})
}

func verify(t *testing.T, data map[string][]byte, bundle []byte, host string, now time.Time) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := pair(t, data).Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now})
	if err != nil {
		t.Errorf("at %s: %v", now, err)
	}
}

func TestEnsure_UnreadableAuthorityIsKept(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	ensure(t, client, cfg)
	overwrite(client, "ovn-nb-ca", keyKey, "nonsense")
	before := read(t, client)
	now = now.Add(300 * 24 * time.Hour)
	if _, err := Ensure(t.Context(), apitest.Client(client), cfg); err == nil {
		t.Error("no error")
	}
	after := read(t, client)
	if diff := cmp.Diff(before["ovn-nb-ca"], after["ovn-nb-ca"]); diff != "" {
		t.Errorf("the authority was changed:\n%s", diff)
	}
	if cmp.Equal(before["ovn-sb-server"], after["ovn-sb-server"]) {
		t.Error("the other database's certificates were not renewed")
	}
}

// Over forty years of passes, a peer whose bundle is as old as Settle allows
// and one that is current always accept the server.
func TestEnsure_AuthorityChangesWithoutInterruption(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	const pass = 30 * 24 * time.Hour
	lag := int(cfg.Settle / pass)
	var bundles [][]byte
	authorities := map[string]bool{}
	for range int(40 * 365 * 24 * time.Hour / pass) {
		s := ensure(t, client, cfg)
		bundles = append(bundles, []byte(southboundMap(t, client)[ServerKey]))
		verify(t, s["ovn-sb-server"], bundles[len(bundles)-1], "fd00::3", now)
		verify(t, s["ovn-sb-server"], bundles[max(0, len(bundles)-1-lag)], "fd00::3", now)
		authorities[string(pair(t, s["ovn-sb-server"]).Leaf.AuthorityKeyId)] = true
		if n := len(pemBlocks(bundles[len(bundles)-1])); n > 2 {
			t.Fatalf("a bundle of %d", n)
		}
		now = now.Add(pass)
	}
	if len(authorities) < 5 {
		t.Errorf("%d authorities in forty years of ten-year ones", len(authorities))
	}
}

func TestEnsure_ConcurrentRunsAgree(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := Ensure(t.Context(), apitest.Client(client), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := read(t, client)
	verify(t, s["ovn-nb-server"], s["ovn-nb-ca"][certKey], "nb.example", now)
	verify(t, s["ovn-sb-server"], []byte(southboundMap(t, client)[ServerKey]), "127.0.0.1", now)
	client.ClearActions()
	ensure(t, client, cfg)
	if w := writes(client); w != nil {
		t.Errorf("not settled: wrote %q", w)
	}
}

// A conflict means that another process decided: its result is read and kept.
func TestEnsure_ConflictKeepsOtherResult(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	ensure(t, client, cfg)
	now = now.Add(300 * 24 * time.Hour)
	winner := fake.NewClientset()
	for name, data := range read(t, client) {
		winner.CoreV1().Secrets("ovn-kubernetes").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	}
	won := ensure(t, winner, cfg)
	conflicts := 0
	client.PrependReactor("update", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(clienttesting.UpdateAction).GetObject().(*corev1.Secret).Name
		conflicts++
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ovn-kubernetes"}, Data: won[name]}
		if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), s, "ovn-kubernetes"); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, name, fmt.Errorf("changed"))
	})
	if diff := cmp.Diff(won, ensure(t, client, cfg)); diff != "" || conflicts != 5 {
		t.Errorf("%d conflicts, difference from the winner's:\n%s", conflicts, diff)
	}
}

func TestHosts_ValidAndInvalidEndpoints(t *testing.T) {
	for endpoints, want := range map[string][]string{
		"ssl:172.18.0.3:6641":                      {"172.18.0.3"},
		"ssl:[fd00::3]:6641, ssl:nb.example:16641": {"fd00::3", "nb.example"},
		"":                    nil,
		"tcp:172.18.0.3:6641": nil,
		"ssl:172.18.0.3":      nil,
		"ssl::6641":           nil,
	} {
		got, err := Hosts(endpoints)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("Hosts(%q) = %q, %v", endpoints, got, err)
		}
	}
}

func TestConfig_InvalidSettingsAreRefused(t *testing.T) {
	now := time.Now()
	if err := testConfig(&now).Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Config){
		"namespace": func(c *Config) { c.Namespace = "" },
		"hosts":     func(c *Config) { c.SBHosts = nil },
		"life":      func(c *Config) { c.AuthorityLife = c.Life },
		"clock":     func(c *Config) { c.Now = nil },
	} {
		cfg := testConfig(&now)
		spoil(&cfg)
		if cfg.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
