package ovsdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

const newGlobal = `{"op":"insert","table":"NB_Global","row":{}}`

func config(t testing.TB, server *ovsdbtest.Server) ovsdb.Config {
	t.Helper()
	schema, err := nb.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	return ovsdb.Defaults([]string{server.Endpoint()}, schema)
}

func open(t testing.TB) (*ovsdbtest.Server, *ovsdb.DB) {
	t.Helper()
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(newGlobal)
	db, err := ovsdb.Open(t.Context(), config(t, server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return server, db
}

func commit(t testing.TB, db *ovsdb.DB, wants ...ovsdb.Want) []ovsdb.Change {
	t.Helper()
	result, err := db.Commit(t.Context(), wants...)
	if err != nil || len(result.Failed) > 0 {
		t.Fatalf("commit: %v %v", err, result.Failed)
	}
	return result.Changes
}

func switchRow(name string) ovsdb.Row {
	return ovsdb.Row{ID: name, Model: &nb.LogicalSwitch{Name: name}}
}

func portRow(sw, name string, addresses ...string) ovsdb.Row {
	return ovsdb.Row{
		ID:      name,
		Model:   &nb.LogicalSwitchPort{Name: name, Addresses: addresses, Options: map[string]string{"iface-id-ver": name}},
		Parents: []ovsdb.Parent{{Table: nb.LogicalSwitchTable, Name: sw, Column: "ports"}},
	}
}

// portsOf lists a switch's ports by name, as the server has them.
func portsOf(t *testing.T, server *ovsdbtest.Server, sw string) []string {
	t.Helper()
	names := map[string]string{}
	for line := range strings.Lines(server.Dump("Logical_Switch_Port", "_uuid", "name")) {
		uuid, name, _ := strings.Cut(strings.TrimSpace(line), ",")
		names[uuid] = name
	}
	var ports []string
	for line := range strings.Lines(server.Dump("Logical_Switch", "name", "ports")) {
		name, set, _ := strings.Cut(strings.TrimSpace(line), ",")
		if name != sw {
			continue
		}
		for _, uuid := range strings.FieldsFunc(set, func(r rune) bool { return strings.ContainsRune("[]\", ", r) }) {
			ports = append(ports, names[uuid])
		}
	}
	slices.Sort(ports)
	return ports
}

// TestCommit_RefusesTwoRowsOfOneID: the owner keeps what it had, and others are served.
// The same id in two tables, or with two owners, is no fault.
func TestCommit_RefusesTwoRowsOfOneID(t *testing.T) {
	server, db := open(t)
	one, other := portRow("n1", "d_a", "0a:58:0a:f4:01:05 10.244.1.5"), portRow("n1", "d_b")
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}}, ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{one}})
	other.ID = one.ID
	third := portRow("n1", "d_c")
	third.ID = one.ID
	fourth := switchRow("n2")
	fourth.ID = one.ID
	result, err := db.Commit(t.Context(),
		ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{one, other}}, ovsdb.Want{Owner: "Pod/d/c", Rows: []ovsdb.Row{third, fourth}})
	if err != nil {
		t.Fatal(err)
	}
	if err := result.Failed["Pod/d/a"]; len(result.Failed) != 1 || err == nil || !strings.Contains(err.Error(), `two rows of table Logical_Switch_Port have the id "d_a"`) {
		t.Errorf("failed: %v", result.Failed)
	}
	if got := portsOf(t, server, "n1"); !slices.Equal(got, []string{"d_a", "d_c"}) {
		t.Errorf("ports of n1: %v", got)
	}
}

func TestCommit_WritesWantedRowsOnce(t *testing.T) {
	server, db := open(t)
	node := ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}}
	pod := ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a", "0a:58:0a:f4:01:05 10.244.1.5")}}
	changes := commit(t, db, node, pod)
	want := []ovsdb.Change{
		{Owner: "Node/n1", Table: "Logical_Switch", ID: "n1", Op: "insert"},
		{Owner: "Pod/d/a", Table: "Logical_Switch_Port", ID: "d_a", Op: "insert"},
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if got := portsOf(t, server, "n1"); !slices.Equal(got, []string{"d_a"}) {
		t.Errorf("ports of n1: %v", got)
	}
	if changes := commit(t, db, node, pod); len(changes) > 0 {
		t.Errorf("the same again changed %v", changes)
	}
	pod.Rows[0].Model.(*nb.LogicalSwitchPort).Addresses = []string{"0a:58:0a:f4:01:06 10.244.1.6"}
	if changes := commit(t, db, pod); len(changes) != 1 || changes[0].Op != "update" {
		t.Errorf("a new address changed %v", changes)
	}
	if changes := commit(t, db, ovsdb.Want{Owner: "Pod/d/a"}); len(changes) != 1 || changes[0].Op != "delete" {
		t.Errorf("no rows changed %v", changes)
	}
	if got := portsOf(t, server, "n1"); len(got) > 0 {
		t.Errorf("ports of n1 after the delete: %v", got)
	}
	if got := server.Dump("Logical_Switch_Port", "name"); got != "" {
		t.Errorf("ports after the delete: %s", got)
	}
}

