package controller

import (
	"context"
	"crypto/tls"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// clusterProbe is the interval of probes to the leader of a cluster: after three of them without a word the next leader
// is looked for.
const clusterProbe = 3 * time.Second

// ZoneConfig says which nodes a zone has, and where its databases are.
type ZoneConfig struct {
	// Name distinguishes the loops of several zones in logs and metrics; "" for the only zone.
	Name string
	// Local says which nodes are the zone's; nil: all.
	Local func(node string) bool
	// Northbound are the database's endpoints, of which only the leader of a cluster is used; TLS is asked at each
	// connection.
	Northbound []string
	TLS        func() (*tls.Config, error)
	// Southbound are the endpoints where chassis of deleted nodes are removed; empty: another process removes them.
	Southbound    []string
	SouthboundTLS func() (*tls.Config, error)
}

// Zone fills one Northbound database for its nodes: it is the only writer there.
type Zone struct {
	*process
	zone    ZoneConfig
	network contract.Network
	values  *lb.Values
	// addresses are the allocations of pods on the zone's nodes.
	addresses *ipam.Addresses

	// db is open while this process leads. end ends the term with a cause. Only the rows loop uses claimed. opened is db
	// for other goroutines.
	db      *ovsdb.DB
	opened  atomic.Pointer[ovsdb.DB]
	end     context.CancelCauseFunc
	claimed bool
	guard   reconcile.Guard
	sizes   sizes
	// warned has the last warning of each policy and service. removed has the chassis that are gone from the Southbound
	// database. outcomes has the conditions of policies for the whole cluster. lacks has what pods wait
	// for.
	warned, removed, outcomes, lacks sync.Map
	// claimWriter is nil without a dynamic client, and then there are no IPAMClaims.
	claimWriter *kube.ObjectWriter

	loops
}

type loops struct {
	pods, rows, statuses, chassis *reconcile.Loop[contract.Owner]
}

func newZone(p *process, cfg ZoneConfig) *Zone {
	c := &Zone{
		process: p, zone: cfg, network: p.cfg.Plan.Network(), values: lb.NewValues(), addresses: ipam.NewAddresses(p.subnets),
		sizes: sizes{numbers: map[contract.Owner][]int32{}, counted: map[contract.Owner]int{}, beyond: map[contract.Owner][]contract.Owner{}},
	}
	if p.cfg.Dynamic != nil {
		c.claimWriter = kube.NewObjectWriter(p.cfg.Dynamic, kube.IPAMClaims())
	}
	loop := func(name string, workers, batch int, f reconcile.Func[contract.Owner]) *reconcile.Loop[contract.Owner] {
		if cfg.Name != "" {
			name += "-" + cfg.Name
		}
		return p.loop(name, workers, batch, f)
	}
	c.pods = loop("pod-allocation", podWriters, 1, c.allocatePods)
	c.rows = loop("rows", 1, 10, c.reconcileRows)
	c.statuses = loop("policy-status", 1, 1, c.writeStatuses)
	c.chassis = loop("chassis", 1, 1, c.dropChassis)
	c.pods.MarkAllWith(func() []contract.Owner {
		pods := slices.DeleteFunc(ovn.OwnersOf(contract.KindPod, c.view), func(owner contract.Owner) bool { return !c.has(owner) })
		return append(onDefault(pods), c.view.NamespaceSubnetOwners()...)
	})
	c.rows.MarkAllWith(c.everything)
	c.rows.UrgentWith(c.isUrgent)
	return c
}

// open connects to the database and claims it; end is called when the claim is lost.
func (c *Zone) open(ctx context.Context, end context.CancelCauseFunc) error {
	schema, err := ovn.ReplicaSchema()
	if err != nil {
		return err
	}
	cfg := ovsdb.Defaults(c.zone.Northbound, schema)
	cfg.Logger, cfg.TLS, cfg.Fence = c.log, c.zone.TLS, c.fence()
	if len(c.zone.Northbound) > 1 {
		cfg.Leader, cfg.ProbeInterval = true, clusterProbe
	}
	cfg.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"zone": c.zone.Name}, c.cfg.Registerer)
	c.end = end
	if c.db, err = ovsdb.Open(ctx, cfg); err != nil {
		return err
	}
	c.opened.Store(c.db)
	if err := c.claim(ctx); err != nil {
		c.close()
		return err
	}
	return nil
}

// rebuild holds the addresses that rows use and that annotations of pods have.
func (c *Zone) rebuild() error {
	rows, err := held(c.db)
	if err != nil {
		return err
	}
	pods := slices.DeleteFunc(c.view.Pods(), func(pod *corev1.Pod) bool {
		return c.zone.Local != nil && !c.zone.Local(pod.Spec.NodeName)
	})
	c.addresses.Rebuild(pods, rows)
	return nil
}

func (c *Zone) close() {
	c.opened.Store(nil)
	c.db.Close()
}

// run starts the loops.
func (c *Zone) run(ctx context.Context, group *errgroup.Group) {
	c.db.OnChange(c.rowsChanged)
	c.db.OnReconnect(c.rows.MarkAll)
	for _, loop := range []*reconcile.Loop[contract.Owner]{c.pods, c.rows, c.statuses, c.chassis} {
		group.Go(func() error { return loop.Run(ctx) })
	}
}
