// ovn-offload-relay serves the page and its API for a whole cluster: it asks the agents of all nodes, and shows each caller
// what Kubernetes lets him see.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/relay"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// version is set by the linker.
var version = "dev" //nolint:gochecknoglobals // -ldflags -X needs a variable

// options are the flags.
type options struct {
	api       api.Config
	namespace string
	listen    string
	cert, key string
	token     string
	metrics   expose.Config
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "ovn-offload-relay:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	var level slog.Level
	root := &cobra.Command{
		Use: "ovn-offload-relay", Short: "serves the page and its API for a cluster", Version: version, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
		},
	}
	flags := root.Flags()
	flags.StringVar(&o.api.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	flags.StringVar(&o.api.Server, "apiserver", "", "URL of the API server; empty: as the kubeconfig or the cluster says")
	flags.StringVar(&o.namespace, "namespace", "ovn-kubernetes", "namespace of the network's own pods")
	flags.StringVar(&o.listen, "listen-address", ":9417", "where the page, its API, /healthz and /readyz are served over TLS")
	flags.StringVar(&o.cert, "cert", "", "certificate by which agents know the relay")
	flags.StringVar(&o.key, "key", "", "its private key")
	flags.StringVar(&o.token, "names-token", "", "file with a token of the relay by which the leading controller knows it; empty: flows have no names")
	flags.StringVar(&o.metrics.Local, "metrics-address", "127.0.0.1:9418", "where /metrics is served to the pod itself")
	flags.StringVar(&o.metrics.Secure, "secure-metrics-address", "", "where /metrics is served over TLS to accounts that may get it, such as :9419; empty: nowhere")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	return root
}

// period is the time between two looks at the facts while a view is open.
const period = 5 * time.Second

func run(ctx context.Context, o options, log *slog.Logger) error {
	o.api.UserAgent = "ovn-offload-relay"
	objects, err := api.NewDynamic(o.api)
	if err != nil {
		return err
	}
	client, err := api.New(o.api)
	if err != nil {
		return err
	}
	followed, err := relay.NewFollowed(objects, o.namespace)
	if err != nil {
		return err
	}
	directory := &relay.Directory{Objects: followed.Snapshot, Certificate: o.certificate}
	gathered := relay.NewGathered(directory.Agents)
	r := relay.New(followed, relay.NewReviewer(relay.APIServer{Client: objects}), directory.Agents, gathered, o.names(followed))
	page := &web.Server{Facts: r.Facts, Period: period, Admit: r.Admit}
	registry := expose.NewRegistry(version)
	gathered.Register(registry)
	o.metrics.Gatherer, o.metrics.Allowed, o.metrics.Ready, o.metrics.Logger = registry, client.Allowed, followed.Synced, log
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return followed.Run(ctx) })
	group.Go(func() error {
		if err := synced(ctx, followed.Synced); err != nil {
			return err
		}
		return gathered.Run(ctx)
	})
	group.Go(func() error { return expose.Run(ctx, o.metrics) })
	group.Go(func() error {
		return serve(ctx, o.listen, handler(page.Handler(), r.NodesHandler(), followed.Synced), log)
	})
	return group.Wait()
}

// synced waits until the objects are read: before that the agents are not known.
func synced(ctx context.Context, yet func() error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for yet() != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// certificate reads the relay's own: it is renewed while the relay runs.
func (o options) certificate() (*tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, fmt.Errorf("reading the relay's certificate: %w", err)
	}
	return &certificate, nil
}

// names asks the leading controller for those of flows; nil: none.
func (o options) names(followed *relay.Followed) flownames.Asker {
	if o.token == "" {
		return nil
	}
	return &relay.Leader{Objects: followed.Snapshot, Token: func() (string, error) { // it is renewed while the relay runs
		text, err := os.ReadFile(o.token)
		if err != nil {
			return "", fmt.Errorf("reading the relay's token: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	}}
}

// handler adds the probes of the kubelet.
func handler(page, nodes http.Handler, synced func() error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.Handle(flowapi.NodesPath, nodes)
	mux.Handle(flowapi.NodesPath+"/", nodes)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := synced(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// serve serves over TLS. The certificate protects tokens on the network; the API server, through which clients come, does
// not compare names.
func serve(ctx context.Context, address string, handler http.Handler, log *slog.Logger) error {
	certificate, err := expose.SelfSigned()
	if err != nil {
		return fmt.Errorf("serving the page: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving the page: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	return expose.Serve(ctx, tls.NewListener(listener, config), handler, log)
}
