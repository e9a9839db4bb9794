package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

func (a *agent) serveHTTP(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.problem(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Addr: a.opts.metrics, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

// probes reach the API server and the Southbound databases.
func probes(client *api.Client, remotes string) map[string]func(context.Context) error {
	server := client.Server
	port := server.Port()
	if port == "" {
		port = "443"
	}
	targets := map[string]string{"API server": net.JoinHostPort(server.Hostname(), port)}
	for remote := range strings.SplitSeq(remotes, ",") {
		if _, address, ok := strings.Cut(remote, ":"); ok {
			targets["Southbound database at "+address] = address
		}
	}
	out := map[string]func(context.Context) error{}
	for name, address := range targets {
		out[name] = func(ctx context.Context) error {
			dialer := net.Dialer{Timeout: 3 * time.Second}
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return conn.Close()
		}
	}
	return out
}
