package trace

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Step is one decision on the way.
type Step struct {
	// Where is the logical switch or router.
	Where string `json:"where"`
	// What was decided, such as "ingress policy: drop", or "ingress[1]: allow-related" by a rule of a policy.
	What string `json:"what"`
	// Object is the Kubernetes object that decided, such as NetworkPolicy/shop/deny; empty: the network itself.
	Object string `json:"object,omitempty"`
	// Flow has the first eight digits of the UUID of the logical flow, which are the cookie of its OpenFlows.
	Flow string `json:"-"`
}

// Verdict is how a path ends.
type Verdict string

// The verdicts.
const (
	Delivered Verdict = "delivered" // to a port of a pod or a node
	Leaves    Verdict = "leaves"    // by a physical network
	Dropped   Verdict = "dropped"
	Rejected  Verdict = "rejected" // the sender gets a TCP reset or an ICMP error
)

// OwnerKey is the key of a row's owner in external_ids.
const OwnerKey = "ovn-offload.io/owner"

var backends = regexp.MustCompile(`ct_lb(?:_mark)?\(backends=([^;)]+)`)

// Steps are the decisions of a path.
func Steps(p Path, hints map[string]string, rows map[string]Row) ([]Step, Verdict) {
	var steps []Step
	verdict := Dropped
	for _, f := range p.Flows {
		row, ok := rows[hints[f.UUID]]
		if f.rejects() {
			verdict = Rejected
		}
		if !ok {
			continue
		}
		step := Step{Where: f.Datapath, What: row.What(f), Object: MapOf(row.Columns["external_ids"])[OwnerKey]}
		if n := len(steps); step.What == "" || n > 0 && steps[n-1].Where == step.Where && steps[n-1].What == step.What && steps[n-1].Object == step.Object {
			continue
		}
		step.Flow = f.UUID
		steps = append(steps, step)
		if row.Table == "ACL" && row.Columns["action"] == "reject" {
			verdict = Rejected
		}
		if verdict == Rejected { // what comes is about the reset or the ICMP error, also where it arrives
			return steps, verdict
		}
	}
	if verdict == Rejected {
		return steps, verdict
	}
	return p.ends(steps)
}

// ends adds where packets leave the path.
func (p Path) ends(steps []Step) ([]Step, Verdict) {
	verdict := Dropped
	for _, out := range p.Outputs {
		switch out.Type {
		case "localnet":
			verdict = Leaves
			steps = append(steps, Step{Where: out.Port, What: "leaves by the physical network"})
		case "":
			verdict = Delivered
			what := "delivered"
			if strings.HasPrefix(out.Port, contract.Network{}.ManagementPort("")) {
				what = "delivered to the node itself"
			}
			steps = append(steps, Step{Where: out.Port, What: what})
		}
	}
	return steps, verdict
}

// rejects says whether the sender gets a TCP reset or an ICMP error for the packet.
func (f Flow) rejects() bool {
	return slices.ContainsFunc(f.Actions, func(action string) bool { return strings.HasPrefix(action, "reject") })
}

// Backends are the addresses and ports that load balancers of a path choose from.
func (p Path) Backends() []netip.AddrPort {
	all := slices.Clone(p.Chosen)
	for _, f := range p.Flows {
		for _, action := range f.Actions {
			if m := backends.FindStringSubmatch(action); m != nil {
				for text := range strings.SplitSeq(m[1], ",") {
					if at, err := netip.ParseAddrPort(text); err == nil && !slices.Contains(all, at) {
						all = append(all, at)
					}
				}
			}
		}
	}
	return all
}

// Rule is the rule of a policy that a row was made from, as a path of the policy's spec: ingress[1]. "": it is of no rule, such as
// the row for all that no rule allows.
func (r Row) Rule() string {
	ids := MapOf(r.Columns["external_ids"])
	index := ids["gress-index"]
	if r.Table != "ACL" || index == "" {
		return ""
	}
	return strings.ToLower(ids["direction"]) + "[" + index + "]"
}

// What says what a row decided about a packet in a flow; "" if it decided nothing.
func (r Row) What(f Flow) string {
	text := func(column string) string { value, _ := r.Columns[column].(string); return value }
	switch r.Table {
	case "ACL":
		if !strings.HasSuffix(f.Stage, "_acl_eval") && !strings.HasSuffix(f.Stage, "_acl_after_lb_eval") {
			return ""
		}
		if rule := r.Rule(); rule != "" {
			return rule + ": " + text("action")
		}
		direction := map[string]string{"from-lport": "egress", "to-lport": "ingress"}[text("direction")]
		return direction + " policy: " + text("action")
	case "Load_Balancer":
		for _, action := range f.Actions {
			if m := backends.FindStringSubmatch(action); m != nil {
				return "load balancer: to " + oneOf(strings.Split(m[1], ","))
			}
		}
		if f.rejects() || slices.Contains(f.Actions, "drop") {
			return "load balancer: no endpoint"
		}
		if f.Actions == nil { // not known
			return "load balancer"
		}
	case "Logical_Router_Policy":
		return "router policy: " + text("action")
	case "Logical_Router_Static_Route":
		return "route " + text("ip_prefix")
	case "NAT":
		return text("type") + " " + text("logical_ip") + " to " + text("external_ip")
	}
	return ""
}

// namedEndpoints bounds the endpoints in a line of text.
const namedEndpoints = 3

// oneOf says which endpoints a load balancer chooses from.
func oneOf[E any](endpoints []E) string {
	var all []string
	for _, e := range endpoints[:min(len(endpoints), namedEndpoints)] {
		all = append(all, fmt.Sprint(e))
	}
	text := strings.Join(all, ", ")
	switch n := len(endpoints); {
	case n == 1:
		return text
	case n > namedEndpoints:
		text += fmt.Sprintf(" and %d more", n-namedEndpoints)
	}
	return "one of " + text
}
