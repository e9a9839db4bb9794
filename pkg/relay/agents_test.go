package relay

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// TestDirectory_KnowsAgentsByTheirFingerprint: another certificate at the same address gets no question.
func TestDirectory_KnowsAgentsByTheirFingerprint(t *testing.T) {
	_, from := world(own, foreign)
	asked := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if len(r.TLS.PeerCertificates) != 1 {
			t.Error("the relay shows no certificate")
		}
		flowapi.Handler(from).ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	sum := sha256.Sum256(server.Certificate().Raw)
	agent := map[string]any{"address": server.Listener.Addr().String(), "fingerprint": hex.EncodeToString(sum[:])}
	s := snapshot.New(time.Now(), "ovn-kubernetes")
	for name, status := range map[string]map[string]any{"w1": {"agent": agent}, "w2": {}} {
		s.Add(snapshot.NodeOffloads, map[string]any{"metadata": map[string]any{"name": name}, "status": status})
	}
	d := &Directory{
		Objects:     func() *snapshot.Snapshot { return s },
		Certificate: func() (*tls.Certificate, error) { return &server.TLS.Certificates[0], nil },
	}
	agents := d.Agents()
	if len(agents) != 1 {
		t.Fatalf("%d agents, want w1 alone", len(agents))
	}
	if summary, err := agents["w1"].Summary(t.Context(), false); err != nil || summary.Node != "w1" || asked != 1 {
		t.Errorf("%v, %v, asked %d times", summary, err, asked)
	}
	if again := d.Agents(); again["w1"].(flowapi.Client).HTTP != agents["w1"].(flowapi.Client).HTTP {
		t.Error("each look makes a new client")
	}
	agent["fingerprint"] = strings.Repeat("0", 64)
	if _, err := d.Agents()["w1"].Summary(t.Context(), false); err == nil || asked != 1 {
		t.Errorf("another certificate: %v, asked %d times", err, asked)
	}
}
