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
	"k8s.io/client-go/kubernetes"

	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// podWriters is how many pods are annotated at once.
const podWriters = 16

// run watches Kubernetes and, once this process leads, drives the database.
func run(ctx context.Context, o options, log *slog.Logger) error {
	plan, err := o.plan()
	if err != nil {
		return err
	}
	client, err := kube.NewClient(kube.ClientConfig{Kubeconfig: o.kubeconfig, Server: o.apiserver, UserAgent: "ovn-offload-controller"})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c, err := newController(ctx, client, plan, log)
	if err != nil {
		return err
	}
	c.newLoops(log, registry)
	c.view.OnChange(c.mark)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveMetrics(ctx, o.metricsAddress, registry) })
	group.Go(func() error {
		if err := c.view.Start(ctx); err != nil {
			return err
		}
		host, _ := os.Hostname()
		leader := kube.DefaultLeader()
		leader.Namespace, leader.Identity = o.leaseNamespace, fmt.Sprintf("%s-%d-%d", host, os.Getpid(), time.Now().UnixNano())
		log.Info("waiting for the lease", "lease", leader.Namespace+"/"+leader.Name)
		return kube.RunLeader(ctx, client, leader, func(ctx context.Context) error { return c.lead(ctx, o, log, registry) })
	})
	return group.Wait()
}

func newController(ctx context.Context, client kubernetes.Interface, plan ipam.Config, log *slog.Logger) (*controller, error) {
	view, err := kube.NewView(client, "")
	if err != nil {
		return nil, err
	}
	report, err := kube.NewReporter(ctx, client, view, "ovn-offload-controller")
	if err != nil {
		return nil, err
	}
	alloc, err := ipam.New(plan)
	if err != nil {
		return nil, err
	}
	cfg := ovn.Config{ClusterSubnets: plan.Prefixes(), JoinSubnets: plan.JoinSubnets()}
	return &controller{
		view: view, write: kube.NewWriter(client), report: report,
		alloc: alloc, cfg: cfg, log: log,
	}, cfg.Validate()
}

func (c *controller) newLoops(log *slog.Logger, registry prometheus.Registerer) {
	loop := func(name string, workers, batch int, f reconcile.Func[kube.Owner]) *reconcile.Loop[kube.Owner] {
		cfg := reconcile.Defaults(name)
		cfg.Workers, cfg.BatchSize, cfg.Logger, cfg.Registerer = workers, batch, log, registry
		l := reconcile.New(cfg, f)
		l.OnFailure(c.report.Failure)
		return l
	}
	c.nodes = loop("node-allocation", 1, 1, c.allocateNodes)
	c.pods = loop("pod-allocation", podWriters, 1, c.allocatePods)
	c.rows = loop("rows", 1, 10, c.reconcileRows)
	c.nodes.MarkAllWith(c.ofKind(kube.KindNode))
	c.pods.MarkAllWith(c.ofKind(kube.KindPod))
	c.rows.MarkAllWith(c.everything)
}

// lead runs while this process holds the lease. What was allocated is rebuilt
// from the database's rows and the annotations before anything is decided.
func (c *controller) lead(ctx context.Context, o options, log *slog.Logger, registry prometheus.Registerer) error {
	schema, err := nb.ReplicaSchema()
	if err != nil {
		return err
	}
	cfg := ovsdb.Defaults(strings.Split(o.nb, ","), schema)
	cfg.Logger, cfg.Registerer, cfg.TLS = log, registry, o.clientTLS
	if c.db, err = ovsdb.Open(ctx, cfg); err != nil {
		return err
	}
	defer c.db.Close()
	c.alloc.Rebuild(c.view.Nodes(), c.view.Pods(), held(c.db))
	c.db.OnChange(func(names []string) {
		for _, name := range names {
			if owner, err := kube.ParseOwner(name); err == nil {
				c.rows.Mark(owner)
			}
		}
	})
	c.db.OnReconnect(c.rows.MarkAll)
	log.Info("leading", "nodes", len(c.view.Nodes()), "pods", len(c.view.Pods()))
	group, ctx := errgroup.WithContext(ctx)
	for _, loop := range []*reconcile.Loop[kube.Owner]{c.nodes, c.pods, c.rows} {
		group.Go(func() error { return loop.Run(ctx) })
	}
	return group.Wait()
}

// serveMetrics answers /metrics, /healthz and /readyz. A process that waits for
// the lease is ready: it is the stand-by.
func serveMetrics(ctx context.Context, address string, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	for _, path := range []string{"/healthz", "/readyz"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	}
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
