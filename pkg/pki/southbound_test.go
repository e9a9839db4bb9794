package pki

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

func southboundMap(t *testing.T, client *fake.Clientset) map[string]string {
	t.Helper()
	facts, err := client.CoreV1().ConfigMaps("ovn-kubernetes").Get(t.Context(), SouthboundMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return facts.Data
}

// chassisFiles are those of a node, with a certificate of this moment.
func chassisFiles(t *testing.T, client *fake.Clientset, cfg Config, id string) map[string][]byte {
	t.Helper()
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := SignChassis(t.Context(), apitest.Client(client), cfg, id, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{certKey: cert, keyKey: encode(pemKey, private), caKey: []byte(southboundMap(t, client)[ServerKey])}
}

// accepted says whether the Southbound lets the holder of a certificate in.
func accepted(t *testing.T, server, chassis map[string][]byte, now time.Time) bool {
	t.Helper()
	_, err := pair(t, chassis).Leaf.Verify(x509.VerifyOptions{
		Roots: pool(server), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

func TestSignChassis_CertificateIsShortAndNamesTheChassis(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	server := ensure(t, client, cfg)["ovn-sb-server"]
	files := chassisFiles(t, client, cfg, "chassis-1")
	leaf := pair(t, files).Leaf
	if leaf.Subject.CommonName != "chassis-1" || leaf.NotAfter.Sub(now) > cfg.ChassisLife || leaf.IsCA {
		t.Errorf("%s until %s", leaf.Subject, leaf.NotAfter)
	}
	if !accepted(t, server, files, now) || accepted(t, server, files, now.Add(31*24*time.Hour)) {
		t.Error("not accepted for a month")
	}
	if role := string(server[roleKey]); role != "ovn-controller" {
		t.Errorf("role %q", role)
	}
}

func TestSouthbound_SharedCertificateIsAcceptedUntilNoNodeWaits(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	// What an earlier release has left.
	p := pass{cfg: cfg, secrets: apitest.Client(client).Secrets("ovn-kubernetes"), expiry: newExpiry()}
	own, err := p.ensureAuthority(t.Context(), "ovn-sb-ca", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ensureLeaf(t.Context(), own, leafWant{secret: sharedClient, usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Fatal(err)
	}
	shared := read(t, client)[sharedClient]
	waiting := []string{"node-1"}
	cfg.Chassis = func() Chassis { return Chassis{Waiting: waiting} }

	s := ensure(t, client, cfg)
	chassis := chassisFiles(t, client, cfg, "chassis-1")
	if server := s["ovn-sb-server"]; !accepted(t, server, shared, now) || !accepted(t, server, chassis, now) || len(server[roleKey]) > 0 {
		t.Errorf("while a node waits: shared %t, own %t, role %q", accepted(t, server, shared, now), accepted(t, server, chassis, now), server[roleKey])
	}
	if diff := cmp.Diff(shared, s[sharedClient]); diff != "" {
		t.Errorf("the shared certificate has changed:\n%s", diff)
	}

	waiting = nil
	writes(client)
	s = ensure(t, client, cfg)
	if diff := cmp.Diff([]string{"delete ovn-sb-client", "update ovn-sb-server"}, writes(client)); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if server := s["ovn-sb-server"]; accepted(t, server, shared, now) || !accepted(t, server, chassis, now) || string(server[roleKey]) != "ovn-controller" {
		t.Errorf("afterwards: shared %t, own %t, role %q", accepted(t, server, shared, now), accepted(t, server, chassis, now), server[roleKey])
	}

	waiting = []string{"node-2"} // a new node has nothing to do with the shared one
	writes(client)
	ensure(t, client, cfg)
	if w := writes(client); w != nil {
		t.Errorf("for a new node: %q", w)
	}
}

func TestRevoke_ReplacesTheAuthorityOfChassisOnce(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	var revoked []string
	cfg.Chassis = func() Chassis { return Chassis{Revoked: revoked} }
	ensure(t, client, cfg)
	stolen, other := chassisFiles(t, client, cfg, "chassis-1"), chassisFiles(t, client, cfg, "chassis-2")

	revoked = []string{"node-1"}
	writes(client)
	server := ensure(t, client, cfg)["ovn-sb-server"]
	if diff := cmp.Diff([]string{"update ovn-chassis-ca", "update ovn-relay", "update ovn-sb-server", "update ovn-southbound"}, writes(client)); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if accepted(t, server, stolen, now) || accepted(t, server, other, now) {
		t.Error("a certificate of the authority before is accepted")
	}
	if again := chassisFiles(t, client, cfg, "chassis-2"); !accepted(t, server, again, now) {
		t.Error("a new certificate is refused")
	}
	if ensure(t, client, cfg); writes(client) != nil {
		t.Error("replaced again without a further Node")
	}
	revoked = nil // it is admitted again
	before := server
	server = ensure(t, client, cfg)["ovn-sb-server"]
	if diff := cmp.Diff(before, server); diff != "" {
		t.Errorf("admitting changed what is trusted:\n%s", diff)
	}
}

// A clock that was ahead when authorities were made.
func TestClock_AuthorityOfTheFutureDoesNotSign(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Hour, 5 * 24 * time.Hour, 400 * 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			right := time.Now()
			now := right.Add(ahead)
			client, cfg := fake.NewClientset(), testConfig(&now)
			ensure(t, client, cfg)
			now = right
			s := ensure(t, client, cfg)
			verify(t, s["ovn-nb-server"], s["ovn-nb-client"][caKey], "127.0.0.1", now)
			verify(t, s["ovn-sb-server"], []byte(southboundMap(t, client)[ServerKey]), "127.0.0.1", now)
			if !accepted(t, s["ovn-sb-server"], chassisFiles(t, client, cfg, "chassis-1"), now) {
				t.Error("a chassis is refused")
			}
		})
	}
}

// One pass with a clock that is ahead by more than the life of an authority.
func TestClock_OnePassYearsAheadDropsNoAuthority(t *testing.T) {
	right := time.Now()
	now := right
	client, cfg := fake.NewClientset(), testConfig(&now)
	before := ensure(t, client, cfg)
	bundle := []byte(southboundMap(t, client)[ServerKey])
	now = right.Add(11 * 365 * 24 * time.Hour)
	ensure(t, client, cfg)
	now = right.Add(time.Minute)
	s := ensure(t, client, cfg)
	verify(t, s["ovn-sb-server"], bundle, "127.0.0.1", now) // a peer that read nothing since
	verify(t, s["ovn-nb-server"], before["ovn-nb-client"][caKey], "127.0.0.1", now)
	verify(t, before["ovn-sb-server"], []byte(southboundMap(t, client)[ServerKey]), "127.0.0.1", now)
}

func TestClock_DifferentFromTheServersChangesNothing(t *testing.T) {
	now := time.Now()
	server := now
	client, cfg := fake.NewClientset(), testConfig(&now)
	cfg.Clock = func(context.Context) (time.Time, error) { return server, nil }
	ensure(t, client, cfg)
	before := read(t, client)
	for name, tc := range map[string]struct {
		off time.Duration
		err error
		ok  bool
	}{
		"ahead":     {off: 300 * 24 * time.Hour},
		"behind":    {off: -2 * time.Hour},
		"no answer": {err: errors.New("refused")},
		"a little":  {off: 10 * time.Minute, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			now = server.Add(tc.off)
			cfg.Clock = func(context.Context) (time.Time, error) { return server, tc.err }
			if _, err := Ensure(t.Context(), apitest.Client(client), cfg); (err == nil) != tc.ok {
				t.Errorf("%v", err)
			}
			if diff := cmp.Diff(before, read(t, client)); diff != "" {
				t.Errorf("Secrets have changed:\n%s", diff)
			}
		})
	}
}

// A member's RAFT port has the authorities of its process.
func TestMembers_TrustEachOtherAndNoChassis(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	s := ensure(t, client, cfg)
	member := s["ovn-raft"]
	leaf := pair(t, member).Leaf
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: pool(member), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			t.Errorf("usage %d: %v", usage, err)
		}
	}
	verify(t, member, s["ovn-nb-client"][caKey], "nb.example", now)
	if !accepted(t, member, s["ovn-nb-client"], now) {
		t.Error("the controller is refused")
	}
	if accepted(t, member, chassisFiles(t, client, cfg, "chassis-1"), now) {
		t.Error("a chassis is accepted")
	}
	if accepted(t, s["ovn-sb-server"], s["ovn-nb-client"], now) {
		t.Error("the port for nodes accepts the controller")
	}
}
