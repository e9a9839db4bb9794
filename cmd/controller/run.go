package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/controller"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
)

// run watches Kubernetes and, once this process leads, drives the database.
func run(ctx context.Context, o options, log *slog.Logger) error {
	plan, err := o.plan()
	if err != nil {
		return err
	}
	server := api.Config{Kubeconfig: o.kubeconfig, Server: o.apiserver, UserAgent: "ovn-offload-controller"}
	client, err := api.New(server)
	if err != nil {
		return err
	}
	objects, err := api.NewDynamic(server)
	if err != nil {
		return err
	}
	leases, err := leader.NewLeases(server)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	host, _ := os.Hostname()
	lead := leader.Defaults()
	lead.Namespace, lead.Identity = o.leaseNamespace, fmt.Sprintf("%s-%d-%d", host, os.Getpid(), time.Now().UnixNano())
	group, ctx := errgroup.WithContext(ctx)
	cfg := controller.Config{
		Plan: plan, Northbound: strings.Split(o.nb, ","), TLS: clientTLS(o.nbCert, o.nbKey, o.nbCA),
		Dynamic: objects, Leader: lead, Leases: leases, Logger: log, Registerer: registry,
	}
	if o.sb != "" {
		cfg.Southbound, cfg.SouthboundTLS = strings.Split(o.sb, ","), clientTLS(o.sbCert, o.sbKey, o.sbCA)
	}
	c, err := controller.New(ctx, cfg, client)
	if err != nil {
		return err
	}
	group.Go(func() error { return serveMetrics(ctx, o.metricsAddress, registry, c.Ready) })
	group.Go(func() error { return c.Run(ctx) })
	return group.Wait()
}

// serveMetrics answers /metrics, /healthz and /readyz. A process that waits for
// the lease is ready: it is the stand-by.
func serveMetrics(ctx context.Context, address string, registry *prometheus.Registry, ready func() error) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving metrics: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}
