package nodeflows

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// keepRules is how long the rules of a flow that lives are not asked for again. A rule may be replaced by another with the same
// actions, which the flow outlives.
const keepRules = time.Minute

// keptRules are answers about flows, by their UFID.
type keptRules struct {
	mu sync.Mutex
	of map[string]keptRule
	// seen is the dump whose flows they are of.
	seen *dump
}

type keptRule struct {
	why     *flowapi.Why
	asked   time.Time
	actions string
	packets uint64
}

// see forgets the rules of flows that a dump does not have any more.
func (k *keptRules) see(d *dump) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == d {
		return
	}
	k.seen = d
	before := k.of
	k.of = make(map[string]keptRule, len(before))
	for i := range d.flows {
		if kept, ok := before[d.flows[i].ID]; ok {
			k.of[d.flows[i].ID] = kept
		}
	}
}

// get gives a copy of what is kept about a flow; nil: it has to be asked for. A flow with fewer packets than before is another one.
func (k *keptRules) get(f *flowapi.Flow) *flowapi.Why {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept, ok := k.of[f.ID]
	if !ok || time.Since(kept.asked) >= keepRules || kept.actions != f.Actions || kept.packets > f.Packets {
		return nil
	}
	why := *kept.why
	return &why
}

// forget has the rules of flows asked for again.
func (k *keptRules) forget(ids map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.of, func(id string, _ keptRule) bool { return ids[id] })
}

// keep remembers an answer with rules.
func (k *keptRules) keep(f *flowapi.Flow, why *flowapi.Why) {
	if len(why.Rules) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	of := *why
	k.of[f.ID] = keptRule{&of, time.Now(), f.Actions, f.Packets}
}

// cost is what viewers cost ovs-vswitchd.
type cost struct {
	seconds *prometheus.CounterVec
	rules   *prometheus.CounterVec
}

func newCost() cost {
	counter := func(name, text, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: text}, []string{label})
	}
	return cost{
		counter("ovn_offload_flow_questions_seconds_total", "Time that ovs-vswitchd took to answer viewers of flows.", "question"),
		counter("ovn_offload_flow_rules_total", "Flows whose rules viewers wanted, by where they are from.", "from"),
	}
}

// Register adds the metrics.
func (s *Source) Register(registry prometheus.Registerer) {
	registry.MustRegister(s.cost.seconds, s.cost.rules)
}

// ask asks ovs-vswitchd about the rules of a flow.
func (s *Source) ask(ctx context.Context, method string, args ...string) (string, error) {
	defer s.spent("rules", time.Now())
	return s.cfg.Switch.Call(ctx, method, args...)
}

func (s *Source) spent(question string, since time.Time) {
	s.cost.seconds.WithLabelValues(question).Add(time.Since(since).Seconds())
}
