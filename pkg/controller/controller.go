// Package controller joins the parts of the central process: what Kubernetes says
// (pkg/kube), what is allocated (pkg/ipam), what should be in the Northbound
// database (pkg/ovn) and what is in it (pkg/ovsdb).
//
// It is a package of its own, above all of these, because the binary's main only
// reads flags, and because the way from an event to a row is what has to be tested.
//
// Data flow: informer events and database changes mark owners in three loops of
// pkg/reconcile.
//
//	nodes   allocate a subnet and an id, record them in the Node's annotations
//	pods    allocate addresses, record them in the Pod's annotation
//	rows    ovn.Build, ovsdb.Commit; then free what has no row any more
//	chassis remove what nodes that are gone have left in the Southbound database
//
// Only the leader runs the loops. It starts by rebuilding the allocator from the
// database's rows and the annotations.
package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// podWriters is how many pods are annotated at once.
const podWriters = 16

// Config is what the binary's flags say.
type Config struct {
	Plan ipam.Config
	// RenumberNodes allows a Plan by which pods that run get other addresses.
	RenumberNodes bool
	// Northbound are the database's endpoints; TLS is asked at each connection.
	Northbound []string
	TLS        func() (*tls.Config, error)
	// Southbound is where the chassis of nodes that are gone are removed; empty:
	// that is left to others.
	Southbound    []string
	SouthboundTLS func() (*tls.Config, error)
	// Dynamic reads policies for the whole cluster; nil for none.
	Dynamic    dynamic.Interface
	Leader     leader.Config
	Leases     coordination.LeasesGetter
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Controller is one candidate for the zone's controller.
type Controller struct {
	cfg     Config
	network contract.Network
	view    *kube.View
	write   *kube.Writer
	report  *kube.Reporter
	alloc   *ipam.Allocator
	values  *ovn.ServiceValues
	log     *slog.Logger

	// db is there while this process leads, and end says why it has to stop. claimed
	// is of the loop of rows.
	db      *ovsdb.DB
	end     context.CancelCauseFunc
	claimed bool
	guard   ovsdb.Guard
	limits  limits
	// warned is what the authors of policies and services were last told.
	warned sync.Map
	// removed are chassis that are not in the Southbound database any more.
	removed sync.Map
	// outcomes are conditions, by policy for the whole cluster.
	outcomes sync.Map

	// What Ready is asked for from other goroutines; opened is db.
	synced, leading atomic.Bool
	opened          atomic.Pointer[ovsdb.DB]

	loops
}

type loops struct {
	nodes, pods, rows, statuses, chassis *reconcile.Loop[contract.Owner]
}

// New makes a Controller; its Events are recorded until ctx ends.
func New(ctx context.Context, cfg Config, client *api.Client) (*Controller, error) {
	view, err := kube.NewView(client, "")
	if err != nil {
		return nil, err
	}
	alloc, err := ipam.New(cfg.Plan)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		cfg: cfg, view: view, write: kube.NewWriter(client), alloc: alloc, values: ovn.NewServiceValues(), log: cfg.Logger,
		limits:  limits{counted: map[contract.Owner]int{}, beyond: map[contract.Owner][]contract.Owner{}},
		report:  kube.NewReporter(ctx, client, view, "ovn-offload-controller"),
		network: cfg.Plan.Network(),
	}
	c.nodes = c.loop("node-allocation", 1, 1, c.allocateNodes)
	c.pods = c.loop("pod-allocation", podWriters, 1, c.allocatePods)
	c.rows = c.loop("rows", 1, 10, c.reconcileRows)
	c.statuses = c.loop("policy-status", 1, 1, c.writeStatuses)
	c.chassis = c.loop("chassis", 1, 1, c.dropChassis)
	c.nodes.MarkAllWith(func() []contract.Owner { return c.all(contract.KindNode) })
	c.pods.MarkAllWith(func() []contract.Owner { return c.all(contract.KindPod) })
	c.rows.MarkAllWith(c.everything)
	c.rows.UrgentWith(c.isUrgent)
	c.view.OnChange(c.mark)
	c.view.HeedWhen(c.leading.Load)
	countPolicies(cfg.Registerer, c.view)
	return c, nil
}

func (c *Controller) loop(name string, workers, batch int, f reconcile.Func[contract.Owner]) *reconcile.Loop[contract.Owner] {
	cfg := reconcile.Defaults(name)
	cfg.Workers, cfg.BatchSize, cfg.Logger, cfg.Registerer = workers, batch, c.log, c.cfg.Registerer
	l := reconcile.New(cfg, f)
	l.OnFailure(c.report.Failure)
	return l
}

// Run follows Kubernetes, waits for the lease and leads, until ctx ends or the
// lease is lost.
func (c *Controller) Run(ctx context.Context) error {
	if c.cfg.Dynamic != nil {
		if err := c.view.WatchAdminPolicies(ctx, c.cfg.Dynamic); err != nil {
			return err
		}
	}
	if err := c.view.Start(ctx); err != nil {
		return err
	}
	c.synced.Store(true)
	c.log.Info("waiting for the lease", "lease", c.cfg.Leader.Namespace+"/"+c.cfg.Leader.Name)
	return leader.Run(ctx, c.cfg.Leases, c.cfg.Leader, c.lead)
}

// Ready says why this process could not do its work now: the leader's, or that
// of one who waits for the lease.
func (c *Controller) Ready() error {
	db := c.opened.Load()
	switch {
	case !c.synced.Load():
		return errors.New("the API's objects are not read yet")
	case c.leading.Load() && (db == nil || !db.Connected()):
		return errors.New("the Northbound database is away")
	}
	return nil
}

// lead runs while this process holds the lease. What was allocated is rebuilt
// from the database's rows and the annotations before anything is decided.
func (c *Controller) lead(ctx context.Context) error {
	if !c.cfg.RenumberNodes {
		if err := c.cfg.Plan.CheckSubnets(c.view.Nodes(), c.view.Pods()); err != nil {
			return err
		}
	}
	c.leading.Store(true)
	defer c.leading.Store(false)
	schema, err := ovn.ReplicaSchema()
	if err != nil {
		return err
	}
	cfg := ovsdb.Defaults(c.cfg.Northbound, schema)
	cfg.Logger, cfg.Registerer, cfg.TLS, cfg.Fence = c.log, c.cfg.Registerer, c.cfg.TLS, c.fence()
	ctx, c.end = context.WithCancelCause(ctx)
	defer c.end(nil)
	if c.db, err = ovsdb.Open(ctx, cfg); err != nil {
		return err
	}
	defer c.db.Close()
	c.opened.Store(c.db)
	defer c.opened.Store(nil)
	if err := c.claim(ctx); err != nil {
		return err
	}
	rows, err := held(c.db)
	if err != nil {
		return err // the next leader, perhaps this process again, finds them
	}
	c.alloc.Rebuild(c.view.Nodes(), c.view.Pods(), rows)
	c.db.OnChange(c.rowsChanged)
	c.db.OnReconnect(c.rows.MarkAll)
	c.log.Info("leading", "nodes", len(c.view.Nodes()), "pods", len(c.view.Pods()))
	group, running := errgroup.WithContext(ctx)
	for _, loop := range []*reconcile.Loop[contract.Owner]{c.nodes, c.pods, c.rows, c.statuses, c.chassis} {
		group.Go(func() error { return loop.Run(running) })
	}
	err = group.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, leader.ErrLost) {
		return cause
	}
	return err
}
