package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// retryPause is the least time between a takeover that was undone and the next.
const retryPause = time.Minute

// Host is what is needed of the node's network namespace; Local is one.
type Host interface {
	Observer
	LinkChanger
	AddressChanger
}

// Observer reads.
type Observer interface {
	Links() ([]netdev.Link, error)
	Addrs(link string) ([]netip.Prefix, error)
	Routes(link string) ([]netdev.Route, error)
	SysctlValue(key string) (string, error)
	Watch(ctx context.Context) (<-chan netdev.Event, error)
}

// LinkChanger sets up links.
type LinkChanger interface {
	SetLink(name string, s netdev.Settings) error
	MoveLink(m netdev.Move) error
	Sysctl(key, value string) error
}

// AddressChanger moves what links carry.
type AddressChanger interface {
	ReplaceAddr(link string, prefix netip.Prefix, o netdev.AddrOptions) error
	DeleteAddr(link string, prefix netip.Prefix) error
	ReplaceRoute(r netdev.Route) error
	DeleteRoute(r netdev.Route) error
	ReplaceNeighbor(e netdev.Neighbor) error
}

// DB is the node's Open_vSwitch database; *ovsdb.DB is one.
type DB interface {
	Replica
	Commit(ctx context.Context, wants ...ovsdb.Want) (ovsdb.Result, error)
	MergeKeys(ctx context.Context, table, column string, keys map[string]string) error
}

// Replica is what a DB knows.
type Replica interface {
	WaitRow(ctx context.Context, table, owner, id string, ok func(row any) bool) error
	Rows(owner string) []ovsdb.Row
	Table(name string) []any
	Members(parent ovsdb.Parent) []any
}

// Deps is what a Setup acts on.
type Deps struct {
	Host Host
	DB   DB
	// Node gives the Node object, nil while it is not known.
	Node func() *corev1.Node
	// Annotate writes annotations of the Node, where they differ.
	Annotate func(ctx context.Context, node *corev1.Node, annotations map[string]string) error
	// Services gives the services that the wire may ask the node for; false while
	// they are not known yet.
	Services func() (ServicePorts, bool)
	// Function says which VF carries the management port; nil, or a nil Function:
	// none does.
	Function func() (*Function, error)
	// NFT is table RedirectTable of the kernel; nil: the node's own processes do
	// not reach node ports at the node.
	NFT knftables.Interface
	// Flows is the gateway bridge's table.
	Flows Flows
	// Probes reach, by name, what the node must not lose by a takeover.
	Probes map[string]func(ctx context.Context) error
	Logger *slog.Logger
	// Registerer takes the loop's metrics.
	Registerer prometheus.Registerer
}

// Setup keeps one node set up.
type Setup struct {
	*machine
	loop    *reconcile.Loop[kube.Owner]
	pace    pace
	metrics metrics
	// retry is when a takeover may be tried again; of the loop's goroutine only.
	retry time.Time
	// watched is the bridge whose flows are; of the loop's goroutine only.
	watched string
	links   watchedLinks

	mu    sync.Mutex
	ready error
	// failed is whether the last pass did.
	failed bool
	mtu    int
	end    context.CancelCauseFunc // ends Run
	done   chan struct{}           // closed by the first complete pass
	// What switchChanged has seen last.
	uplinks map[string]string
	ofPorts map[string]int
}

// New makes a Setup; nothing is touched before Run.
func New(cfg Config, deps Deps) (*Setup, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Setup{machine: &machine{cfg, deps}, metrics: newMetrics(deps.Registerer), ready: notReady("node set-up has just begun"), done: make(chan struct{})}
	lc := reconcile.Defaults("node")
	lc.Logger, lc.Registerer = deps.Logger, deps.Registerer
	s.loop = reconcile.New(lc, func(ctx context.Context, _ []kube.Owner) (map[kube.Owner]error, error) {
		return nil, s.pass(ctx)
	})
	s.loop.MarkAllWith(func() []kube.Owner { return []kube.Owner{gatewayOwner(cfg)} })
	return s, nil
}

// Mark asks for a pass; hook it to the database's reconnect.
func (s *Setup) Mark() { s.loop.MarkAll() }

