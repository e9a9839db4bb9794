// Package controller connects the parts of the central process: the objects of Kubernetes (pkg/kube), allocations
// (pkg/ipam), the wanted rows of the Northbound databases (pkg/ovn) and their present rows (pkg/ovsdb).
//
// It is a package of its own, above the four others, because the binary's main only reads flags, and because tests need
// the path from an event to a row in one place.
//
// Data flow: informer events and database changes mark owners in loops of pkg/reconcile.
//
//	Cluster  nodes     allocate subnets and an id, record them in the Node's annotations
//	Zone     pods      allocate addresses, record them in the Pod's annotation
//	         rows      ovn.Build, ovsdb.Commit; then free the allocations without rows
//	         statuses  write the conditions of policies
//	         chassis   remove the chassis of deleted nodes from the Southbound database
//
// A Zone fills one Northbound database for its nodes. The Cluster has no database. One process runs the Cluster and, by
// default, one Zone with all nodes. Only the leader runs the loops. A new leader first reads the allocations from the
// annotations and the databases' rows.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
	"github.com/ovn-offload/ovn-offload/pkg/network/mirror"
	"github.com/ovn-offload/ovn-offload/pkg/network/nads"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/pkg/vf/rollout"
)

// podWriters is the number of pods that are annotated in parallel.
const podWriters = 16

// Config has the values of the binary's flags.
type Config struct {
	Plan ipam.Config
	// RenumberNodes allows a Plan that changes addresses of running pods.
	RenumberNodes bool
	Zones         []ZoneConfig
	// Dynamic reads policies for the whole cluster; nil for none.
	Dynamic dynamic.Interface
	// Native says that no Multus writes what networks a pod has: the controller does.
	Native bool
	// Networks says whether pods may have further networks.
	Networks bool
	Shared   Shared
	Leader   leader.Config
	// Announce has annotations of the Lease while this process leads; "" removes one.
	Announce   map[string]string
	Leases     coordination.LeasesGetter
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Shared is what networks of several owners share.
type Shared struct {
	// Networks lets pods of all namespaces use all NADs.
	Networks bool
	// Services are further services of the default network that pods of primary networks reach, as namespace/name.
	Services []string
}

// process has the fields that the Cluster and its Zones share.
type process struct {
	cfg    Config
	view   *kube.ClusterView
	write  *kube.Writer
	report *kube.Reporter
	// subnets are the Cluster's decisions; Zones read them.
	subnets *ipam.Subnets
	log     *slog.Logger

	synced, leading atomic.Bool
	// markAll sends owners to the Cluster and to all Zones.
	markAll func(...contract.Owner)
	// nodeGone is called for a deleted node when its rows are gone from a zone's database.
	nodeGone func(contract.Owner)
}

// Controller is one candidate for the leader.
type Controller struct {
	*process
	cluster *Cluster
	zones   []*Zone
	rollout *rollout.Rollout // nil without a dynamic client
	nads    *nads.NADs       // nil without further networks
	mirrors *mirror.Mirrors  // nil without further networks
}

// New makes a Controller; its Events are recorded until ctx ends.
func New(ctx context.Context, cfg Config, client *api.Client) (*Controller, error) {
	view, err := kube.NewClusterView(client)
	if err != nil {
		return nil, err
	}
	cfg.Plan.Further = view
	subnets, err := ipam.NewSubnets(cfg.Plan)
	if err != nil {
		return nil, err
	}
	p := &process{
		cfg: cfg, view: view, write: kube.NewWriter(client), subnets: subnets, log: cfg.Logger,
		report: kube.NewReporter(ctx, client, view, "ovn-offload-controller"),
	}
	c := &Controller{process: p, cluster: newCluster(p)}
	for _, zone := range cfg.Zones {
		c.zones = append(c.zones, newZone(p, zone))
	}
	if cfg.Dynamic != nil {
		if c.rollout, err = rollout.New(rollout.Deps{Client: cfg.Dynamic, Nodes: view.Nodes, Logger: cfg.Logger, Registerer: cfg.Registerer}); err != nil {
			return nil, err
		}
	}
	if cfg.Dynamic != nil && cfg.Networks {
		if c.nads, err = newNADs(p); err != nil {
			return nil, err
		}
		c.cluster.allocated = c.nads.Allocated
		if c.mirrors, err = newMirrors(c, client); err != nil {
			return nil, err
		}
	}
	p.markAll, p.nodeGone = c.mark, func(owner contract.Owner) { c.cluster.mark(owner.On("")) }
	c.cluster.hasRows = func(owner contract.Owner) bool {
		return slices.ContainsFunc(c.zones, func(zone *Zone) bool { return zone.hasNode(owner) })
	}
	view.OnChange(c.mark)
	view.ListenWhen(p.leading.Load)
	countPolicies(cfg.Registerer, view)
	cfg.Registerer.MustRegister(newAllocations(c))
	return c, nil
}

func (c *Controller) mark(owners ...contract.Owner) {
	c.cluster.mark(owners...)
	for _, zone := range c.zones {
		zone.mark(owners...)
	}
	if c.nads != nil && c.leading.Load() {
		c.nads.Changed(owners...)
		c.mirrors.Changed(owners...)
	}
	isNode := func(owner contract.Owner) bool { return owner.Kind == contract.KindNode }
	if c.rollout != nil && c.leading.Load() && slices.ContainsFunc(owners, isNode) {
		c.rollout.Mark()
	}
}

func (c *process) loop(name string, workers, batch int, f reconcile.Func[contract.Owner]) *reconcile.Loop[contract.Owner] {
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
		if err := c.view.WatchPortMirrors(ctx, c.cfg.Dynamic); err != nil {
			return err
		}
		if err := c.view.WatchNamespaceSubnets(ctx, c.cfg.Dynamic, c.cfg.Plan.Purposes()); err != nil {
			return err
		}
	}
	if c.cfg.Dynamic != nil && c.cfg.Networks {
		if err := c.view.WatchNetworks(ctx, c.cfg.Dynamic, c.cfg.Plan.Purposes()); err != nil {
			return err
		}
		c.view.SecondaryOnly, c.view.Shared, c.view.FurtherShared = c.cfg.Plan.SecondaryOnly, c.cfg.Shared.Networks, c.cfg.Shared.Services
	}
	if err := c.view.Start(ctx); err != nil {
		return err
	}
	c.synced.Store(true)
	c.log.Info("waiting for the lease", "lease", c.cfg.Leader.Namespace+"/"+c.cfg.Leader.Name)
	return leader.Run(ctx, c.cfg.Leases, c.cfg.Leader, c.lead)
}

