// Package expose serves the metrics and the health of a process, and writes its log. On the loopback address it serves plain HTTP without
// credentials, for the kubelet's probes and for curl on the node. On other addresses it requires TLS. Metrics name
// namespaces and pods, so /metrics there also requires the token of an account that may get this path.
//
// Place in the data flow: the packages count in a Prometheus registry, and this package serves the registry. It asks
// the API server about tokens (TokenReview, SubjectAccessReview). It is a package of its own because the agent and the
// controller both need it and share nothing else.
package expose

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

// Config has the addresses, the metrics and the checks of a server.
type Config struct {
	// Local is the address for plain HTTP, of the loopback interface.
	Local string
	// Secure is the address for TLS; "": none.
	Secure string
	// Certificate is that of Secure; nil: one that is made at the start.
	Certificate *tls.Certificate
	// More are further paths at Secure. They ask who the caller is.
	More map[string]http.Handler
	// Gatherer has the metrics.
	Gatherer prometheus.Gatherer
	// Ready is the answer of /readyz.
	Ready func() error
	// Allowed asks whether the holder of a token may get a path.
	Allowed func(ctx context.Context, token, path string) (bool, error)
	// Logger gets the errors of the TLS server.
	Logger *slog.Logger
}

// NewRegistry has what every process has: its version, and its use of memory and time. Of the Go runtime it has only
// what does not take 25 series on each node.
func NewRegistry(version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorMemStatsMetricsDisabled(), collectors.WithoutGoCollectorRuntimeMetrics(regexp.MustCompile("."))),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ovn_offload_build_info", Help: "1; the label is the version of the process.", ConstLabels: prometheus.Labels{"version": version},
		}, func() float64 { return 1 }),
	)
	return registry
}

// Run serves until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	address, _, err := net.SplitHostPort(cfg.Local)
	if ip := net.ParseIP(address); err != nil || ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("serving metrics: %q is not ADDRESS:PORT of the loopback interface", cfg.Local)
	}
	mux := cfg.handler()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx, cfg.Local, nil, mux, cfg.Logger) })
	if cfg.Secure != "" {
		if cfg.Certificate == nil {
			certificate, err := SelfSigned()
			if err != nil {
				return fmt.Errorf("serving metrics: %w", err)
			}
			cfg.Certificate = &certificate
		}
		config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cfg.Certificate}}
		metrics := http.NewServeMux() // health is for the node itself
		for path, handler := range cfg.More {
			metrics.Handle(path, handler)
		}
		metrics.Handle("/metrics", NewGuard(mux, "get /metrics", func(ctx context.Context, token string) (bool, error) {
			return cfg.Allowed(ctx, token, "/metrics")
		}))
		group.Go(func() error { return serve(ctx, cfg.Secure, config, metrics, cfg.Logger) })
	}
	return group.Wait()
}

func (c Config) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(c.Gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

func serve(ctx context.Context, address string, config *tls.Config, handler http.Handler, log *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving metrics: %w", err)
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	if err := Serve(ctx, listener, handler, log); err != nil {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

// maxHeader leaves room for a token of an account with many groups, in two headers.
const maxHeader = 64 << 10

// Serve serves until ctx ends.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// SelfSigned makes a certificate that protects tokens on the network. Clients do not check its name, as with the
// kubelet's own certificate.
func SelfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "ovn-offload"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}, err
}

// Fingerprint is the SHA-256 of a certificate, by which clients know it.
func Fingerprint(certificate tls.Certificate) string {
	sum := sha256.Sum256(certificate.Certificate[0])
	return hex.EncodeToString(sum[:])
}

// tokenOf is the bearer token of a request; "": none.
func tokenOf(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return strings.TrimSpace(token)
}
