package conntrack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Config of a Reconciler.
type Config struct {
	// Bridge is OVN's integration bridge.
	Bridge string
	// Settle is how long changes of flows are gathered.
	Settle time.Duration
	// Share is how much longer the pause after a pass is than the pass: reading
	// tables is work for ovs-vswitchd, and on a busy node they change all the time.
	Share      int
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Defaults need a Logger and a Registerer.
func Defaults() Config {
	return Config{Bridge: contract.IntegrationBridge, Settle: 100 * time.Millisecond, Share: 10}
}

// Switch is ovs-vswitchd's control socket; unixctl.Client is one.
type Switch interface {
	Call(ctx context.Context, method string, args ...string) (string, error)
	Lines(ctx context.Context, line func(string) error, method string, args ...string) error
}

// Flows are a bridge's tables; pkg/openflow is one.
type Flows interface {
	Dump(ctx context.Context, bridge, match string, flow func(string)) error
	Groups(ctx context.Context, bridge, id string, group func(string)) error
	Watch(ctx context.Context, bridge string, changed func(flow string))
}

// DB is the node's Open_vSwitch database; *ovsdb.DB is one.
type DB interface{ Table(name string) []any }

// Deps is what a Reconciler reads and acts on.
type Deps struct {
	Switch Switch
	Flows  Flows
	DB     DB
}

// Reconciler ends connections whose endpoint has left, whenever the tables have changed.
type Reconciler struct {
	cfg   Config
	deps  Deps
	loop  *reconcile.Single
	ended prometheus.Counter
	took  prometheus.Gauge

	mu sync.Mutex
	// noted are the addresses whose load balancer has changed. Only connections to them are checked, except by the
	// first pass: load balancers may have gone before the agent started.
	noted  map[frontend]bool
	looked bool
	// interval is the time from one pass to the next, set from the duration of the last pass.
	interval time.Duration
}

// New makes a Reconciler; nothing happens before Run.
func New(cfg Config, deps Deps) *Reconciler {
	r := &Reconciler{cfg: cfg, deps: deps, noted: map[frontend]bool{}}
	r.ended = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ovn_offload_connections_ended_total",
		Help: "Connections that the agent has ended, because their endpoint has left.",
	})
	r.took = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ovn_offload_connections_check_seconds", Help: "Time that the last look at the connections of what had changed took.",
	})
	cfg.Registerer.MustRegister(r.ended, r.took)
	lc := reconcile.Defaults("connections")
	lc.Logger, lc.Registerer = cfg.Logger, cfg.Registerer
	r.loop = reconcile.NewSingle(lc, r.pass)
	return r
}

// Run works until ctx ends. It tries a failed pass again.
func (r *Reconciler) Run(ctx context.Context) error {
	go r.deps.Flows.Watch(ctx, r.cfg.Bridge, r.note)
	return r.loop.Run(ctx)
}

// note takes a line of the flow monitor and marks a pass if the flow is a load balancer's. Other flows change with
// each pod. After a restart of the switch all flows are new.
func (r *Reconciler) note(flow string) {
	match, _, _ := strings.Cut(flow, " actions=")
	// Without endpoints, a flow that rejects new connections replaces the flow with the group. Most flows of
	// services are neither.
	if !strings.Contains(match, "ct_state=+new") {
		return
	}
	if f, ok := frontendOf(match); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.noted[f] = true
		r.loop.MarkSpaced(r.cfg.Settle, r.interval)
	}
}

// pass checks the connections when the datapath has applied the changes, so it sees the connections that an old
// datapath flow has made until then. Later changes are for the next pass.
func (r *Reconciler) pass(ctx context.Context) error {
	r.mu.Lock()
	changed := r.noted
	r.noted = map[frontend]bool{}
	r.mu.Unlock()
	if len(changed) == 0 { // the pass before has checked them
		return nil
	}
	begun := time.Now()
	_, err := r.deps.Switch.Call(ctx, "revalidator/wait")
	start := time.Now()
	if err == nil {
		err = r.look(ctx, changed)
	}
	took := time.Since(start)
	r.took.Set(took.Seconds())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interval = time.Since(begun) + took*time.Duration(r.cfg.Share)
	if err != nil {
		maps.Copy(r.noted, changed)
		return err
	}
	r.looked = true
	return nil
}

