// Package flownames names the Kubernetes objects that flows of the datapath come from.
//
// Place in the data flow:
//
//	flowapi.Rule -> cookie -> Southbound row -> stage-hint -> Northbound row -> owner -> flowapi.Name
//	kubectl offload: Add -> Databases -> Programs, by exec
//	relay: Add -> Client -> Handler of the leading controller -> Databases -> Live
//
// The cookie of a rule of OVN is the first 32 bits of the UUID of a row of the Southbound, and a Logical_Flow has those of
// its Northbound row in external_ids:stage-hint. Several rows can begin with the same bits: then all of them are named.
// Cookies of a gateway bridge are those of pkg/node/flows.
package flownames

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// NameAll is AddAll with programs of OVN.
func NameAll(ctx context.Context, run trace.Run, agents flowapi.Sources, flows []*flowapi.Flow) (missing []string, err error) {
	if missing, err = AddAll(ctx, Databases{Programs(run)}, agents, flows); err != nil {
		return nil, fmt.Errorf("names of flows: %w", err)
	}
	return missing, nil
}

// Asker names the rules with cookies. What has no row has a name with a Problem.
type Asker interface {
	Names(ctx context.Context, cookies []uint64) (map[uint64]flowapi.Name, error)
}

// Source has rows of OVN's databases, by the first eight digits of their UUIDs.
type Source interface {
	// Southbound has those that rules are made from, and when they were read; zero: now.
	Southbound(ctx context.Context, beginnings map[string]bool) (rows map[string][]trace.Row, read time.Time, err error)
	Northbound(ctx context.Context, beginnings map[string]bool) (map[string][]trace.Row, error)
}

// Databases is an Asker.
type Databases struct{ Source }

// index has the rows of some cookies.
type index struct {
	// southbound has the rows by the first eight digits of their UUIDs, northbound those of the hints in them.
	southbound, northbound map[string][]trace.Row
	read                   time.Time
}

// southbound are the tables whose rows ovn-controller makes rules from, with the columns that are read.
var southbound = map[string]string{ //nolint:gochecknoglobals // a constant
	"Logical_Flow":         "external_ids,pipeline,table_id",
	"Port_Binding":         "external_ids,logical_port,type",
	"Multicast_Group":      "name",
	"MAC_Binding":          "logical_port,ip",
	"Static_MAC_Binding":   "logical_port,ip",
	"FDB":                  "mac",
	"Load_Balancer":        "external_ids,name",
	"Chassis":              "name",
	"Chassis_Template_Var": "chassis",
	"Meter":                "name",
}

// northbound are the tables that pkg/trace explains, and others with owners.
func northbound() map[string]string {
	out := map[string]string{}
	for table, columns := range trace.Tables() {
		out[table] = strings.Join(columns, ",")
	}
	for _, table := range []string{
		"Logical_Switch_Port", "Logical_Router_Port", "Logical_Switch", "Logical_Router", "DHCP_Options", "DNS", "QoS", "Copp",
		"Port_Group", "Address_Set", "Mirror", "BFD", "Static_MAC_Binding", "Load_Balancer_Group", "Forwarding_Group",
	} {
		if _, ok := out[table]; !ok {
			out[table] = "external_ids"
		}
	}
	delete(out, "Static_MAC_Binding") // has no external_ids
	delete(out, "Load_Balancer_Group")
	return out
}

// Names implements Asker.
func (d Databases) Names(ctx context.Context, cookies []uint64) (map[uint64]flowapi.Name, error) {
	beginnings := map[string]bool{}
	for _, cookie := range cookies {
		if key, ok := ofOVN(cookie); ok {
			beginnings[key] = true
		}
	}
	var x index
	var err error
	if x.southbound, x.read, err = d.Southbound(ctx, beginnings); err != nil {
		return nil, err
	}
	hints := map[string]bool{}
	for _, found := range x.southbound {
		for _, row := range found {
			if hint := hintOf(row); hint != "" {
				hints[hint] = true
			}
		}
	}
	if x.northbound, err = d.Northbound(ctx, hints); err != nil {
		return nil, err
	}
	names := map[uint64]flowapi.Name{}
	for _, cookie := range cookies {
		if key, ok := ofOVN(cookie); ok {
			names[cookie] = x.name(key)
		}
	}
	return names, nil
}

