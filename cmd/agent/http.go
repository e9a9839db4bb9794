package main

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// serveHTTP answers before the API server does: only tokens wait for that.
func (a *agent) serveHTTP(ctx context.Context, client *api.Client) error {
	return expose.Run(ctx, expose.Config{
		Local: a.opts.metrics.local, Secure: a.opts.metrics.secure, Gatherer: a.metrics, Ready: a.problem,
		Allowed: client.Allowed, Logger: a.opts.log,
	})
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