// ServicesChanged asks for a pass because of services: one for a burst of them.
func (s *Setup) ServicesChanged() { s.pace.ask(s.Mark) }

// Changed takes owners whose rows or objects have changed and asks for a pass
// if the node is among them; hook it to the database's and the API's changes.
func (s *Setup) Changed(owners ...string) {
	for _, owner := range owners {
		if owner == gatewayOwner(s.cfg).String() || owner == managementOwner(s.cfg).String() {
			s.Mark()
			return
		}
	}
}

// Foreign takes tables in which rows of others have changed and asks for a pass if
// the node's network stands on them: ovn-controller's ports do, the keys that it
// writes for each pod do not. Hook it to the database's foreign changes.
func (s *Setup) Foreign(tables ...string) {
	ports := slices.Contains(tables, vswitch.InterfaceTable) || slices.Contains(tables, vswitch.BridgeTable)
	if ports && s.switchChanged() {
		s.Mark()
	}
}

// switchChanged compares what others say of the switch with what it was asked for last.
func (s *Setup) switchChanged() bool {
	var st State
	s.observeSwitch(&st)
	s.mu.Lock()
	defer s.mu.Unlock()
	same := maps.Equal(st.Uplinks, s.uplinks) && maps.Equal(st.OFPorts, s.ofPorts)
	s.uplinks, s.ofPorts = st.Uplinks, st.OFPorts
	return !same
}

// Done is closed when the node was set up completely for the first time.
func (s *Setup) Done() <-chan struct{} { return s.done }

// Ready says why no pod can be attached now; nil when one can.
func (s *Setup) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// MTU is that of pods, 0 before Done.
func (s *Setup) MTU() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mtu
}

// Run keeps the node set up until ctx ends; it leaves it so. It ends with an
// error when the MTU of pods changes, which takes a new start.
func (s *Setup) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.mu.Lock()
	s.end = end
	s.mu.Unlock()
	events, err := s.deps.Host.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watching the host: %w", err)
	}
	go s.links.follow(events, s.Mark)
	_ = s.loop.Run(ctx)
	return context.Cause(ctx)
}

// pass is one round of observe, plan and apply for each part in turn. An API
// server that cannot be told does not make a node unready that was ready.
func (s *Setup) pass(ctx context.Context) error {
	s.pace.begin()
	mtu, told, err := s.parts(ctx)
	s.pace.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = s.news(err)
	switch {
	case err != nil:
	case s.mtu == 0 && told != nil:
		s.ready = told
	case s.mtu == 0:
		s.mtu = mtu
		close(s.done)
	case s.mtu != mtu && s.end != nil:
		s.end(fmt.Errorf("the MTU of pods has changed from %d to %d", s.mtu, mtu))
	}
	// What nothing but time brings back goes first.
	if told != nil && (err == nil || errors.Is(err, reconcile.ErrNotReady)) {
		return told
	}
	return err
}

// news is what a pass' error means for pods. The first one of a node that was ready
// means nothing: on a machine that is short of time any command may be too slow, and
// the next pass comes at once. That something is not there is news at once.
func (s *Setup) news(err error) error {
	first := err != nil && !s.failed
	s.failed = err != nil
	if first && s.ready == nil && !errors.Is(err, reconcile.ErrNotReady) {
		return nil
	}
	return err
}