// Add names the rules of flows, and what decided about their packets. With an error they have no names.
func Add(ctx context.Context, from Asker, flows []*flowapi.Flow) error {
	asked := map[uint64]bool{}
	for _, f := range flows {
		for _, r := range rules(f) {
			if _, ok := ofOVN(r.Cookie); ok {
				asked[r.Cookie] = true
			}
		}
	}
	names := map[uint64]flowapi.Name{}
	for cookies := range slices.Chunk(slices.Sorted(maps.Keys(asked)), MaxCookies) {
		some, err := from.Names(ctx, cookies)
		if err != nil {
			return err
		}
		maps.Copy(names, some)
	}
	for _, f := range flows {
		addTo(f, names)
	}
	return nil
}

// gatewayBridge is the stage of its flows.
const gatewayBridge = "gateway bridge"

// ofOVN is the start of a UUID that may be the cookie's; not ok for those of others.
func ofOVN(cookie uint64) (string, bool) {
	return fmt.Sprintf("%08x", cookie), cookie != 0 && cookie>>32 == 0
}

func rules(f *flowapi.Flow) []flowapi.Rule {
	if f.Why == nil {
		return nil
	}
	return f.Why.Rules
}

// hintOf is the start of the UUID of the Northbound row; "": there is none.
func hintOf(row trace.Row) string {
	ids := trace.MapOf(row.Columns["external_ids"])
	switch row.Table {
	case "Logical_Flow":
		if hint := strings.TrimPrefix(ids["stage-hint"], "0x"); hint != "" {
			return strings.Repeat("0", max(0, 8-len(hint))) + hint
		}
	case "Load_Balancer":
		if id := ids["lb_id"]; len(id) >= 8 {
			return id[:8]
		}
	}
	return ""
}

func addTo(f *flowapi.Flow, names map[uint64]flowapi.Name) {
	if f.Why == nil {
		return
	}
	why := *f.Why // the caller's flows share it
	why.Rules = slices.Clone(why.Rules)
	for i := range why.Rules {
		name := nameOf(why.Rules[i], names)
		why.Rules[i].Name = &name
	}
	f.Why = &why
	f.DecidedBy = Decided(why.Rules, f.Drops)
}

func nameOf(r flowapi.Rule, names map[uint64]flowapi.Name) flowapi.Name {
	if meaning, ok := flows.Meaning(r.Cookie); ok {
		return flowapi.Name{Stage: gatewayBridge, What: meaning}
	}
	_, ok := ofOVN(r.Cookie)
	switch {
	case r.Cookie == 0:
		return own(r)
	case !ok:
		return flowapi.Name{Problem: fmt.Sprintf("cookie %#x is none of OVN's, and none of the gateway bridge's", r.Cookie)}
	}
	n, ok := names[r.Cookie]
	switch {
	case !ok:
		n.Problem = fmt.Sprintf("cookie %#x has no answer", r.Cookie)
	case n.Row == "" && n.What == "" && answersConnection(n.Stage, r.Rule):
		n.What = "by its connection: policies judged the first packet"
	}
	return n
}

// name names the rules whose cookie has these digits.
func (x *index) name(key string) flowapi.Name {
	found := x.southbound[key]
	if len(found) == 0 {
		when := ""
		if !x.read.IsZero() {
			when = fmt.Sprintf(" when it was read %.0f s ago", time.Since(x.read).Seconds())
		}
		return flowapi.Name{Problem: fmt.Sprintf("the Southbound has no row %s%s: it has changed since the flow was made, or the rule is not OVN's", key, when)}
	}
	out := x.nameOf(found[0])
	for _, row := range found[1:] {
		merge(&out, x.nameOf(row))
		out.Problem = fmt.Sprintf("%d rows of the Southbound begin with %s: one of them", len(found), key)
	}
	return out
}

// merge adds a further candidate to a name.
func merge(to *flowapi.Name, n flowapi.Name) {
	join := func(a, b string) string {
		if a == "" || a == b {
			return b
		}
		return a + " or " + b
	}
	to.Stage, to.Row, to.What, to.Rule = join(to.Stage, n.Stage), join(to.Row, n.Row), join(to.What, n.What), join(to.Rule, n.Rule)
	for _, object := range n.Objects {
		if !slices.Contains(to.Objects, object) {
			to.Objects = append(to.Objects, object)
		}
	}
}