func (r *Reconciler) look(ctx context.Context, changed map[frontend]bool) error {
	zones, known := zonesOf(r.deps.DB, r.cfg.Bridge)
	if !known {
		return fmt.Errorf("the database knows no bridge %s", r.cfg.Bridge)
	}
	connections, err := r.connections(ctx, zones, changed)
	if err != nil || len(connections) == 0 {
		return err
	}
	if err := r.filled(ctx); err != nil {
		return err
	}
	all, err := r.servers(ctx, connections)
	if err != nil {
		return err
	}
	return r.forget(ctx, all, connections)
}

// filled gives ErrNotReady while the bridge has no flows at all, as after a restart of ovs-vswitchd: then a missing
// flow does not mean that an address has no load balancer. ovn-controller writes all flows at once.
func (r *Reconciler) filled(ctx context.Context) error {
	any := false
	err := r.deps.Flows.Dump(ctx, r.cfg.Bridge, "table=0", func(string) { any = true })
	if err == nil && !any {
		return fmt.Errorf("bridge %s has no flows yet: %w", r.cfg.Bridge, reconcile.ErrNotReady)
	}
	return err
}

// zonePrefix begins the keys in which ovn-controller records what has which zone.
const zonePrefix = "ct-zone-"

// zonesOf gives the zones of connection tracking that only OVN uses. It reports false when the database does not
// have the bridge, as when it is disconnected.
func zonesOf(db DB, name string) (zones map[int]bool, known bool) {
	zones = map[int]bool{}
	for _, row := range db.Table(vswitch.BridgeTable) {
		bridge, ok := row.(*vswitch.Bridge)
		if !ok || bridge.Name != name {
			continue
		}
		known = true
		for key, value := range bridge.ExternalIDs {
			zone, err := strconv.Atoi(value)
			if strings.HasPrefix(key, zonePrefix) && err == nil && zone != 0 { // 0 is the host's as well
				zones[zone] = true
			}
		}
	}
	return zones, known
}

// connections are those to addresses whose load balancer has changed, and at first all that a load balancer made.
func (r *Reconciler) connections(ctx context.Context, zones map[int]bool, changed map[frontend]bool) (all []connection, err error) {
	err = r.deps.Switch.Lines(ctx, func(line string) error {
		c, ok := parseConnection(line)
		if ok && zones[c.zone] && (changed[c.frontend()] && c.missed() || (changed[c.frontend()] || !r.looked) && c.balanced()) {
			all = append(all, c)
		}
		return nil
	}, "dpctl/dump-conntrack")
	if err != nil && strings.Contains(err.Error(), "no datapaths") { // before the first bridge
		return nil, nil
	}
	return all, err
}

// forget flushes the connections to servers that are no endpoints any more, also because their address has no load
// balancer any more, and those that were made before their address had one.
func (r *Reconciler) forget(ctx context.Context, all servers, connections []connection) error {
	var errs []error
	var gone []connection
	for _, c := range connections {
		now, known := all[c.frontend()]
		if !known || now[c.server()] || now == nil && !c.balanced() {
			continue
		}
		_, err := r.deps.Switch.Call(ctx, "dpctl/flush-conntrack", fmt.Sprintf("zone=%d", c.zone), c.pattern())
		if err != nil {
			errs = append(errs, fmt.Errorf("forgetting a connection to %s: %w", c.server(), err))
			continue
		}
		gone = append(gone, c)
	}
	r.report(gone)
	return errors.Join(errs...)
}

// report logs a line for each server, not for each of its thousands of clients.
func (r *Reconciler) report(ended []connection) {
	type ends struct{ service, server netip.AddrPort }
	count := map[ends]int{}
	for _, c := range ended {
		count[ends{c.orig.dst, c.server()}]++
	}
	for to, n := range count {
		r.ended.Add(float64(n))
		r.cfg.Logger.Info("connections ended", "service", to.service, "server", to.server, "ops", n)
	}
}
