package nodeflows

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// ovs-vswitchd knows the rules of a flow from the first time on that it has looked at its counters.
const (
	attempts = 4
	pause    = 500 * time.Millisecond
)

// notYet is the answer of ovs-vswitchd about a flow whose rules it does not know yet.
const (
	notYet       = "Cache was not found"
	problemEnded = "ovs-vswitchd knows no rules of the flow: it has ended"
	problemEarly = "ovs-vswitchd does not know the rules of the flow yet"
)

// explain asks for the rules of each flow. Of a flow without them they are reconstructed at once if it has ended, because
// with it other flows of its way may end, or if it has no packets: the first packet of a flow is not counted as the flow's.
func (s *Source) explain(ctx context.Context, d *dump, flows []flowapi.Flow) error {
	r := reconstruction{Source: s, dump: d}
	s.recall(d, flows)
	for attempt := 1; ; attempt++ {
		again := false
		for i := range flows {
			f := &flows[i]
			if f.Why != nil && f.Why.Problem != problemEarly {
				continue
			}
			early, err := r.rulesOf(ctx, f, attempt == attempts)
			if err != nil {
				return err
			}
			again = again || early
		}
		if !again || attempt == attempts {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// rulesOf asks for the rules of one flow, for the last time or not.
func (r *reconstruction) rulesOf(ctx context.Context, f *flowapi.Flow, last bool) (early bool, _ error) {
	why, early, err := r.detrace(ctx, f.ID, r.threads[f.ID])
	if err == nil && (why.Problem == problemEnded || early && (f.Packets == 0 || last)) {
		early, err = false, r.add(ctx, why)
	}
	if err != nil {
		return false, err
	}
	r.kept.keep(f, why)
	why.Obstacles = r.obstacles[f.ID]
	f.Why = why
	return early, nil
}

// recall gives flows the rules that are kept.
func (s *Source) recall(d *dump, flows []flowapi.Flow) {
	s.kept.see(d)
	for i := range flows {
		f := &flows[i]
		why := s.kept.get(f)
		if why == nil {
			s.cost.rules.WithLabelValues("asked").Inc()
			continue
		}
		why.Obstacles, f.Why = d.obstacles[f.ID], why
		s.cost.rules.WithLabelValues("kept").Inc()
	}
}

// detrace asks for the rules of one flow. early: a later question may have an answer.
func (s *Source) detrace(ctx context.Context, id, thread string) (_ *flowapi.Why, early bool, _ error) {
	why := &flowapi.Why{ID: id}
	if id == "" {
		why.Problem = "the flow has no UFID"
		return why, false, nil
	}
	args := []string{"ufid:" + id}
	if thread != "" {
		args = append(args, "pmd="+thread)
	}
	text, err := s.ask(ctx, "ofproto/detrace", args...)
	var refused *unixctl.Refused
	switch {
	case errors.As(err, &refused) && strings.Contains(refused.Text, "not a valid command"):
		why.Problem = flowapi.NoRules
		return why, false, nil
	case errors.As(err, &refused):
		text = refused.Text
	case err != nil:
		return nil, false, fmt.Errorf("asking for the rules of flow %s: %w", id, err)
	}
	why.Rules = parseRules(text)
	switch {
	case len(why.Rules) > 0:
	case strings.Contains(text, notYet):
		why.Problem, early = problemEarly, true
	default:
		why.Problem = problemEnded
	}
	return why, early, nil
}

// parseRules reads lines such as
//
//	cookie=0xdeadbeef, table_id=5, duration=1s, n_packets=2, n_bytes=212, n_offload_packets=0, n_offload_bytes=0, priority=7,ip,actions=drop
func parseRules(text string) []flowapi.Rule {
	var rules []flowapi.Rule
	for line := range strings.Lines(text) {
		rest := strings.TrimSpace(line)
		rule := flowapi.Rule{}
		found := false
		for {
			field, after, more := strings.Cut(rest, ", ")
			name, value, ok := strings.Cut(field, "=")
			if !more || !ok || !set(&rule, name, value) {
				break
			}
			found = true
			rest = after
		}
		if found {
			rule.Rule = strings.TrimPrefix(rest, ",")
			rules = append(rules, rule)
		}
	}
	return rules
}

// set takes a field in front of a rule's priority; not ok: it is none.
func set(r *flowapi.Rule, name, value string) (ok bool) {
	switch name {
	case "cookie":
		r.Cookie, _ = strconv.ParseUint(value, 0, 64) // digits
	case "table_id":
		r.Table, _ = strconv.Atoi(value) // digits
	case "duration", "n_packets", "n_bytes", "n_offload_packets", "n_offload_bytes":
	default:
		return false
	}
	return true
}
