package conntrack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
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
	Bundle(ctx context.Context, bridge string, messages []string) error
	Watch(ctx context.Context, bridge string, concerns func(flow string) bool, changed chan<- struct{})
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
	ended *prometheus.CounterVec
	took  prometheus.Gauge
	// grammar is made once: a look has readers for each address.
	grammar grammar

	mu    sync.Mutex
	noted changes
}

// Why connections are ended: the label of the counter, and of the log.
const (
	becauseEndpoint = "endpoint"
	becausePolicy   = "policy"
)

// New makes a Keeper; nothing happens before Run.
func New(cfg Config, deps Deps) *Keeper {
	k := &Keeper{cfg: cfg, deps: deps, grammar: newGrammar(), noted: noChanges()}
	k.ended = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ovn_offload", Name: "connections_ended_total",
		Help: "Connections that the agent has ended: their endpoint has left, or a policy forbids them.",
	}, []string{"reason"})
	k.took = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "ovn_offload", Name: "connections_check_seconds", Help: "Time that the last look at the connections of what had changed took.",
	})
	k.ended.WithLabelValues(becauseEndpoint)
	k.ended.WithLabelValues(becausePolicy)
	cfg.Registerer.MustRegister(k.ended, k.took)
	return k
}

// Run works until ctx ends. What goes wrong is tried again.
func (k *Keeper) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	go k.deps.Flows.Watch(ctx, k.cfg.Bridge, k.note, changed)
	const retry = 5 * time.Second
	for wait(ctx, changed) {
		pause(ctx, k.cfg.Settle)
		select { // what came meanwhile is seen by this pass
		case <-changed:
		default:
		}
		took, err := k.pass(ctx)
		next := took * time.Duration(k.cfg.Share)
		if err != nil && ctx.Err() == nil {
			k.cfg.Logger.Warn("looking for connections that must end", "err", err, "again", retry)
			next = max(next, retry)
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		pause(ctx, next)
	}
	return ctx.Err()
}

func wait(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-changed:
		return true
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// pass looks once, when the datapath has followed the changes: what an old datapath
// flow has begun until then is seen. What comes while it waits is for the next pass.
// It gives the time without that wait.
func (k *Keeper) pass(ctx context.Context) (time.Duration, error) {
	what := k.take()
	_, err := k.deps.Switch.Call(ctx, "revalidator/wait")
	start := time.Now()
	if err == nil {
		err = k.look(ctx, what)
	}
	if err != nil {
		k.again(what)
	}
	took := time.Since(start)
	k.took.Set(took.Seconds())
	return took, err
}

func (k *Keeper) look(ctx context.Context, what changes) error {
	if len(what.frontends)+len(what.ruled) == 0 { // the pass before has looked
		return nil
	}
	l, known := readLocal(k.deps.DB, k.cfg.Bridge)
	if !known {
		return fmt.Errorf("the database knows no bridge %s", k.cfg.Bridge)
	}
	connections, err := k.connections(ctx, l, what)
	if err != nil || len(connections) == 0 {
		return err
	}
	t, err := k.tables(ctx, what, connections)
	if err != nil {
		return err
	}
	err = k.forget(ctx, t, connections)
	if len(what.ruled) > 0 {
		err = errors.Join(err, k.forbid(ctx, l, t, connections))
	}
	return err
}

// connections are those that a change can concern: balanced ones, and of UDP.
func (k *Keeper) connections(ctx context.Context, l local, what changes) (all []connection, err error) {
	err = k.deps.Switch.Lines(ctx, func(line string) error {
		if c, ok := parseConnection(line); ok && l.zones[c.zone] && what.concern(c) {
			all = append(all, c)
		}
		return nil
	}, "dpctl/dump-conntrack")
	if err != nil && strings.Contains(err.Error(), "no datapaths") { // before the first bridge
		return nil, nil
	}
	return all, err
}

// forget flushes the connections to servers that are none any more.
func (k *Keeper) forget(ctx context.Context, t tables, connections []connection) error {
	var errs []error
	var gone []connection
	for _, c := range connections {
		if !t.left(c) {
			continue
		}
		_, err := k.deps.Switch.Call(ctx, "dpctl/flush-conntrack", fmt.Sprintf("zone=%d", c.zone), c.pattern())
		if err != nil {
			errs = append(errs, fmt.Errorf("forgetting a connection to %s: %w", c.server(), err))
			continue
		}
		gone = append(gone, c)
	}
	k.report(becauseEndpoint, gone)
	return errors.Join(errs...)
}

// report logs a line for each server, not for each of its thousands of clients.
func (k *Keeper) report(reason string, ended []connection) {
	type ends struct{ service, server netip.AddrPort }
	count := map[ends]int{}
	for _, c := range ended {
		count[ends{c.orig.dst, c.server()}]++
	}
	for to, n := range count {
		k.ended.WithLabelValues(reason).Add(float64(n))
		k.cfg.Logger.Info("connections ended", "reason", reason, "service", to.service, "server", to.server, "ops", n)
	}
}

// forbid marks the connections of UDP that a policy forbids. TCP and SCTP clients
// acknowledge what a server sends, and OVN looks at that.
func (k *Keeper) forbid(ctx context.Context, l local, t tables, connections []connection) error {
	verdicts := map[question]bool{}
	var messages []string
	var found []connection
	for _, c := range connections {
		if c.protocol != "udp" || c.mark&blocked != 0 || !l.concerned(t, c) {
			continue
		}
		q := question{c.zone, c.orig.src.Addr(), c.server()}
		forbidden, asked := verdicts[q]
		if !asked {
			var err error
			if forbidden, err = k.ask(ctx, c, l, t); err != nil {
				return err
			}
			verdicts[q] = forbidden
		}
		if forbidden {
			messages, found = append(messages, forbidding(c)...), append(found, c)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	if err := k.deps.Flows.Bundle(ctx, k.cfg.Bridge, messages); err != nil {
		return err
	}
	k.report(becausePolicy, found)
	return nil
}

// concerned says that a connection is in the zone of a pod that policies are
// about, and that its client's packets can be asked about.
func (l local) concerned(t tables, c connection) bool {
	client, ours := l.pods[c.orig.src.Addr()]
	if ours && client.zone == c.zone {
		return t.underRules(client.ofPort)
	}
	server, local := l.pods[c.server().Addr()]
	return local && server.zone == c.zone && t.underRules(server.ofPort) && (ours || l.tunnel != 0)
}
