// Package health says whether the node works: to load balancers of clouds at kube-proxy's port, and to users by an Event
// of the Node.
//
// Place in the data flow:
//
//	pkg/agent: readiness of services, Node object -> Server -> GET /healthz, /livez at TCP 10256
//	pkg/node/gateway: why the set-up waits -> Reason -> Event, NodeOffload
//
// Clouds send the traffic of a service with externalTrafficPolicy Cluster to the nodes that answer 200 at this port (KEP
// 3836, connection draining). pkg/node/svchealth answers for each service with the policy Local.
package health

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/expose"
)

// portPause is the time between two attempts to open the port. kube-proxy has the port while a cluster migrates.
const portPause = 10 * time.Second

// Deps is what a Server asks.
type Deps struct {
	// Ready says why the node does not serve the cluster's services now; nil when it does.
	Ready func() error
	// Node is nil while the Node object is not known.
	Node   func() *corev1.Node
	Logger *slog.Logger
}

// Server answers as kube-proxy does.
type Server struct {
	address string
	deps    Deps
	updated atomic.Pointer[time.Time] // the last time that the node was ready
}

// New makes the server of an address such as ":10256"; "" for none.
func New(address string, deps Deps) *Server {
	s := &Server{address: address, deps: deps}
	s.updated.Store(&time.Time{})
	return s
}

// Run answers until ctx ends. It waits for a port that another process has.
func (s *Server) Run(ctx context.Context) error {
	if s.address == "" {
		return nil
	}
	for waits := false; ; waits = true {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
		if err == nil {
			return expose.Serve(ctx, listener, s.handler(), s.deps.Logger)
		}
		if !waits {
			s.deps.Logger.Warn("the agent does not answer load balancers before it gets the port: stop kube-proxy, or set services.healthPort",
				"address", s.address, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(portPause):
		}
	}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, isEligible(s.deps.Node())) })
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { s.answer(w, true) })
	return mux
}

// answer has the fields of kube-proxy's. At /livez a node that will be deleted is as good as any.
func (s *Server) answer(w http.ResponseWriter, eligible bool) {
	now := time.Now().Round(0) // without the monotonic clock
	ready := s.deps.Ready() == nil
	if ready {
		s.updated.Store(&now)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !ready || !eligible {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprintf(w, `{"lastUpdated": %q, "currentTime": %q, "nodeEligible": %t}`+"\n", s.updated.Load(), now, eligible)
}

// isEligible reports whether new connections may come by this node: one that will be deleted gets none.
func isEligible(node *corev1.Node) bool {
	return node == nil || node.DeletionTimestamp == nil &&
		!slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == contract.DeletionTaint })
}
