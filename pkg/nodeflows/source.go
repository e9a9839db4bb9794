// Package nodeflows reads the flows of a node's datapath on demand.
//
// Place in the data flow:
//
//	ovs-vswitchd -> offload.ReadEach -> dump -> Source -> flowapi.Handler of the agent
//	netdev -> counters of representors -> flowapi.Port
//	ovs-vswitchd -> ofproto/detrace (ovs-vswitchd(8)) -> flowapi.Why
//
// A dump costs the main thread of ovs-vswitchd time, so callers share one, and nothing is dumped without a caller. It is a
// package of its own because pkg/offload counts traffic and has no need of single flows.
package nodeflows

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/tcrule"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// Config is what a Source reads from.
type Config struct {
	Node   string
	Switch offload.Switch
	// State says what is known of ports and settings now.
	State func() offload.State
	// Newest is the last regular sample; not ok: there is none.
	Newest func() (offload.Report, time.Time, bool)
	// Counters reads those of a representor.
	Counters func(port string) (netdev.Counters, error)
	// Rules reads the rules of TC of the flows that come in by a port.
	Rules  func(port string) ([]tcrule.Rule, error)
	Logger *slog.Logger
}

// Source is a flowapi.Source of one node.
type Source struct {
	cfg Config
	// turn has one element, which who dumps takes.
	turn chan struct{}
	kept keptRules
	cost cost

	mu     sync.Mutex
	newest *dump
	forget *time.Timer
}

var _ flowapi.Source = (*Source)(nil)

// New makes a Source; nothing is read before the first question.
func New(cfg Config) *Source {
	s := &Source{cfg: cfg, turn: make(chan struct{}, 1), cost: newCost()}
	s.turn <- struct{}{}
	return s
}

// Summary implements flowapi.Source.
func (s *Source) Summary(ctx context.Context, fresh bool) (*flowapi.Summary, error) {
	if !fresh {
		report, taken, ok := s.cfg.Newest()
		if !ok {
			report = offload.Report{Settings: s.cfg.State().Settings}
		}
		return summarize(s.cfg.Node, taken, &report), nil
	}
	d, err := s.dump(ctx)
	if err != nil {
		return nil, err
	}
	return summarize(s.cfg.Node, d.taken, &d.report), nil
}

// Flows implements flowapi.Source.
func (s *Source) Flows(ctx context.Context, q flowapi.Query) (*flowapi.Flows, error) {
	if q.NoFlows {
		return &flowapi.Flows{Node: s.cfg.Node, Taken: time.Now(), Flows: []flowapi.Flow{}, Ports: s.ports(q)}, nil
	}
	ids := idsOf(q)
	if ids != nil {
		if err := s.rest(ctx); err != nil {
			return nil, err
		}
		s.kept.forget(ids)
	}
	d, err := s.dump(ctx)
	if err != nil {
		return nil, err
	}
	chosen := d.with(ids)
	if ids == nil {
		chosen = d.choose(q)
	}
	out := &flowapi.Flows{Node: s.cfg.Node, Taken: d.taken, Matched: len(chosen), Flows: []flowapi.Flow{}}
	limit := q.Limit
	if limit <= 0 {
		limit = flowapi.DefaultLimit
	}
	for _, at := range chosen[:min(limit, len(chosen))] {
		f := d.flows[at]
		f.Node = s.cfg.Node
		out.Flows = append(out.Flows, f)
	}
	out.Ports = s.ports(q)
	if q.Why {
		err = s.explain(ctx, d, out.Flows)
	}
	if q.TC && err == nil {
		s.addTC(out.Flows)
	}
	return out, err
}

// ports reads the counters of the representors of pods, if a query asks for them.
func (s *Source) ports(q flowapi.Query) (ports []flowapi.Port) {
	if !q.Counters {
		return nil
	}
	for _, p := range s.cfg.State().Ports {
		end := endOf(p.Name, p.Pod)
		if !p.Function || !wanted(q, end) {
			continue
		}
		got, err := s.cfg.Counters(p.Name)
		port := flowapi.Port{End: end, Hardware: got.Hardware, Software: got.Software, CPUHit: got.CPUHit}
		if err != nil {
			port.Problem = err.Error()
		}
		ports = append(ports, port)
	}
	return ports
}

// Why implements flowapi.Source.
func (s *Source) Why(ctx context.Context, id string) (*flowapi.Why, error) {
	d, err := s.dump(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(d.flows, func(f flowapi.Flow) bool { return f.ID == id })
	if at < 0 {
		return nil, flowapi.ErrNoFlow
	}
	one := []flowapi.Flow{d.flows[at]}
	if err = s.explain(ctx, d, one); err == nil {
		s.addTC(one)
	}
	return one[0].Why, err
}

// rest waits until a new dump may be made, but no longer than the least time between two.
func (s *Source) rest(ctx context.Context) error {
	s.mu.Lock()
	next := s.newest.next()
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(time.Until(next), flowapi.MinPeriod)):
		return nil
	}
}

// kept is how long a dump stays in memory without a caller.
const kept = flowapi.RateSpan

// dump gives a dump that is fresh enough, and makes one if there is none.
func (s *Source) dump(ctx context.Context) (*dump, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	s.mu.Lock()
	last := s.newest
	s.mu.Unlock()
	if last.next().After(time.Now()) {
		return last, nil
	}
	defer s.spent("dump", time.Now())
	d, err := read(ctx, s.cfg.Switch, s.cfg.State(), last)
	if err != nil {
		return nil, err
	}
	s.cfg.Logger.Debug("flows dumped on demand", "flows", len(d.flows), "took", d.took)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = d
	if s.forget != nil {
		s.forget.Stop()
	}
	s.forget = time.AfterFunc(kept, func() { s.drop(d) })
	return d, nil
}

func (s *Source) drop(d *dump) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == d {
		s.newest = nil
	}
}
