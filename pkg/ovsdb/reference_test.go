package ovsdb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// openNamed opens a database whose groups g0 and g1 belong to Network/default.
func openNamed(t *testing.T) (*ovsdbtest.Server, *ovsdb.DB) {
	t.Helper()
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(newGlobal)
	cfg := config(t, server)
	cfg.Schema.OwnerOf = map[string]func(any) (string, string){nb.LoadBalancerGroupTable: func(model any) (owner, id string) {
		if group, ok := model.(*nb.LoadBalancerGroup); ok && strings.HasPrefix(group.Name, "g") {
			return "Network/default", group.Name
		}
		return "", ""
	}}
	db, err := ovsdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return server, db
}

func groupsRow(groups ...string) []ovsdb.Row {
	var rows []ovsdb.Row
	for _, name := range groups {
		rows = append(rows, ovsdb.Row{ID: name, Model: &nb.LoadBalancerGroup{Name: name}})
	}
	return rows
}

func referring(sw string, groups ...string) ovsdb.Row {
	row := switchRow(sw)
	for _, group := range groups {
		row.References = append(row.References, ovsdb.Reference{Column: "load_balancer_group", Table: nb.LoadBalancerGroupTable, Name: group})
	}
	return row
}

func balancer(name string, vips map[string]string, groups ...string) ovsdb.Row {
	row := ovsdb.Row{ID: name, Model: &nb.LoadBalancer{Name: name, Vips: vips}}
	for _, group := range groups {
		row.Parents = append(row.Parents, ovsdb.Parent{Table: nb.LoadBalancerGroupTable, Name: group, Column: "load_balancer"})
	}
	return row
}

// namesOf reads "name: names of the members" of a column of references.
func namesOf(server *ovsdbtest.Server, table, column, target string) []string {
	names := map[string]string{}
	for line := range strings.Lines(server.Dump(target, "_uuid", "name")) {
		uuid, name, _ := strings.Cut(strings.TrimSpace(line), ",")
		names[uuid] = name
	}
	lines := []string{}
	for line := range strings.Lines(server.Dump(table, "name", column)) { // sorted by column
		comma := strings.LastIndex(line, ",")
		name, members := strings.TrimSpace(line[comma+1:]), []string{}
		for _, uuid := range strings.FieldsFunc(line[:comma], func(r rune) bool { return strings.ContainsRune("[]\", ", r) }) {
			members = append(members, names[uuid])
		}
		slices.Sort(members)
		lines = append(lines, fmt.Sprintf("%s: %v", name, members))
	}
	slices.Sort(lines)
	return lines
}

func TestReference_WaitsForItsTarget(t *testing.T) {
	_, db := openNamed(t)
	node := ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{referring("n1", "g0")}}
	result, err := db.Commit(t.Context(), node)
	if err != nil || !errors.Is(result.Failed["Node/n1"], ovsdb.ErrNoParent) {
		t.Fatalf("without the group: %v, %v", result.Failed, err)
	}
	// Both in one transaction, the reference before its target.
	commit(t, db, node, ovsdb.Want{Owner: "Network/default", Rows: groupsRow("g0")})
	if changes := commit(t, db, node, ovsdb.Want{Owner: "Network/default", Rows: groupsRow("g0")}); len(changes) > 0 {
		t.Errorf("the same again changed %v", changes)
	}
	node.Rows[0].References[0].Column = "load_balancer"
	if result, _ := db.Commit(t.Context(), node); result.Failed["Node/n1"] == nil {
		t.Error("a column that is none for references was accepted")
	}
}

// TestCommit_KeepsNamedRowsOfOthers: a group of another name is not ours, whoever wants nothing.
func TestCommit_KeepsNamedRowsOfOthers(t *testing.T) {
	server, db := openNamed(t)
	server.Transact(`{"op":"insert","table":"Load_Balancer_Group","row":{"name":"theirs"}}`)
	commit(t, db, ovsdb.Want{Owner: "Network/default", Rows: groupsRow("g0", "g1")})
	commit(t, db, ovsdb.Want{Owner: "Network/default", Rows: groupsRow("g1")})
	if diff := cmp.Diff([]string{"g1: []", "theirs: []"}, namesOf(server, "Load_Balancer_Group", "load_balancer", "Load_Balancer")); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// TestCommit_ReferencesAndMapsOfRandomWorlds: whatever a world was, a commit makes its
// references, memberships and maps what the next one wants.
func TestCommit_ReferencesAndMapsOfRandomWorlds(t *testing.T) {
	server, db := openNamed(t)
	seed := tier.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	some := func() []string { return [][]string{nil, {"g0"}, {"g1"}, {"g0", "g1"}}[random.IntN(4)] }
	for range 80 {
		wants := []ovsdb.Want{{Owner: "Network/default", Rows: groupsRow("g0", "g1")}}
		switches, members, vips := []string{}, map[string][]string{"g0": {}, "g1": {}}, []string{}
		for i := range random.IntN(5) {
			sw, groups := fmt.Sprintf("n%d", i), some()
			wants = append(wants, ovsdb.Want{Owner: "Node/" + sw, Rows: []ovsdb.Row{referring(sw, groups...)}})
			switches = append(switches, fmt.Sprintf("%s: [%s]", sw, strings.Join(groups, " ")))
		}
		for i := range random.IntN(5) {
			name, groups, pairs := fmt.Sprintf("lb%d", i), some(), map[string]string{}
			for range random.IntN(4) {
				pairs[fmt.Sprintf("10.96.0.%d:80", random.IntN(4))] = fmt.Sprintf("10.244.0.%d:80", random.IntN(3))
			}
			wants = append(wants, ovsdb.Want{Owner: "Service/d/" + name, Rows: []ovsdb.Row{balancer(name, pairs, groups...)}})
			vips = append(vips, fmt.Sprintf("%s %v", name, pairs))
			for _, group := range groups {
				members[group] = append(members[group], name)
			}
		}
		for _, owner := range db.Owners() {
			if !slices.ContainsFunc(wants, func(w ovsdb.Want) bool { return w.Owner == owner }) {
				wants = append(wants, ovsdb.Want{Owner: owner})
			}
		}
		random.Shuffle(len(wants), func(i, j int) { wants[i], wants[j] = wants[j], wants[i] })
		commit(t, db, wants...)
		got := slices.Concat(namesOf(server, "Logical_Switch", "load_balancer_group", "Load_Balancer_Group"),
			namesOf(server, "Load_Balancer_Group", "load_balancer", "Load_Balancer"), vipsOf(db))
		want := slices.Concat(switches, []string{fmt.Sprintf("g0: %v", members["g0"]), fmt.Sprintf("g1: %v", members["g1"])}, vips)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after a commit (-want +got):\n%s", diff)
		}
		if changes := commit(t, db, wants...); len(changes) > 0 {
			t.Fatalf("the same again changed %v", changes)
		}
	}
}

func vipsOf(db *ovsdb.DB) []string {
	lines := []string{}
	for _, model := range db.Table(nb.LoadBalancerTable) {
		lb := model.(*nb.LoadBalancer)
		lines = append(lines, fmt.Sprintf("%s %v", lb.Name, lb.Vips))
	}
	slices.Sort(lines)
	return lines
}