func TestCommit_MovesRowToAnotherParent(t *testing.T) {
	server, db := open(t)
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}},
		ovsdb.Want{Owner: "Node/n2", Rows: []ovsdb.Row{switchRow("n2")}},
		ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a")}})
	commit(t, db, ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n2", "d_a")}})
	if one, two := portsOf(t, server, "n1"), portsOf(t, server, "n2"); len(one) != 0 || len(two) != 1 {
		t.Errorf("n1 has %v, n2 has %v", one, two)
	}
}

func TestCommit_MissingParentFailsItsOwnerOnly(t *testing.T) {
	server, db := open(t)
	result, err := db.Commit(t.Context(),
		ovsdb.Want{Owner: "Pod/d/lost", Rows: []ovsdb.Row{portRow("nowhere", "d_lost")}},
		ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}},
		ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a")}})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Failed) != 1 || !errors.Is(result.Failed["Pod/d/lost"], ovsdb.ErrNoParent) {
		t.Errorf("failed: %v", result.Failed)
	}
	if got := portsOf(t, server, "n1"); !slices.Equal(got, []string{"d_a"}) {
		t.Errorf("ports of n1: %v", got)
	}
}

func TestCommit_UnknownModelFailsItsOwnerOnly(t *testing.T) {
	_, db := open(t)
	result, err := db.Commit(t.Context(),
		ovsdb.Want{Owner: "Pod/d/odd", Rows: []ovsdb.Row{{ID: "x", Model: &struct{}{}}}},
		ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}})
	if err != nil || result.Failed["Pod/d/odd"] == nil || len(result.Changes) != 1 {
		t.Errorf("%v %+v", err, result)
	}
}

func TestEditKeys_KeepsKeysOfOthers(t *testing.T) {
	server, db := open(t)
	server.Transact(`{"op":"update","table":"NB_Global","where":[],"row":{"options":["map",[["theirs","1"],["old","2"],["mine","3"]]]}}`)
	for deadline := time.Now().Add(10 * time.Second); db.Table(nb.NBGlobalTable)[0].(*nb.NBGlobal).Options["old"] == ""; {
		if time.Now().After(deadline) {
			t.Fatal("the edit did not arrive")
		}
		time.Sleep(time.Millisecond)
	}
	keys := map[string]string{"mine": "4", "old": "", "new": "5"}
	if err := db.EditKeys(t.Context(), nb.NBGlobalTable, "options", func(map[string]string) map[string]string { return keys }); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(server.Dump("NB_Global", "options")); got != `"{mine=""4"", new=""5"", theirs=""1""}"` {
		t.Errorf("options: %s", got)
	}
}

// TestEditKeys_KeepsOtherEdits: writers that add to one value do not lose what the others have added.
func TestEditKeys_KeepsOtherEdits(t *testing.T) {
	server, db := open(t)
	const writers, each = 4, 10
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for i := range each {
				err := db.EditKeys(t.Context(), nb.NBGlobalTable, "options", func(have map[string]string) map[string]string {
					return map[string]string{"list": fmt.Sprintf("%s %d.%d", have["list"], writer, i)}
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	list := server.Dump("NB_Global", "options")
	if n := strings.Count(list, "."); n != writers*each {
		t.Errorf("%d of %d edits are there: %s", n, writers*each, list)
	}
}

func TestWaitRow_ReturnsWhenRowChanges(t *testing.T) {
	server, db := open(t)
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}}, ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a")}})
	up := func(model any) bool {
		port := model.(*nb.LogicalSwitchPort)
		return port.Up != nil && *port.Up
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.WaitRow(short, nb.LogicalSwitchPortTable, "Pod/d/a", "d_a", up); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a port that is not up: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- db.WaitRow(t.Context(), nb.LogicalSwitchPortTable, "Pod/d/a", "d_a", up) }()
	server.Transact(`{"op":"update","table":"Logical_Switch_Port","where":[],"row":{"up":true}}`)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the change was not noticed")
	}
}