// parts gives apart the errors of telling the cluster about the node and of what
// no pod depends on.
func (s *Setup) parts(ctx context.Context) (mtu int, told, err error) {
	g, err := s.gateway(ctx)
	if err != nil {
		return 0, nil, err
	}
	st, err := s.observe(ctx)
	if err != nil {
		return 0, nil, err
	}
	services, known := s.services()
	st.Services = s.rangesOf(st, g, services, known)
	if err := s.direct(ctx, st, g, services, known); err != nil {
		return 0, nil, err
	}
	encap, err := encapAddress(s.cfg, st, g)
	if err != nil {
		return 0, nil, err
	}
	wire, err := underlay(st, encap)
	if err != nil {
		return 0, nil, err
	}
	if mtu, err = podMTU(s.cfg.MTU, wire, encap, s.cfg.ClusterSubnets); err != nil {
		return 0, nil, err
	}
	if err := s.merge(ctx, settings(s.cfg, st, g, encap)); err != nil {
		return 0, nil, err
	}
	// The controller makes the gateway router of the annotations while we go on.
	told = s.tell(ctx, st, g, encap, mtu)
	if err := s.run(ctx, planMasquerade(s.cfg, st, g, mtu)); err != nil {
		return 0, told, err
	}
	if known {
		told = errors.Join(told, s.redirect(ctx, planRedirects(primary(s.cfg, st, g.Bridge), services.NodePorts)))
	}
	if s.cfg.WithoutManagement {
		return mtu, told, nil
	}
	return mtu, told, s.management(ctx, st, mtu)
}

func (s *Setup) gateway(ctx context.Context) (Gateway, error) {
	st, err := s.observe(ctx)
	if err != nil {
		return Gateway{}, err
	}
	g, err := chooseGateway(s.cfg, st)
	if err != nil {
		return g, err
	}
	s.links.remember(st, g.Bridge, g.NIC, IntegrationBridge, ManagementInterface)
	if wait := time.Until(s.retry); st.Saved == nil && wait > 0 {
		return g, fmt.Errorf("the last takeover of %s was undone, the next is due in %s", g.NIC, wait.Round(time.Second))
	}
	if st.Saved != nil && st.Ours[g.Bridge] {
		if err := s.commit(ctx, gatewayRows(s.cfg, *st.Saved, st.Ours[g.NIC])); err != nil {
			s.deps.Logger.Warn("repairing the rows of the gateway bridge", "device", g.Bridge, "error", err)
		}
	}
	steps, waiting := planGateway(s.cfg, st, g)
	if err := s.run(ctx, steps); err != nil {
		return g, s.rollback(ctx, err)
	}
	return g, waiting
}

// rollback undoes a takeover that went wrong after the NIC was touched and
// before it was verified. Other errors are left to the next pass: the host has
// its address on one side.
func (s *Setup) rollback(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stepTimeout)
	defer cancel()
	st, err := s.observe(ctx)
	if err != nil || st.Saved == nil || st.Saved.Verified || !st.Ours[st.Saved.Interface] {
		return errors.Join(cause, err)
	}
	s.retry = time.Now().Add(retryPause)
	s.deps.Logger.Warn("undoing the takeover", "device", st.Saved.Interface, "error", cause)
	return errors.Join(cause, s.release(ctx, st))
}

// Retreat puts the uplink's addresses back on it from a bridge that nobody serves
// any more: ovs-vswitchd of the userspace datapath has ended just now, and the
// bridge's link may not say so for a second. No Setup need run, here or elsewhere.
func (s *Setup) Retreat(ctx context.Context) error {
	st, err := s.observe(ctx)
	if err != nil || st.Saved == nil {
		return err
	}
	return s.run(ctx, retreat(st, *st.Saved))
}

// Cleanup takes everything back that a Setup has done to the host. Run must not
// be running, neither here nor in another process.
func (s *Setup) Cleanup(ctx context.Context) error {
	st, err := s.observe(ctx)
	if err != nil {
		return err
	}
	if s.deps.NFT != nil {
		tx := s.deps.NFT.NewTransaction()
		tx.Add(&knftables.Table{})
		tx.Delete(&knftables.Table{})
		err = s.deps.NFT.Run(ctx, tx)
	}
	var masquerade error
	if g, err := chooseGateway(s.cfg, st); err == nil {
		masquerade = s.run(ctx, planMasquerade(s.cfg, st, g, 0))
		if !g.owned() {
			masquerade = errors.Join(masquerade, s.deps.Flows.Replace(ctx, g.Bridge, []string{"priority=0 actions=NORMAL"}))
		}
	}
	return errors.Join(
		err, masquerade,
		s.run(ctx, giveBack(st)),
		s.merge(ctx, unset(s.cfg, st)),
		s.commit(ctx, commit{Owner: managementOwner(s.cfg)}),
		s.release(ctx, st),
	)
}
