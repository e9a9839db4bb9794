package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/node/management"
	"github.com/ovn-offload/ovn-offload/pkg/node/redirect"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Deps is what a Setup acts on.
type Deps struct {
	node.Deps
	// Management is the management port; nil: a management.Runner keeps it apart, as on a DPU.
	Management *management.Port
	// Services gives the services that external clients may ask the node for; false while they are not synced yet.
	Services func() (flows.Services, bool)
	// VF says which VF is to have the node's addresses, both ends; nil, or a nil VF: none is. The userspace datapath
	// asks for none.
	VF func() (*node.VF, error)
	// Eswitch says what the ports of NICs' switches lead to; nil: the node has none. While the inventory is not
	// complete the answer is an error.
	Eswitch func() (Eswitch, error)
	// SwitchAbsent says that there has been no ovs-vswitchd for longer than a restart takes: the uplinks get their
	// addresses back from the bridges of the kernel's datapath. Nil: they never do.
	SwitchAbsent func() bool
	// Redirect is nil where the node's own processes do not reach node ports at the node.
	Redirect *redirect.Table
	// Flows is the gateway bridge's table.
	Flows Flows
	// NoNextHop reports to users that pods reach no other networks; nil: the log has it alone.
	NoNextHop func(problem string)
	// Readiness gets what Ready gives, after each pass; nil: it is not needed.
	Readiness func(error)
}

// Setup keeps one node set up.
type Setup struct {
	*bridge
	loop    *reconcile.Single
	metrics metrics
	second  *bridge
	// secondErr is the error of the second external bridge; of the loop's goroutine only.
	secondErr error
	links     node.WatchedLinks
	// turn is held by a pass, and by who has paused them.
	turn sync.Mutex

	mu    sync.Mutex
	ready error
	// vfProblem is why a gateway VF does not have the addresses, hopProblem why pods do not reach other networks.
	vfProblem, hopProblem error
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
	host := &node.Host{Config: cfg.Config, Deps: deps.Deps}
	s := &Setup{
		bridge: &bridge{Host: host, cfg: cfg, deps: deps}, second: &bridge{Host: host, cfg: cfg.ofSecond(), deps: deps},
		metrics: newMetrics(deps.Registerer), ready: node.NotReady("node set-up has just begun"), done: make(chan struct{}),
	}
	lc := reconcile.Defaults("node")
	lc.Logger, lc.Registerer = deps.Logger, deps.Registerer
	s.loop = reconcile.NewSingle(lc, s.pass)
	return s, nil
}

// Mark asks for a pass; hook it to the database's reconnect.
func (s *Setup) Mark() { s.loop.Mark() }

// ServicesChanged asks for a pass because of services: one for a burst of them.
func (s *Setup) ServicesChanged() { s.loop.MarkRested(4, time.Second) }

// Changed takes owners whose rows or objects have changed and asks for a pass if the node is among them; hook it to the
// database's and the API's changes.
func (s *Setup) Changed(owners ...string) {
	ours := []string{gatewayOwner(s.cfg).String(), node.ManagementOwner(s.cfg.Node).String(), gatewayOwner(s.second.cfg).String()}
	if slices.ContainsFunc(owners, func(owner string) bool { return slices.Contains(ours, owner) }) {
		s.Mark()
	}
}

// Foreign takes tables in which rows of others have changed and asks for a pass if the node's network stands on them:
// ovn-controller's ports do, the keys that it writes for each pod do not. Hook it to the database's foreign changes.
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

// Run keeps the node set up until ctx ends; it leaves it so. It ends with an error when the MTU of pods changes, which
// takes a new start.
func (s *Setup) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.mu.Lock()
	s.end = end
	s.mu.Unlock()
	events, err := s.Deps.Netns.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watching the host: %w", err)
	}
	go s.links.Follow(events, s.loop)
	_ = s.loop.Run(ctx)
	return context.Cause(ctx)
}

