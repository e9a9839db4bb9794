package management

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Port is a node's own interface in its pod subnet, and its port of br-int.
type Port struct {
	*node.Host
	vf func() (*node.VF, error)
}

// NewPort makes a Port. The function says which VF carries it; nil, or
// a nil VF: none does.
func NewPort(cfg node.Config, deps node.Deps, function func() (*node.VF, error)) *Port {
	return &Port{Host: &node.Host{Config: cfg, Deps: deps}, vf: function}
}

// state is what the planners of the management port look at.
type state struct {
	node.State
	// VF carries the management port; nil: an internal port does.
	VF *node.VF
}

// Runner keeps the management port by itself, as a DPU and its host do: the
// DPU has the port of br-int, and the host, which is given no DB, the interface.
type Runner struct {
	*Port
	mtu   func() int
	loop  *reconcile.Single
	links node.WatchedLinks

	mu  sync.Mutex
	err error
}

// New makes a Runner; nothing is touched before Run. On a host without a
// DB the Config has the service subnets. The MTU is that of pods; it is asked for in
// each pass.
func New(port *Port, mtu func() int) (*Runner, error) {
	cfg, deps := port.Config, port.Deps
	if cfg.Node == "" || len(cfg.Network.Subnets) == 0 {
		return nil, fmt.Errorf("management port: node %q, cluster subnets %v: each must be set", cfg.Node, cfg.Network.Subnets)
	}
	m := &Runner{Port: port, mtu: mtu}
	lc := reconcile.Defaults("management")
	lc.Logger, lc.Registerer = deps.Logger, deps.Registerer
	m.loop = reconcile.NewSingle(lc, func(ctx context.Context) error {
		err := m.pass(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.err = err
		return err
	})
	return m, nil
}

// Run keeps the port until ctx ends; it leaves it as it is.
func (m *Runner) Run(ctx context.Context) error {
	events, err := m.Deps.Netns.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watching for the management port: %w", err)
	}
	go m.links.Follow(events, m.loop)
	return m.loop.Run(ctx)
}

// Mark asks for a pass: the function may be another one, or there again.
func (m *Runner) Mark() { m.loop.Mark() }

// Changed takes owners whose rows or objects have changed.
func (m *Runner) Changed(owners ...contract.Owner) {
	for _, owner := range owners {
		if owner == contract.NodeOwner(m.Config.Node) || owner == node.ManagementOwner(m.Config.Node) {
			m.Mark()
			return
		}
	}
}

// Problem says what the port lacks; nil when it is whole.
func (m *Runner) Problem() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (m *Runner) pass(ctx context.Context) error {
	var st node.State
	if err := m.ObserveHost(&st); err != nil {
		return fmt.Errorf("observing the host: %w", err)
	}
	m.links.Remember(st, contract.IntegrationBridge, node.ManagementInterface)
	if err := m.ObserveNode(&st); err != nil {
		return err
	}
	if m.Deps.DB != nil {
		m.ObserveRows(&st, node.ManagementOwner(m.Config.Node))
		return m.Keep(ctx, st, m.mtu())
	}
	return m.onHost(ctx, state{State: st})
}

// onHost tells the DPU which function it is before it is used.
func (m *Runner) onHost(ctx context.Context, st state) error {
	object := m.Deps.Node()
	if object == nil {
		return node.NotReady("node %s is not in the cache", m.Config.Node)
	}
	f, err := m.vf()
	if err != nil {
		return err
	}
	claim, err := contract.SetNetwork(object.Annotations[contract.ManagementPortKey], contract.DefaultNetwork, nil)
	if err != nil {
		return err
	}
	if f != nil {
		claim = f.Claim
	}
	annotated := m.Deps.Annotate(ctx, object, map[string]string{contract.ManagementPortKey: claim})
	if f == nil {
		return errors.Join(annotated, m.Host.Run(ctx, planRestore(st)))
	}
	st.VF = f
	return errors.Join(annotated, m.keep(ctx, st, m.mtu()))
}

// Keep asks which function carries the port, and makes the port so.
func (p *Port) Keep(ctx context.Context, observed node.State, mtu int) (err error) {
	st := state{State: observed}
	if p.vf != nil {
		if st.VF, err = p.vf(); err != nil {
			return err
		}
	}
	return p.keep(ctx, st, mtu)
}

func (p *Port) keep(ctx context.Context, st state, mtu int) error {
	if st.Ours[portName(st.VF)] && len(st.Subnets) > 0 {
		if err := p.Commit(ctx, managementRows(p.Config, st, mtu)); err != nil {
			return err
		}
	}
	steps, waiting := plan(p.Config, st, mtu)
	if err := p.Run(ctx, steps); err != nil {
		return err
	}
	return waiting
}

// Restore restores the VF that carries the port of a host, which has no port of br-int.
func (p *Port) Restore(ctx context.Context) error {
	var st node.State
	if err := p.ObserveHost(&st); err != nil {
		return fmt.Errorf("observing the host: %w", err)
	}
	return p.Run(ctx, planRestore(state{State: st}))
}

// Release restores the VF that carries the port, and removes the port of br-int.
func (p *Port) Release(ctx context.Context, observed node.State) error {
	return errors.Join(
		p.Run(ctx, planRestore(state{State: observed})),
		p.Commit(ctx, node.Commit{Owner: node.ManagementOwner(p.Config.Node)}),
	)
}
