package nodeflows

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
)

// reconstruction sends the match of a flow through the tables as they are now (ofproto/trace), for ovs-vswitchd knows the rules
// of a flow only when its counters have changed: of one that had a single packet it never does. No packet is sent. Short flows
// end between the dump and the question.
type reconstruction struct {
	*Source
	*dump
	// ports are the numbers of the datapath's ports, once they were asked for.
	ports map[string]string
}

// add adds the rules, or why there are none.
func (r *reconstruction) add(ctx context.Context, why *flowapi.Why) error {
	key, ok := r.keys[why.ID]
	if !ok {
		return nil
	}
	if r.ports == nil {
		if err := r.readPorts(ctx); err != nil {
			return err
		}
	}
	text, err := r.ask(ctx, "ofproto/trace", traceable(key, r.ports))
	refused := (*unixctl.Refused)(nil)
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("tracing flow %s: %w", why.ID, err)
	}
	switch rules := parseTrace(text); {
	case len(rules) > 0:
		why.Rules, why.Reconstructed, why.Problem = rules, true, ""
	case refused != nil && strings.Contains(refused.Text, noContext):
		why.Problem += ", and the flows before it have ended"
	case refused != nil:
		why.Problem += ", and its match cannot be traced"
		r.cfg.Logger.Debug("a flow cannot be traced", "flow", why.ID, "error", err)
	}
	return nil
}

// noContext is said of a match that begins at a recirculation of which nothing is known any more.
const noContext = "no recirculation data"

// shownPort is a line of dpif/show such as "    6dd19cdb8bd9842 8/5: (system)": its second number is the datapath's.
var shownPort = regexp.MustCompile(`^\s+(\S+) \d+/(\d+):`)

func (r *reconstruction) readPorts(ctx context.Context) error {
	text, err := r.cfg.Switch.Call(ctx, "dpif/show")
	if err != nil {
		return fmt.Errorf("asking for the numbers of ports: %w", err)
	}
	r.ports = map[string]string{}
	for line := range strings.Lines(text) {
		if m := shownPort.FindStringSubmatch(line); m != nil {
			r.ports[m[1]] = m[2]
		}
	}
	return nil
}

// traceable is a match as ofproto/trace reads it. It takes a name of a port that begins with a digit for a number, and has other
// words for the ports of ct_tuple6 than dpctl/dump-flows writes (lib/odp-util.c of Open vSwitch 3.5).
func traceable(key string, ports map[string]string) string {
	key = strings.ReplaceAll(strings.ReplaceAll(key, "src_port=", "tp_src="), "dst_port=", "tp_dst=")
	before, rest, ok := strings.Cut(key, "in_port(")
	name, after, closed := strings.Cut(rest, ")")
	if number := ports[name]; ok && closed && number != "" {
		return before + "in_port(" + number + ")" + after
	}
	return key
}

// tracedRule is " 5. ip,nw_dst=10.0.0.2, priority 100, cookie 0x77"; without a cookie it is 0.
var tracedRule = regexp.MustCompile(`^\s*(\d+)\. (?:(.*), )?priority (\d+)(?:, cookie 0x([0-9a-f]+))?$`)

// resumedRule is "unroll_xlate(table=17, cookie=3229229776)": a packet that comes back to a group goes on behind the rule that has
// the group, without meeting it again.
var resumedRule = regexp.MustCompile(`^\s*unroll_xlate\(table=(\d+), cookie=(\d+)\)$`)

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
		if m := resumedRule.FindStringSubmatch(line); m != nil {
			rule := flowapi.Rule{Rule: "resumed in a group"}
			rule.Table, _ = strconv.Atoi(m[1])               // digits
			rule.Cookie, _ = strconv.ParseUint(m[2], 10, 64) // digits
			if rule.Cookie != 0 && rule.Cookie != math.MaxUint64 {
				rules = append(rules, rule)
			}
			continue
		}
		if action := strings.TrimSpace(line); len(rules) > 0 && strings.HasPrefix(line, "    ") && !strings.HasPrefix(action, ">>") && !strings.HasPrefix(action, "->") && !strings.HasPrefix(action, "restored state:") {
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