// pass is one round of observe, plan and apply for each part in turn. An API server that takes no annotations does not
// make a node unready that was ready.
func (s *Setup) pass(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	parts := s.parts
	if s.cfg.SecondaryOnly {
		parts = s.tunnels
	}
	changed := s.links.Changed()
	s.linksChanged, s.second.linksChanged = changed > 0, changed > 0
	mtu, annotated, err := parts(ctx)
	if err == nil { // many nodes lack the NIC of the second bridge for ever
		s.links.Settle(changed)
	}
	if s.deps.Readiness != nil {
		defer func() { s.deps.Readiness(s.Ready()) }()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = s.readiness(err)
	switch {
	case err != nil:
	case s.mtu == 0 && annotated != nil:
		s.ready = annotated
	case s.mtu == 0:
		s.mtu = mtu
		close(s.done)
	case s.mtu != mtu && s.end != nil:
		s.end(fmt.Errorf("the MTU of pods has changed from %d to %d", s.mtu, mtu))
	}
	return urgent(err, annotated, s.secondErr, s.vfProblem)
}

// urgent is the first error that nothing but time ends, or else the first one.
func urgent(errs ...error) error {
	var first error
	for _, err := range errs {
		switch {
		case err != nil && !errors.Is(err, reconcile.ErrNotReady):
			return err
		case first == nil:
			first = err
		}
	}
	return first
}

// readiness is what a pass' error means for pods. The first one of a node that was ready means nothing: on a host that
// is short of time any command may be too slow, and the next pass comes at once. That something is not there counts at
// once.
func (s *Setup) readiness(err error) error {
	first := err != nil && !s.failed
	s.failed = err != nil
	if first && s.ready == nil && !errors.Is(err, reconcile.ErrNotReady) {
		return nil
	}
	return err
}

// parts gives apart the errors of the annotations and of what no pod depends on.
func (s *Setup) parts(ctx context.Context) (mtu int, annotated, err error) {
	g, err := s.gateway(ctx)
	var second Gateway
	if err == nil || s.MTU() != 0 { // both may have lost ovs-vswitchd at once
		second = s.keepSecond(ctx, g)
	}
	if err != nil {
		return 0, nil, err
	}
	st, err := s.look(ctx)
	if err != nil {
		return 0, nil, err
	}
	if addr, missing := missing(st); missing {
		return 0, nil, fmt.Errorf("address %s of the gateway interface has just been deleted", addr)
	}
	st.Second = second
	services, synced := s.services()
	st.Services = s.rangesOf(st, g, services, synced)
	services = services.Without(s.takenBy(st))
	if err := s.direct(ctx, st, g, services, synced); err != nil {
		return 0, nil, err
	}
	if err := s.settle(ctx, &st, g); err != nil {
		return 0, nil, err
	}
	s.noteNextHops(st, g)
	encap, err := encapAddress(s.cfg, st, g)
	if err != nil {
		return 0, nil, err
	}
	link, err := underlay(st, encap)
	if err != nil {
		return 0, nil, err
	}
	if mtu, err = s.PodMTU(s.cfg.MTU, link, encap, s.cfg.Network.Families()); err != nil {
		return 0, nil, err
	}
	if err := s.merge(ctx, settings(s.cfg, st, g, encap)); err != nil {
		return 0, nil, err
	}
	// The controller makes the gateway router of the annotations while we go on.
	annotated = s.annotate(ctx, st, g, encap, mtu)
	if err := s.bridge.Run(ctx, planMasquerade(s.cfg, st, g, mtu)); err != nil {
		return 0, annotated, err
	}
	if synced {
		annotated = errors.Join(annotated, s.deps.Redirect.Keep(ctx, tableOf(s.cfg, st, hostLink(st, g), services)))
	}
	if s.deps.Management == nil {
		return mtu, annotated, nil
	}
	return mtu, annotated, s.deps.Management.Keep(ctx, st.State, mtu)
}

func (s *Setup) gateway(ctx context.Context) (Gateway, error) {
	st, err := s.look(ctx)
	if err != nil {
		return Gateway{}, err
	}
	g, err := chooseGateway(s.cfg, st)
	if err != nil {
		return g, err
	}
	s.links.Remember(st.State, append(gatewayVFLinks(st), g.Bridge, g.NIC, contract.IntegrationBridge, node.ManagementInterface)...)
	return g, s.keep(ctx, st, g)
}

// FailBack moves the uplinks' addresses back from their bridges. It is for the time after the end of ovs-vswitchd, when
// the bridge's link may still look alive. It needs no running Setup.
func (s *Setup) FailBack(ctx context.Context) error {
	return errors.Join(s.failBack(ctx), s.second.failBack(ctx))
}

// Cleanup takes everything back that a Setup has done to the host. Run must not be running, neither here nor in another
// process.
func (s *Setup) Cleanup(ctx context.Context) error {
	st, err := s.observe(ctx)
	if err != nil {
		return err
	}
	if s.cfg.SecondaryOnly && st.Saved == nil {
		return s.merge(ctx, unset(s.cfg, st))
	}
	err = s.deps.Redirect.Remove(ctx)
	var leave error
	if g, err := chooseGateway(s.cfg, st); err == nil {
		leave = s.bridge.Run(ctx, planMasquerade(s.cfg, st, g, 0))
		if !g.owned() {
			leave = errors.Join(leave, s.write(ctx, g.Bridge, flows.Plain()))
		}
	}
	if s.deps.Management != nil {
		err = errors.Join(err, s.deps.Management.Release(ctx, st.State))
	}
	return errors.Join(
		err, leave, s.second.releaseUnwanted(ctx),
		s.merge(ctx, unset(s.cfg, st)),
		s.release(ctx, st),
	)
}
