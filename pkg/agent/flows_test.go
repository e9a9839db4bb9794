package agent

import (
	"context"
	"crypto"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
)

// identities are certificates of clients: the relay's, that of a chassis that calls itself so, and one that the relay has
// signed itself. The authorities are those of the chassis.
func identities(t *testing.T) (clients map[string][]tls.Certificate, authorities []byte) {
	t.Helper()
	set := fake.NewClientset()
	client, cfg := apitest.Client(set), pki.Defaults()
	cfg.NBHosts, cfg.SBHosts = []string{"192.0.2.1"}, []string{"192.0.2.1"}
	if _, err := pki.Ensure(t.Context(), client, cfg); err != nil {
		t.Fatal(err)
	}
	secret := func(name string) map[string][]byte {
		s, err := set.CoreV1().Secrets(cfg.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Data
	}
	relay, err := tls.X509KeyPair(secret("ovn-relay")[corev1.TLSCertKey], secret("ovn-relay")[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	own, err := expose.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := pki.SignChassis(t.Context(), client, cfg, pki.RelayOrganization, own.PrivateKey.(crypto.Signer).Public())
	if err != nil {
		t.Fatal(err)
	}
	chassis := own
	if chassis.Certificate, err = ders(signed); err != nil {
		t.Fatal(err)
	}
	return map[string][]tls.Certificate{"none": nil, "relay": {relay}, "chassis": {chassis}, "own": {own}}, secret("ovn-chassis-ca")[corev1.TLSCertKey]
}

// review knows two accounts.
func review(_ context.Context, token string, what authorizationv1.ResourceAttributes) (bool, error) {
	if what.Verb != "list" || what.Group != "ovn-offload.io" || what.Resource != "podflows" || what.Namespace != "" {
		return false, errors.New("another right")
	}
	return token == "admin", nil
}

func TestGuardFlows_LetsRelayAndAccountsWithTheRightPass(t *testing.T) {
	clients, authorities := identities(t)
	relay := func(state *tls.ConnectionState) bool { return isRelay(state, authorities) }
	server := httptest.NewUnstartedServer(guardFlows(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "flows")
	}), relay, review))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	for _, tc := range []struct {
		client, token string
		want          int
	}{
		{"relay", "", 200},
		{"relay", "tenant", 200},
		{"none", "", 401},
		{"none", "admin", 200},
		{"none", "tenant", 403},
		{"chassis", "", 401},
		{"chassis", "tenant", 403},
		{"own", "", 401},
	} {
		web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: clients[tc.client]}}}
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/flows", nil)
		if tc.token != "" {
			request.Header.Set("Authorization", "Bearer "+tc.token)
		}
		response, err := web.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != tc.want || (string(body) == "flows") != (tc.want == 200) {
			t.Errorf("certificate %s, token %q: %s %s, want %d", tc.client, tc.token, response.Status, body, tc.want)
		}
	}
	if isRelay(nil, authorities) || isRelay(&tls.ConnectionState{}, authorities) {
		t.Error("a caller without a certificate is the relay")
	}
}

// ders reads certificates in PEM.
func ders(text []byte) ([][]byte, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no certificate")
	}
	return [][]byte{block.Bytes}, nil
}
