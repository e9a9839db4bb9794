package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
	"github.com/ovn-offload/ovn-offload/pkg/web/proxy"
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

// page shows what the relay has, if there is one, and otherwise what the API server has. Paths are computed here, and the names
// of policies are read here.
func (o *readOptions) page(ctx context.Context, direct bool) (http.Handler, error) {
	facts, err := o.facts()
	if err != nil {
		return nil, err
	}
	page := (&web.Server{Period: refresh, Facts: func(*http.Request) (web.Facts, error) { return facts, nil }}).Handler()
	if direct || o.from != "" {
		return page, nil
	}
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	relay, err := proxy.Find(ctx, rc, o.system)
	if err != nil || relay == nil {
		return page, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.Handle("GET /api/v1/views/{view}", relay)
	mux.Handle("GET /api/v1/stream/{view}", relay)
	for _, view := range []string{"path", "policies"} { // the relay has no access to OVN's databases
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

// refresh is how old the facts of the page get while it is looked at.
const refresh = 10 * time.Second

// pageFacts are those of a cluster, or of an archive.
type pageFacts struct {
	options *readOptions
	archive *snapshot.Snapshot

	mu   sync.Mutex
	read *snapshot.Snapshot
	at   time.Time

	asking sync.Mutex
	// streams are those of the namespaces that were asked for last.
	streams    *web.StreamList
	namespaces []string
	until      time.Time
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

// Streams implements web.Facts, by the agents of the nodes with pods of the namespaces.
func (f *pageFacts) Streams(ctx context.Context, namespaces []string) (*web.StreamList, error) {
	s, err := f.Snapshot(ctx, web.Want{})
	if err != nil {
		return nil, err
	}
	if f.archive != nil {
		return web.NewStreamList(s, s.Flows(""), namespaces, nil)
	}
	f.asking.Lock()
	defer f.asking.Unlock()
	if slices.Equal(f.namespaces, namespaces) && time.Now().Before(f.until) {
		return f.streams, nil
	}
	hosts, all, err := web.Hosts(s, namespaces)
	if err != nil {
		return nil, err
	}
	flows, missing, err := f.options.readAll(ctx, s, hosts, namespaces)
	if err != nil {
		return nil, err
	}
	if all > len(hosts) {
		missing = append(missing, fmt.Sprintf("flows of %d nodes: at most %d are asked, choose fewer namespaces", all-len(hosts), len(hosts)))
	}
	if f.streams, err = web.NewStreamList(s, flows, namespaces, missing); err != nil {
		return nil, err
	}
	f.namespaces, f.until = namespaces, time.Now().Add(refresh)
	return f.streams, nil
}

// readAll reads the flows of namespaces on nodes, with their names.
func (o *readOptions) readAll(ctx context.Context, s *snapshot.Snapshot, nodes, namespaces []string) (flows []flowapi.Flow, missing []string, err error) {
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := o.cluster()
	if err != nil {
		return nil, nil, err
	}
	from := agents{byexec.Agents{Cluster: cluster, Pods: pods}}
	seen := map[string]bool{} // flows between two of the namespaces
	for _, namespace := range namespaces {
		some, left, err := from.flows(ctx, nodes, flowapi.Query{Namespace: namespace, Why: true})
		if err != nil {
			return nil, nil, err
		}
		missing = append(missing, left...)
		for _, f := range some {
			if key := f.Node + "/" + f.ID; !seen[key] {
				seen[key] = true
				flows = append(flows, f)
			}
		}
	}
	slices.Sort(missing)
	return flows, slices.Compact(missing), nil
}
