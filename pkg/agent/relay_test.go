package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/relay"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// onDPU is the agent of a DPU.
type onDPU struct{ flowapi.Source }

func (onDPU) Summary(context.Context, bool) (*flowapi.Summary, error) {
	return &flowapi.Summary{Node: "bf3-1", Pods: []flowapi.PodSummary{}}, nil
}

// TestFlows_OfADPUInAnotherCluster: the relay finds the agent of the DPU by the NodeOffload of the host, and the agent knows the relay by
// its certificate. The API server of the DPU's cluster knows no account of the relay's. The relay of a third network has a certificate, too.
func TestFlows_OfADPUInAnotherCluster(t *testing.T) {
	own, authorities := identities(t)
	foreign, _ := identities(t)
	certificate, err := expose.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	noAccount := func(context.Context, string, authorizationv1.ResourceAttributes) (bool, error) {
		asked++
		return false, errors.New("the token is of another cluster")
	}
	server := httptest.NewUnstartedServer(guardFlows(flowapi.Handler(onDPU{}), func(state *tls.ConnectionState) bool { return isRelay(state, authorities) }, noAccount))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	s := snapshot.New(time.Now(), "ovn-kubernetes")
	s.Add(snapshot.NodeOffloads, map[string]any{"metadata": map[string]any{"name": "worker-1"}, "status": map[string]any{
		"agent": map[string]any{"address": server.Listener.Addr().String(), "fingerprint": expose.Fingerprint(certificate)},
	}})
	for _, tc := range []struct {
		relay tls.Certificate
		want  string
	}{{own["relay"][0], ""}, {foreign["relay"][0], "401"}} {
		d := &relay.Directory{
			Objects:     func() *snapshot.Snapshot { return s },
			Certificate: func() (*tls.Certificate, error) { return &tc.relay, nil },
		}
		summary, err := d.Agents()["worker-1"].Summary(t.Context(), false)
		if tc.want == "" && (err != nil || summary.Node != "bf3-1") || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v, %v, want %q", summary, err, tc.want)
		}
	}
	if asked != 0 {
		t.Errorf("the API server was asked %d times", asked)
	}
}
