package relay

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

const (
	// period is the time between two summaries of a node.
	period = 30 * time.Second
	// steps are those that are kept: an hour.
	steps = 120
	// parallel bounds the agents that are asked at a time, and patience the time for an answer.
	parallel = 64
	patience = 10 * time.Second
)

// Agents are the agents by node.
type Agents func() map[string]flowapi.Source

// Gathered are the newest summaries, and an hour of sums.
type Gathered struct {
	agents Agents

	mu sync.Mutex
	// last are the newest summaries as agents gave them: of the life of each flow. nodes are those of the time between two.
	last, nodes map[string]*flowapi.Summary
	failed      map[string]string
	sums        []web.Sum
}

// NewGathered knows nothing yet.
func NewGathered(agents Agents) *Gathered {
	return &Gathered{agents: agents, last: map[string]*flowapi.Summary{}, nodes: map[string]*flowapi.Summary{}, failed: map[string]string{}}
}

// Run gathers until ctx ends.
func (g *Gathered) Run(ctx context.Context) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		g.Gather(ctx, time.Now())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Gather asks all agents once.
func (g *Gathered) Gather(ctx context.Context, now time.Time) {
	agents := g.agents()
	g.mu.Lock()
	gone := func(node string) bool { _, ok := agents[node]; return !ok }
	for _, of := range []map[string]*flowapi.Summary{g.last, g.nodes} {
		maps.DeleteFunc(of, func(node string, _ *flowapi.Summary) bool { return gone(node) })
	}
	maps.DeleteFunc(g.failed, func(node string, _ string) bool { return gone(node) })
	g.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(parallel)
	for node, source := range agents {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			summary, err := source.Summary(ctx, false)
			g.keep(node, summary, err)
			return nil
		})
	}
	_ = group.Wait() // none fails
	g.sum(now)
}

func (g *Gathered) keep(node string, s *flowapi.Summary, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.failed[node] = err.Error()
		delete(g.nodes, node) // old numbers are no numbers
		delete(g.last, node)
		return
	}
	delete(g.failed, node)
	was := g.last[node]
	g.last[node] = s
	switch {
	case was == nil:
		g.nodes[node] = s
	case s.Taken.IsZero() || !s.Taken.Equal(was.Taken): // else it is the same sample
		g.nodes[node] = flowapi.Since(was, s)
	}
}

func (g *Gathered) sum(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sum := web.Sum{Taken: now.UTC().Truncate(time.Second), Nodes: len(g.nodes), Failed: len(g.failed)}
	for _, s := range g.nodes {
		if s.Seconds > 0 {
			t := s.Total
			sum.Hardware += float64(t.Hardware.Packets) / s.Seconds
			sum.Software += float64(t.Partial.Packets+t.TC.Packets+t.OVS.Packets) / s.Seconds
		}
	}
	g.sums = append(g.sums, sum)
	g.sums = slices.Delete(g.sums, 0, max(len(g.sums)-steps, 0))
}

// Summaries are the newest ones, and the agents that did not answer with the reason.
func (g *Gathered) Summaries() (nodes map[string]*flowapi.Summary, failed map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.nodes), maps.Clone(g.failed)
}

// of is the newest summary of a node; nil: there is none.
func (g *Gathered) of(node string) *flowapi.Summary {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[node]
}

// Sums are those of the last hour, the oldest first.
func (g *Gathered) Sums() []web.Sum {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.sums)
}

// flowsFor is how long an answer about flows is shared by those who ask the same.
const flowsFor = flowapi.MinPeriod

// shared gives the flows of a node, one question at a time for all who ask the same, with names where there are rules.
type shared struct {
	names   flownames.Asker // nil: none
	mu      sync.Mutex
	answers map[sharedKey]*sharedAnswer
}

type sharedKey struct {
	node  string
	query flowapi.Query
}

type sharedAnswer struct {
	mu    sync.Mutex
	until time.Time
	flows *flowapi.Flows
	err   error
	// unnamed says why flows have no names.
	unnamed error
}

func (s *shared) get(ctx context.Context, source flowapi.Source, key sharedKey) (flows *flowapi.Flows, unnamed, err error) {
	s.mu.Lock()
	now := time.Now()
	a := s.answers[key]
	if a == nil {
		maps.DeleteFunc(s.answers, func(_ sharedKey, old *sharedAnswer) bool { // views that are closed
			if !old.mu.TryLock() {
				return false
			}
			defer old.mu.Unlock()
			return now.After(old.until.Add(time.Minute))
		})
		a = &sharedAnswer{until: now}
		s.answers[key] = a
	}
	s.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Now().Before(a.until) {
		return a.flows, a.unnamed, a.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // for the others who wait
	defer cancel()
	a.flows, a.err = source.Flows(ctx, key.query)
	if a.unnamed = nil; a.err == nil && key.query.Why {
		a.unnamed = addNames(ctx, s.names, source, a.flows)
	}
	a.until = time.Now().Add(flowsFor)
	return a.flows, a.unnamed, a.err
}
