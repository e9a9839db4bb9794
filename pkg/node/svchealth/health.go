// Package svchealth answers the health checks of external load balancers: at the
// healthCheckNodePort of a Service with external traffic policy Local, in kube-proxy's form.
//
// Place in the data flow:
//
//	Services, EndpointSlices of the node -> Server -> HTTP answers at the node's addresses
//
// The body has the number of the Service's ready endpoints on this node. The status is 503
// without one, and while the node is not ready.
package svchealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

// Deps is what a Server asks.
type Deps struct {
	Services func() []*corev1.Service
	// Endpoints counts the ready endpoints on this node; 0 may be left out.
	Endpoints func(ctx context.Context, services []types.NamespacedName) (map[types.NamespacedName]int, error)
	// Ready says why the node does not serve its services now; nil when it does.
	Ready      func() error
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Server tells load balancers outside the cluster, at the health check
// ports of services, whether this node has endpoints: kube-proxy's answers.
type Server struct {
	deps    Deps
	loop    *reconcile.Single
	serving prometheus.Gauge
	servers map[types.NamespacedName]*responder // of the loop's goroutine only
}

type responder struct {
	http.Server
	port      uint16
	service   types.NamespacedName
	ready     func() error
	endpoints atomic.Int64
}

// New opens no port before Run.
func New(deps Deps) *Server {
	h := &Server{deps: deps, servers: map[types.NamespacedName]*responder{}, serving: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ovn_offload_services_health_check_ports", Help: "Health check ports of services that the node answers.",
	})}
	deps.Registerer.MustRegister(h.serving)
	lc := reconcile.Defaults("health-checks")
	lc.Logger, lc.Registerer = deps.Logger, deps.Registerer
	h.loop = reconcile.NewSingle(lc, h.pass)
	return h
}

// Mark asks for a look at services and endpoints.
func (h *Server) Mark() { h.loop.Mark() }

// Run answers until ctx ends.
func (h *Server) Run(ctx context.Context) error {
	err := h.loop.Run(ctx)
	for _, server := range h.servers {
		_ = server.Close()
	}
	return err
}

// pass closes first: two services may exchange their ports. While the endpoints
// cannot be read, their last number is served.
func (h *Server) pass(ctx context.Context) error {
	want := map[types.NamespacedName]uint16{}
	for _, s := range h.deps.Services() {
		if port := service.HealthCheckPort(s); port != 0 {
			want[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = port
		}
	}
	for name, server := range h.servers {
		if want[name] != server.port {
			_ = server.Close()
			delete(h.servers, name)
		}
	}
	names := slices.SortedFunc(maps.Keys(want), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	counts, err := h.deps.Endpoints(ctx, names)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		if server := h.servers[name]; server != nil {
			server.endpoints.Store(int64(counts[name]))
		} else {
			failed = append(failed, h.open(ctx, name, want[name], counts[name]))
		}
	}
	h.serving.Set(float64(len(h.servers)))
	return errors.Join(failed...)
}

func (h *Server) open(ctx context.Context, service types.NamespacedName, port uint16, endpoints int) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		return fmt.Errorf("health check port of service %s: %w", service, err)
	}
	server := &responder{port: port, service: service, ready: h.deps.Ready}
	server.endpoints.Store(int64(endpoints))
	server.Handler, server.ReadHeaderTimeout, server.IdleTimeout = http.HandlerFunc(server.answer), 5*time.Second, time.Minute
	go func() { _ = server.Serve(listener) }()
	h.servers[service] = server
	return nil
}

// answer has kube-proxy's body and headers, which load balancers read.
func (s *responder) answer(w http.ResponseWriter, _ *http.Request) {
	endpoints, healthy := s.endpoints.Load(), s.ready() == nil
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(endpoints, 10))
	if endpoints == 0 || !healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprintf(w, `{"service": {"namespace": %q, "name": %q}, "localEndpoints": %d, "serviceProxyHealthy": %t}`+"\n",
		s.service.Namespace, s.service.Name, endpoints, healthy)
}
