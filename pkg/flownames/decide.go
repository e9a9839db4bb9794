package flownames

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// nameOf names the rules that were made from a row of the Southbound.
func (x *index) nameOf(row trace.Row) flowapi.Name {
	ids := trace.MapOf(row.Columns["external_ids"])
	if row.Table != "Logical_Flow" {
		n := flowapi.Name{Stage: strings.ToLower(row.Table), Row: row.Table, What: described(row)}
		if owner := ids[trace.OwnerKey]; owner != "" {
			n.Objects = []string{owner}
		}
		x.fromNorthbound(&n, row, "")
		return n
	}
	n := flowapi.Name{Stage: stageOf(row)}
	x.fromNorthbound(&n, row, n.Stage)
	return n
}

// stageOf is the stage of a logical flow.
func stageOf(row trace.Row) string {
	return cmp.Or(trace.MapOf(row.Columns["external_ids"])["stage-name"], fmt.Sprintf("%v table %v", row.Columns["pipeline"], row.Columns["table_id"]))
}

// fromNorthbound adds the rows that a row of the Southbound was made from.
func (x *index) fromNorthbound(n *flowapi.Name, row trace.Row, stage string) {
	hint := hintOf(row)
	found := x.northbound[hint]
	for _, north := range found {
		candidate := flowapi.Name{Stage: n.Stage, Row: north.Table, What: north.What(trace.Flow{Stage: stage}), Rule: north.Rule()}
		if owner := trace.MapOf(north.Columns["external_ids"])[trace.OwnerKey]; owner != "" {
			candidate.Objects = []string{owner}
		}
		merge(n, candidate)
	}
	switch {
	case hint != "" && len(found) == 0:
		n.Problem = fmt.Sprintf("the Northbound has no row %s: it has changed since the flow was made", hint)
	case len(found) > 1:
		n.Problem = fmt.Sprintf("%d rows of the Northbound begin with %s: one of them", len(found), hint)
	}
}

// described says in words which row it is.
func described(row trace.Row) string {
	for _, column := range []string{"logical_port", "name", "mac", "chassis"} {
		if text, ok := row.Columns[column].(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// answersConnection: ovn-northd passes packets of known connections by rules of priority 65532 that are of no ACL.
func answersConnection(stage, rule string) bool {
	return strings.Contains(stage, "_acl_") && strings.HasPrefix(rule, "priority=65532")
}

// own are rules of ovn-controller that are of no row: packets from tunnels, between logical tables, and what is dropped.
func own(r flowapi.Rule) flowapi.Name {
	what := ""
	switch {
	case r.Table == 0 && strings.Contains(r.Rule, "tun_id"), r.Table == 0 && strings.Contains(r.Rule, "in_port=") && strings.Contains(r.Rule, "NXM_NX_TUN_"):
		what = "from a tunnel"
	case strings.Contains(r.Rule, "actions=drop"):
		what = "no rule: drop"
	case strings.Contains(r.Rule, "actions=NORMAL"):
		what = "as a switch does"
	}
	return flowapi.Name{Stage: fmt.Sprintf("OpenFlow table %d", r.Table), What: what}
}

// weight orders rows by how much they decide: policies, services and translations before routes, these before ports, and last
// what the network itself decides about all packets.
func weight(row, object string) int {
	if strings.HasPrefix(object, "Network/") {
		return -1
	}
	switch row {
	case "ACL", "Load_Balancer", "NAT", "Logical_Router_Policy":
		return 2
	case "Logical_Router_Static_Route":
		return 1
	case "Logical_Switch", "Logical_Router":
		return -2 // ovn-northd has one logical flow for all that have the same, and the name of any of them
	}
	return 0
}

// Decided are the objects of the rules that decide most about packets, which are dropped or not. What drops a packet of a flow that
// forwards it has dropped a copy, such as that for the gateway bridge of one for a tunnel.
func Decided(rules []flowapi.Rule, drops bool) []string {
	var out []string
	most := -2
	for _, r := range rules {
		if r.Name == nil || !drops && IsDrop(r.Name.What) {
			continue
		}
		for _, object := range r.Name.Objects {
			w := -2
			for row := range strings.SplitSeq(r.Name.Row, " or ") {
				w = max(w, weight(row, object))
			}
			if w > most {
				most, out = w, nil
			}
			if w == most && !slices.Contains(out, object) {
				out = append(out, object)
			}
		}
	}
	if out == nil {
		return ofGateway(rules)
	}
	return out
}

// IsDrop says whether what a rule decides is that packets are dropped.
func IsDrop(what string) bool { return strings.HasSuffix(what, ": drop") }

// ofGateway names the flows of the gateway bridge that no object decided about.
func ofGateway(rules []flowapi.Rule) []string {
	var out []string
	for _, r := range rules {
		if r.Name != nil && r.Name.Stage == gatewayBridge {
			if text := gatewayBridge + ": " + r.Name.What; !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// Unnamed says why the objects of a flow are not known; "": they are.
func Unnamed(f flowapi.Flow) string {
	switch {
	case len(f.DecidedBy) > 0:
		return ""
	case f.Why == nil:
		return "its rules were not asked for"
	case f.Why.Problem != "":
		return f.Why.Problem
	}
	for _, r := range f.Why.Rules {
		if r.Name != nil && r.Name.Problem != "" {
			return r.Name.Problem
		}
	}
	var stages []string
	for _, r := range f.Why.Rules {
		if r.Name != nil {
			stages = append(stages, r.Name.Stage)
		}
	}
	if len(stages) == 0 {
		return "the databases of OVN were not asked about its rules"
	}
	return "its rules are of no object: " + strings.Join(stages, ", ")
}
