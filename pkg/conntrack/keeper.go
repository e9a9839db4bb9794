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

// Config of a Keeper.
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

// Deps is what a Keeper reads and acts on.
type Deps struct {
	Switch Switch
	Flows  Flows
	DB     DB
}

// Keeper ends what must end, whenever the tables have changed.
type Keeper struct {
	cfg   Config
	deps  Deps
	loop  *reconcile.Single
	ended prometheus.Counter
	took  prometheus.Gauge

	mu sync.Mutex
	// noted are the addresses that are balanced otherwise: only connections to them
	// are looked at.
	noted map[frontend]bool
	// interval is the time from one pass to the next one, by what the newest cost.
	interval time.Duration
}

// New makes a Keeper; nothing happens before Run.
func New(cfg Config, deps Deps) *Keeper {
	k := &Keeper{cfg: cfg, deps: deps, noted: map[frontend]bool{}}
	k.ended = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "ovn_offload", Name: "connections_ended_total",
		Help: "Connections that the agent has ended, because their endpoint has left.",
	})
	k.took = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "ovn_offload", Name: "connections_check_seconds", Help: "Time that the last look at the connections of what had changed took.",
	})
	cfg.Registerer.MustRegister(k.ended, k.took)
	lc := reconcile.Defaults("connections")
	lc.Logger, lc.Registerer = cfg.Logger, cfg.Registerer
	k.loop = reconcile.NewSingle(lc, k.pass)
	return k
}

// Run works until ctx ends. What goes wrong is tried again.
func (k *Keeper) Run(ctx context.Context) error {
	go k.deps.Flows.Watch(ctx, k.cfg.Bridge, k.note)
	return k.loop.Run(ctx)
}

// note takes a line of the monitor of flows, and asks for a pass if it is a load
// balancer's: a pod comes and goes without one, and then nothing is looked at. When
// the switch has come back, all its flows are new.
func (k *Keeper) note(flow string) {
	match, _, _ := strings.Cut(flow, " actions=")
	// Without endpoints, the flow that refuses new connections takes the place of
	// the one with their group. Most flows of services are neither.
	if !strings.Contains(match, "ct_state=+new") {
		return
	}
	if f, ok := frontendOf(match); ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.noted[f] = true
		k.loop.MarkSpaced(k.cfg.Settle, k.interval)
	}
}

// pass looks once, when the datapath has followed the changes: what an old datapath
// flow has begun until then is seen. What comes while it waits is for the next pass.
func (k *Keeper) pass(ctx context.Context) error {
	k.mu.Lock()
	changed := k.noted
	k.noted = map[frontend]bool{}
	k.mu.Unlock()
	if len(changed) == 0 { // the pass before has looked
		return nil
	}
	begun := time.Now()
	_, err := k.deps.Switch.Call(ctx, "revalidator/wait")
	start := time.Now()
	if err == nil {
		err = k.look(ctx, changed)
	}
	took := time.Since(start)
	k.took.Set(took.Seconds())
	k.mu.Lock()
	defer k.mu.Unlock()
	k.interval = time.Since(begun) + took*time.Duration(k.cfg.Share)
	if err != nil {
		maps.Copy(k.noted, changed)
	}
	return err
}

func (k *Keeper) look(ctx context.Context, changed map[frontend]bool) error {
	zones, known := zonesOf(k.deps.DB, k.cfg.Bridge)
	if !known {
		return fmt.Errorf("the database knows no bridge %s", k.cfg.Bridge)
	}
	connections, err := k.connections(ctx, zones, changed)
	if err != nil || len(connections) == 0 {
		return err
	}
	all, err := k.servers(ctx, connections)
	if err != nil {
		return err
	}
	return k.forget(ctx, all, connections)
}

// zonePrefix begins the keys in which ovn-controller records what has which zone.
const zonePrefix = "ct-zone-"

// zonesOf gives the zones of connection tracking that are OVN's alone. It reports
// false when the database does not have the bridge: it is away.
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

// connections are those by an address that is balanced otherwise now.
func (k *Keeper) connections(ctx context.Context, zones map[int]bool, changed map[frontend]bool) (all []connection, err error) {
	err = k.deps.Switch.Lines(ctx, func(line string) error {
		c, ok := parseConnection(line)
		if ok && zones[c.zone] && changed[c.frontend()] && (c.balanced() || c.missed()) {
			all = append(all, c)
		}
		return nil
	}, "dpctl/dump-conntrack")
	if err != nil && strings.Contains(err.Error(), "no datapaths") { // before the first bridge
		return nil, nil
	}
	return all, err
}

// forget flushes the connections to servers that are none any more, and those that
// have none because their address was not balanced when they began. Nothing is known
// of an address that no load balancer has, nor while the tables are not complete.
func (k *Keeper) forget(ctx context.Context, all servers, connections []connection) error {
	var errs []error
	var gone []connection
	for _, c := range connections {
		if now, known := all[c.frontend()]; !known || now[c.server()] {
			continue
		}
		_, err := k.deps.Switch.Call(ctx, "dpctl/flush-conntrack", fmt.Sprintf("zone=%d", c.zone), c.pattern())
		if err != nil {
			errs = append(errs, fmt.Errorf("forgetting a connection to %s: %w", c.server(), err))
			continue
		}
		gone = append(gone, c)
	}
	k.report(gone)
	return errors.Join(errs...)
}

// report logs a line for each server, not for each of its thousands of clients.
func (k *Keeper) report(ended []connection) {
	type ends struct{ service, server netip.AddrPort }
	count := map[ends]int{}
	for _, c := range ended {
		count[ends{c.orig.dst, c.server()}]++
	}
	for to, n := range count {
		k.ended.Add(float64(n))
		k.cfg.Logger.Info("connections ended", "service", to.service, "server", to.server, "ops", n)
	}
}
