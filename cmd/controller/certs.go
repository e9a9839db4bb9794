package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
)

// certsCommand makes and renews the certificates of the databases.
func certsCommand(o *options, level *slog.Level) *cobra.Command {
	cfg := pki.Defaults()
	var nb, sb string
	var addresses expose.Config
	command := &cobra.Command{
		Use:   "certs",
		Short: "makes and renews the certificates of the OVN databases, in Secrets, and signs those of chassis",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.NBHosts, err = pki.Hosts(nb); err != nil {
				return fmt.Errorf("--nb: %w", err)
			}
			if cfg.SBHosts, err = pki.Hosts(sb); err != nil {
				return fmt.Errorf("--sb: %w", err)
			}
			client, err := api.New(api.Config{Kubeconfig: o.kubeconfig, Server: o.apiserver, UserAgent: "ovn-offload-certs"})
			if err != nil {
				return err
			}
			return certify(cmd.Context(), client, cfg, addresses, expose.Logger(os.Stderr, *level))
		},
	}
	flags := command.Flags()
	flags.StringVar(&cfg.Namespace, "namespace", "ovn-kubernetes", "namespace of the Secrets")
	flags.StringVar(&nb, "nb", "", "endpoints of the Northbound database, whose hosts are certified")
	flags.StringVar(&sb, "sb", "", "endpoints of the Southbound database, whose hosts are certified")
	flags.StringVar(&addresses.Local, "metrics-address", "127.0.0.1:9414", "where /metrics, /healthz and /readyz are served to the node itself")
	flags.StringVar(&addresses.Secure, "secure-metrics-address", "", "where /metrics is served over TLS to accounts that may get it, such as :9415; empty: nowhere")
	return command
}

// certify keeps the Secrets right, answers the requests of chassis, and serves metrics at the addresses.
func certify(ctx context.Context, client *api.Client, cfg pki.Config, addresses expose.Config, log *slog.Logger) error {
	registry := expose.NewRegistry(version)
	cfg.Clock = client.Time
	signer := chassis.NewSigner(client, cfg, log)
	if err := signer.Start(ctx); err != nil {
		return err
	}
	cfg.Chassis, cfg.Wake = signer.Chassis, signer.Wake()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return signer.Run(ctx) })
	group.Go(func() error { return pki.Run(ctx, client, cfg, log, registry) })
	addresses.Gatherer, addresses.Allowed, addresses.Logger = registry, client.Allowed, log
	addresses.Ready = func() error { return nil }
	group.Go(func() error { return expose.Run(ctx, addresses) })
	return group.Wait()
}

// clientTLS reads the files of a client certificate, its key and the authorities
// of a database's certificate.
func clientTLS(cert, key, ca string) func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		authorities, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("reading the authority of a database: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("%s holds no certificate", ca)
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate for a database: %w", err)
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
	}
}
