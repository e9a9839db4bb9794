package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Management keeps the management port by itself, as a DPU and its host do: the
// DPU has the port of br-int, and the host, which is given no DB, the interface.
type Management struct {
	*machine
	mtu   func() int
	loop  *reconcile.Loop[contract.Owner]
	links watchedLinks

	mu      sync.Mutex
	problem error
}

// NewManagement makes a Management; nothing is touched before Run. Of the Config
// it needs Node, Network, and on a host Zone. The MTU is that of
// pods; it is asked for in each pass.
func NewManagement(cfg Config, deps Deps, mtu func() int) (*Management, error) {
	if cfg.Node == "" || len(cfg.Network.Subnets) == 0 {
		return nil, fmt.Errorf("management port: node %q, cluster subnets %v: each must be set", cfg.Node, cfg.Network.Subnets)
	}
	m := &Management{machine: &machine{cfg: cfg, deps: deps}, mtu: mtu}
	lc := reconcile.Defaults("management")
	lc.Logger, lc.Registerer = deps.Logger, deps.Registerer
	m.loop = reconcile.New(lc, func(ctx context.Context, _ []contract.Owner) (map[contract.Owner]error, error) {
		err := m.pass(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.problem = err
		return nil, err
	})
	m.loop.MarkAllWith(func() []contract.Owner { return []contract.Owner{managementOwner(cfg)} })
	return m, nil
}

// Run keeps the port until ctx ends; it leaves it as it is.
func (m *Management) Run(ctx context.Context) error {
	events, err := m.deps.Host.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watching for the management port: %w", err)
	}
	go m.links.follow(events, m.Mark)
	return m.loop.Run(ctx)
}

// Mark asks for a pass: the function may be another one, or there again.
func (m *Management) Mark() { m.loop.MarkAll() }

// Changed takes owners whose rows or objects have changed.
func (m *Management) Changed(owners ...contract.Owner) {
	for _, owner := range owners {
		if owner == contract.NodeOwner(m.cfg.Node) || owner == managementOwner(m.cfg) {
			m.Mark()
			return
		}
	}
}

// Problem says what the port lacks; nil when it is whole.
func (m *Management) Problem() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.problem
}

func (m *Management) pass(ctx context.Context) error {
	var st State
	if err := m.observeHost(&st); err != nil {
		return fmt.Errorf("observing the host: %w", err)
	}
	m.links.remember(st, contract.IntegrationBridge, ManagementInterface)
	if err := m.observeNode(&st); err != nil {
		return err
	}
	if m.deps.DB != nil {
		m.observeSwitch(&st)
		return m.management(ctx, st, m.mtu())
	}
	return m.onHost(ctx, st)
}

// onHost tells the DPU which function it is before it is used.
func (m *Management) onHost(ctx context.Context, st State) error {
	node := m.deps.Node()
	if node == nil {
		return notReady("node %s is not known", m.cfg.Node)
	}
	f, err := m.deps.Function()
	if err != nil {
		return err
	}
	claim := ""
	if f != nil {
		claim = f.Claim
	}
	told := m.deps.Annotate(ctx, node, map[string]string{contract.ManagementPortKey: claim})
	if f == nil {
		return errors.Join(told, m.run(ctx, giveBack(st)))
	}
	st.Function = f
	return errors.Join(told, m.keepPort(ctx, st, m.mtu()))
}

// management asks which function carries the port, and keeps it.
func (m *machine) management(ctx context.Context, st State, mtu int) (err error) {
	if m.deps.Function != nil {
		if st.Function, err = m.deps.Function(); err != nil {
			return err
		}
	}
	return m.keepPort(ctx, st, mtu)
}

// keepPort makes the port what its function says.
func (m *machine) keepPort(ctx context.Context, st State, mtu int) error {
	if st.Ours[portName(st.Function)] && len(st.Subnets) > 0 {
		if err := m.commit(ctx, managementRows(m.cfg, st, mtu)); err != nil {
			return err
		}
	}
	steps, waiting := planManagement(m.cfg, st, mtu)
	if err := m.run(ctx, steps); err != nil {
		return err
	}
	return waiting
}
