package nodeflows

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// reconstruct sends the match of a flow through the tables as they are now (ofproto/trace), for ovs-vswitchd knows the rules of
// a flow only when its counters have changed: of one that had a single packet it never does. No packet is sent. Short flows
// end between the dump and the question.
func (s *Source) reconstruct(ctx context.Context, d *dump, id string) (*flowapi.Why, error) {
	why := &flowapi.Why{ID: id}
	key, ok := d.keys[id]
	if !ok {
		return why, nil
	}
	text, err := s.cfg.Switch.Call(ctx, "ofproto/trace", key)
	if refused := (*unixctl.Refused)(nil); err != nil && !errors.As(err, &refused) {
		return nil, fmt.Errorf("tracing flow %s: %w", id, err)
	}
	if rules := parseTrace(text); len(rules) > 0 {
		why.Rules, why.Reconstructed = rules, true
	}
	return why, nil
}

// tracedRule is " 5. ip,nw_dst=10.0.0.2, priority 100, cookie 0x77"; without a cookie it is 0.
var tracedRule = regexp.MustCompile(`^\s*(\d+)\. (?:(.*), )?priority (\d+)(?:, cookie 0x([0-9a-f]+))?$`)

// parseTrace reads the rules up to where the packet is recirculated: what follows is another flow. The indented lines below a rule
// are its actions.
func parseTrace(text string) []flowapi.Rule {
	var rules []flowapi.Rule
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "Final flow:") {
			return rules
		}
		if m := tracedRule.FindStringSubmatch(line); m != nil {
			rule := flowapi.Rule{}
			rule.Table, _ = strconv.Atoi(m[1])               // digits
			rule.Cookie, _ = strconv.ParseUint(m[4], 16, 64) // digits, or none
			rule.Rule = strings.Join(slices.DeleteFunc([]string{"priority=" + m[3], m[2]}, func(s string) bool { return s == "" }), ",")
			rules = append(rules, rule)
			continue
		}
		if action := strings.TrimSpace(line); len(rules) > 0 && strings.HasPrefix(line, "    ") && !strings.HasPrefix(action, ">>") && !strings.HasPrefix(action, "->") {
			last := &rules[len(rules)-1]
			if !strings.Contains(last.Rule, ",actions=") {
				last.Rule += ",actions=" + action
			} else {
				last.Rule += "," + action
			}
		}
	}
	return rules
}
