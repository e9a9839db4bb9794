package health

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// TestServer_AnswersLikeKubeProxy: what a cloud's load balancer gets, by the state of the node.
func TestServer_AnswersLikeKubeProxy(t *testing.T) {
	tainted := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: contract.DeletionTaint, Effect: corev1.TaintEffectNoSchedule}}}}
	other := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/unschedulable"}}}}
	deleted := &corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	for name, tt := range map[string]struct {
		node          *corev1.Node
		ready         error
		health, livez int
		eligible      bool
	}{
		"ready":              {&corev1.Node{}, nil, 200, 200, true},
		"cordoned":           {other, nil, 200, 200, true},
		"services not known": {&corev1.Node{}, errors.New("services are not known"), 503, 503, true},
		"deleted":            {deleted, nil, 503, 200, false},
		"autoscaler":         {tainted, nil, 503, 200, false},
	} {
		s := New("", Deps{Ready: func() error { return tt.ready }, Node: func() *corev1.Node { return tt.node }, Logger: slog.New(slog.DiscardHandler)})
		for path, want := range map[string]int{"/healthz": tt.health, "/livez": tt.livez, "/metrics": 404} {
			w := httptest.NewRecorder()
			s.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != want {
				t.Errorf("%s: %s answers %d, want %d", name, path, w.Code, want)
			}
			if want == 404 {
				continue
			}
			var body struct {
				LastUpdated, CurrentTime string
				NodeEligible             bool
			}
			nodetest.Must(t, json.Unmarshal(w.Body.Bytes(), &body))
			if (body.LastUpdated == body.CurrentTime) != (tt.ready == nil) || path == "/healthz" && body.NodeEligible != tt.eligible {
				t.Errorf("%s: %s answers %s", name, path, w.Body)
			}
		}
	}
}

// TestServer_WaitsForPort: kube-proxy has it while a cluster migrates.
func TestServer_WaitsForPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	nodetest.Must(t, err)
	defer taken.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s := New(taken.Addr().String(), Deps{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a port that is in use ends the agent: %v", err)
	}
}
