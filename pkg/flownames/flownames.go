// Package flownames names the Kubernetes objects that flows of the datapath come from.
//
// Place in the data flow:
//
//	flowapi.Rule -> cookie -> Southbound row -> stage-hint -> Northbound row -> owner -> flowapi.Name
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

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// Run runs a program of OVN beside one of its databases.
type Run = trace.Run

// NameAll names the rules of flows.
func NameAll(ctx context.Context, run Run, flows []*flowapi.Flow) error {
	var rules []flowapi.Flow
	for _, f := range flows {
		rules = append(rules, flowapi.Flow{Why: f.Why})
	}
	index, err := Look(ctx, run, rules)
	if err != nil {
		return fmt.Errorf("names of flows: %w", err)
	}
	for _, f := range flows {
		index.Name(f)
	}
	return nil
}

// Index has the rows of some cookies.
type Index struct {
	// southbound has the rows by the first eight digits of their UUIDs, northbound those of the hints in them.
	southbound, northbound map[string][]trace.Row
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

// Look reads the rows of the rules of flows.
func Look(ctx context.Context, run Run, of []flowapi.Flow) (*Index, error) {
	x := &Index{}
	cookies := map[string]bool{}
	for _, f := range of {
		for _, r := range rules(f) {
			if key, ok := ofOVN(r.Cookie); ok {
				cookies[key] = true
			}
		}
	}
	var err error
	if x.southbound, err = rows(ctx, run, "sb", southbound, cookies); err != nil {
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
	x.northbound, err = rows(ctx, run, "nb", northbound(), hints)
	return x, err
}

// gatewayBridge is the stage of its flows.
const gatewayBridge = "gateway bridge"

// ofOVN is the start of a UUID that may be the cookie's; not ok for those of others.
func ofOVN(cookie uint64) (string, bool) {
	return fmt.Sprintf("%08x", cookie), cookie != 0 && cookie>>32 == 0
}

func rules(f flowapi.Flow) []flowapi.Rule {
	if f.Why == nil {
		return nil
	}
	return f.Why.Rules
}

// atOnce bounds the arguments of a command.
const atOnce = 400

// rows asks one database for the rows of tables whose UUIDs have one of the beginnings.
func rows(ctx context.Context, run Run, database string, tables map[string]string, beginnings map[string]bool) (map[string][]trace.Row, error) {
	out := map[string][]trace.Row{}
	names := slices.Sorted(maps.Keys(tables))
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(beginnings)), atOnce) {
		command := []string{"ovn-" + database + "ctl", "--no-leader-only", "--format=json"}
		for _, table := range names {
			command = append(command, "--", "--if-exists", "--columns=_uuid,"+tables[table], "list", table)
			command = append(command, chunk...)
		}
		answer, err := run(ctx, database, command)
		if err != nil && strings.Contains(err.Error(), ambiguous) {
			return whole(ctx, run, database, tables, beginnings)
		}
		if err == nil {
			err = add(out, names, answer, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ambiguous is what the programs say when two rows have the same beginning (ovs-vsctl(8), "list").
const ambiguous = "2 or more rows"

// whole reads all rows: the programs name no row when two have the same beginning.
func whole(ctx context.Context, run Run, database string, tables map[string]string, beginnings map[string]bool) (map[string][]trace.Row, error) {
	out := map[string][]trace.Row{}
	names := slices.Sorted(maps.Keys(tables))
	command := []string{"ovn-" + database + "ctl", "--no-leader-only", "--format=json"}
	for _, table := range names {
		command = append(command, "--", "--columns=_uuid,"+tables[table], "list", table)
	}
	answer, err := run(ctx, database, command)
	if err == nil {
		err = add(out, names, answer, beginnings)
	}
	return out, err
}

// add takes the answers to a list of each table. With only, rows of other beginnings are left out.
func add(to map[string][]trace.Row, tables []string, answer []byte, only map[string]bool) error {
	answers, err := trace.ParseAnswers(answer)
	if err != nil {
		return err
	}
	if len(answers) != len(tables) {
		return fmt.Errorf("%d answers for %d tables of a database", len(answers), len(tables))
	}
	for i, table := range tables {
		for _, columns := range answers[i] {
			key := trace.Prefix(columns["_uuid"])
			if only == nil || only[key] {
				to[key] = append(to[key], trace.Row{Table: table, Columns: columns})
			}
		}
	}
	return nil
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

// Name sets the names of the rules of a flow, and what decided about its packets.
func (x *Index) Name(f *flowapi.Flow) {
	if f.Why == nil {
		return
	}
	why := *f.Why // the caller's flows share it
	why.Rules = slices.Clone(why.Rules)
	for i := range why.Rules {
		name := x.name(why.Rules[i])
		why.Rules[i].Name = &name
	}
	f.Why = &why
	f.DecidedBy = Decided(why.Rules, f.Drops)
}

func (x *Index) name(r flowapi.Rule) flowapi.Name {
	if meaning, ok := flows.Meaning(r.Cookie); ok {
		return flowapi.Name{Stage: gatewayBridge, What: meaning}
	}
	key, ok := ofOVN(r.Cookie)
	switch {
	case r.Cookie == 0:
		return own(r)
	case !ok:
		return flowapi.Name{Problem: fmt.Sprintf("cookie %#x is none of OVN's, and none of the gateway bridge's", r.Cookie)}
	}
	found := x.southbound[key]
	if len(found) == 0 {
		return flowapi.Name{Problem: fmt.Sprintf("the Southbound has no row %s: it has changed since the flow was made, or the rule is not OVN's", key)}
	}
	out := x.nameOf(r, found[0])
	for _, row := range found[1:] {
		merge(&out, x.nameOf(r, row))
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
	to.Stage, to.Row, to.What = join(to.Stage, n.Stage), join(to.Row, n.Row), join(to.What, n.What)
	for _, object := range n.Objects {
		if !slices.Contains(to.Objects, object) {
			to.Objects = append(to.Objects, object)
		}
	}
}