// Ready is an error while this process cannot do its work, as the leader or as a standby.
func (c *Controller) Ready() error {
	if !c.synced.Load() {
		return errors.New("the API's objects are not read yet")
	}
	for _, zone := range c.zones {
		if !c.leading.Load() {
			continue
		}
		db := zone.opened.Load()
		if db == nil {
			return errors.New("the Northbound database is not connected since this process leads")
		}
		if err := db.Problem(); err != nil {
			return fmt.Errorf("the Northbound: %w", err)
		}
	}
	return nil
}

// Northbound has the models of a table in the databases of all zones, while this process leads.
func (c *Controller) Northbound(table string) (models []any, leads bool) {
	for _, zone := range c.zones {
		db := zone.opened.Load()
		if db == nil || !db.Connected() {
			return nil, false
		}
		models = append(models, db.Table(table)...)
	}
	return models, true
}

// lead runs while this process holds the lease. Before the first decision it rebuilds the allocations from the
// databases' rows and the annotations.
func (c *Controller) lead(ctx context.Context) error {
	if !c.cfg.RenumberNodes && !c.cfg.Plan.SecondaryOnly {
		if err := c.cfg.Plan.CheckSubnets(c.view.Nodes(), c.view.Pods()); err != nil {
			return err
		}
	}
	c.leading.Store(true)
	defer c.leading.Store(false)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c.view.Lead()
	c.subnets.Rebuild(c.view.Nodes(), c.view.Pods())
	for _, zone := range c.zones {
		if err := zone.open(ctx, end); err != nil {
			return err
		}
		defer zone.close()
		if err := zone.rebuild(); err != nil {
			return err // the next leader, perhaps this process again, finds the rows
		}
	}
	c.log.Info("leading", "nodes", len(c.view.Nodes()), "pods", len(c.view.Pods()))
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return c.cluster.nodes.Run(running) })
	group.Go(func() error { return c.cluster.networks.Run(running) })
	group.Go(func() error { return c.reportRefused(running) })
	if c.rollout != nil {
		group.Go(func() error { return c.rollout.Run(running) })
	}
	if c.nads != nil {
		group.Go(func() error { return c.nads.Run(running) })
		group.Go(func() error { return c.mirrors.Run(running) })
	}
	for _, zone := range c.zones {
		zone.run(running, group)
	}
	for key, value := range c.cfg.Announce {
		group.Go(func() error { leader.Announce(running, c.cfg.Leases, c.cfg.Leader, key, value); return nil })
	}
	err := group.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, leader.ErrLost) {
		return cause
	}
	return err
}

func (c *process) warn(owner contract.Owner, decision ipam.Decision) {
	if decision.Warning != "" {
		c.report.Warn(owner, "AnnotationReplaced", decision.Warning)
	}
}

// forgetGone drops the error of a write to a deleted object. The rows of this object are then built again, as none, and
// its allocations come free.
func (c *process) forgetGone(owner contract.Owner, err error) error {
	if apierrors.IsNotFound(err) {
		c.markAll(owner)
		return nil
	}
	return err
}
