package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

func uiCommand() *cobra.Command {
	var o readOptions
	var port uint16
	var direct bool
	cmd := &cobra.Command{
		Use: "ui", Args: cobra.NoArgs, Short: "the page: nodes, NICs, pods and paths in a browser",
		Long: "Ui serves the page on this machine alone, with your own rights, until it is interrupted.\nOpen the address that it prints: it has a token that is valid as long as the command runs.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			handler, err := o.page(cmd.Context(), direct)
			if err != nil {
				return err
			}
			return serveLocal(cmd.Context(), port, handler, cmd.OutOrStdout())
		},
	}
	o.clusterFlags(cmd)
	cmd.Flags().StringVar(&o.from, "from", "", "archive of kubectl offload sysdump, in place of a cluster")
	cmd.Flags().BoolVar(&direct, "direct", false, "read the API server alone, also where a relay is")
	cmd.Flags().Uint16Var(&port, "port", 0, "port of 127.0.0.1; 0: any that is free")
	return cmd
}

// page shows what the relay has, if there is one, and otherwise what the API server has. Paths are computed here.
func (o *readOptions) page(ctx context.Context, direct bool) (http.Handler, error) {
	facts, err := o.facts()
	if err != nil {
		return nil, err
	}
	page := (&web.Server{Period: refresh, Facts: func(*http.Request) (web.Facts, error) { return facts, nil }}).Handler()
	if direct || o.from != "" {
		return page, nil
	}
	relay, err := o.findRelay(ctx)
	if err != nil || relay == nil {
		return page, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.Handle("GET /api/v1/views/{view}", relay)
	mux.Handle("GET /api/v1/stream/{view}", relay)
	mux.Handle("GET /api/v1/views/path", page)
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

// refresh is how old the facts of the page get while it is looked at.
const refresh = 10 * time.Second

// pageFacts are those of a cluster, or of an archive.
type pageFacts struct {
	options *readOptions
	archive *snapshot.Snapshot

	mu   sync.Mutex
	read *snapshot.Snapshot
	at   time.Time
}

func (o *readOptions) facts() (*pageFacts, error) {
	f := &pageFacts{options: o}
	if o.from == "" {
		return f, nil
	}
	var err error
	f.archive, err = openArchive(o.from)
	return f, err
}

// Snapshot implements web.Facts. All views share one.
func (f *pageFacts) Snapshot(ctx context.Context, _ web.Want) (*snapshot.Snapshot, error) {
	if f.archive != nil {
		return f.archive, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read != nil && time.Since(f.at) < refresh {
		return f.read, nil
	}
	s, err := f.options.snapshot(ctx, snapshot.All()...)
	if err != nil {
		return nil, err
	}
	f.read, f.at = s, time.Now()
	return s, nil
}

// Trace implements web.Facts.
func (f *pageFacts) Trace(ctx context.Context, from, to string) (*answer.Traced, error) {
	if f.archive != nil {
		return nil, errors.New("an archive has no databases of OVN to trace in")
	}
	options := *f.options
	options.namespace = "default" // the page names namespaces
	return options.trace(ctx, from, to)
}

// Flows implements web.Facts.
func (*pageFacts) Flows(context.Context, string, string) (*web.FlowList, error) {
	return nil, web.ErrNoRelay
}

// Traffic implements web.Facts.
func (*pageFacts) Traffic(context.Context) (*web.Traffic, error) { return nil, web.ErrNoRelay }
