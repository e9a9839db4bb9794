package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/agents"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/web"
	"github.com/ovn-offload/ovn-offload/pkg/web/direct"
	"github.com/ovn-offload/ovn-offload/pkg/web/proxy"
)

func uiCommand() *cobra.Command {
	var o readOptions
	var port uint16
	cmd := &cobra.Command{
		Use: "ui", Args: cobra.NoArgs, Short: "the page: nodes, NICs, pods and paths in a browser",
		Long: "Ui serves the page on this machine alone, with your own rights, until it is interrupted.\nOpen the address that it prints: it has a token that signs in one browser, once.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			handler, err := o.page(cmd.Context())
			if err != nil {
				return err
			}
			return serveLocal(cmd.Context(), port, handler, cmd.OutOrStdout())
		},
	}
	o.clusterFlags(cmd)
	cmd.Flags().StringVar(&o.from, "from", "", "archive of kubectl offload sysdump, in place of a cluster")
	cmd.Flags().BoolVar(&o.direct, "direct", false, "read the API server alone, also where a relay is")
	cmd.Flags().Uint16Var(&port, "port", 0, "port of 127.0.0.1; 0: any that is free")
	return cmd
}

// page shows what the relay has, if there is one, and otherwise what the API server has. The relay has no access to OVN's
// databases: paths are computed here, and flows are named here for users who may run commands beside the databases.
func (o *readOptions) page(ctx context.Context) (http.Handler, error) {
	facts, err := o.facts()
	if err != nil {
		return nil, err
	}
	page := (&web.Server{Period: direct.Refresh, Facts: func(*http.Request) (web.Facts, error) { return facts, nil }}).Handler()
	if o.direct || o.from != "" {
		return page, nil
	}
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	relay, err := proxy.Find(ctx, rc, o.system, o.lookup.Warn)
	if err != nil || relay == nil {
		return page, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.Handle("GET /api/v1/views/{view}", relay)
	mux.Handle("GET /api/v1/stream/{view}", relay)
	own := []string{"path"}
	if may, err := proxy.MayExec(ctx, rc, o.system); err == nil && may { // users whose rights are not known have what the relay gives
		own = append(own, "pod", "flows", "map", "policies")
	}
	for _, view := range own {
		mux.Handle("GET /api/v1/views/"+view, page)
		mux.Handle("GET /api/v1/stream/"+view, page)
	}
	return mux, nil
}

// serveLocal serves a handler on the loopback address. It prints a token, and answers only requests with this token.
func serveLocal(ctx context.Context, port uint16, handler http.Handler, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	token := web.NewToken()
	server := &http.Server{Handler: web.Local(token, handler), ReadHeaderTimeout: readTimeout, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	fmt.Fprintf(out, "http://%s/?token=%s\n", listener.Addr(), token)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// facts are those of a cluster, or of an archive.
func (o *readOptions) facts() (*direct.Facts, error) {
	options := *o
	options.namespace = "default" // the page names namespaces
	cfg := direct.Config{System: o.system, Flows: o.flowsOf, Live: options.live}
	if o.from != "" {
		archive, err := openArchive(o.from)
		cfg.Archive = archive
		return direct.New(cfg), err
	}
	from, err := o.lister()
	if err != nil {
		return nil, err
	}
	cfg.From, cfg.Trace = from, options.trace
	return direct.New(cfg), nil
}

// flowsOf asks the agents of nodes.
func (o *readOptions) flowsOf(ctx context.Context, pods []corev1.Pod, nodes []string, q flowapi.Query) ([]*flowapi.Flows, []string, error) {
	cluster, err := o.cluster()
	if err != nil {
		return nil, nil, err
	}
	from := byexec.Agents{Cluster: cluster, Pods: pods}
	var unknown []string
	if slices.ContainsFunc(nodes, func(node string) bool { return !from.Has(node) }) {
		places, err := o.places()
		if err != nil {
			return nil, nil, err
		}
		if unknown, err = agents.AddDPUs(ctx, &from, places); err != nil {
			return nil, nil, err
		}
	}
	answers, missing := from.Named(ctx, nodes, q)
	return answers, append(unknown, missing...), nil
}
