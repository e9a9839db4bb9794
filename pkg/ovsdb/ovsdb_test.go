package ovsdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// TestTwoRowsOfOneIDAreRefused: the owner keeps what it had, and others are served.
// The same id in two tables, or with two owners, is no fault.
func TestTwoRowsOfOneIDAreRefused(t *testing.T) {
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

func TestCommitMakesWhatIsWantedAndNothingTwice(t *testing.T) {
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

func TestMoveToAnotherParent(t *testing.T) {
	server, db := open(t)
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}},
		ovsdb.Want{Owner: "Node/n2", Rows: []ovsdb.Row{switchRow("n2")}},
		ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a")}})
	commit(t, db, ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n2", "d_a")}})
	if one, two := portsOf(t, server, "n1"), portsOf(t, server, "n2"); len(one) != 0 || len(two) != 1 {
		t.Errorf("n1 has %v, n2 has %v", one, two)
	}
}

func TestMissingParentIsItsOwnersErrorOnly(t *testing.T) {
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

func TestOthersRowsAndColumnsStay(t *testing.T) {
	server, db := open(t)
	server.Transact(`{"op":"insert","table":"Logical_Switch","row":{"name":"theirs","external_ids":["map",[["cms","other"]]]}}`)
	node := ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}}
	pod := ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a")}}
	commit(t, db, node, pod)
	// northd's column, and a port that another system put into our switch.
	server.Transact(`{"op":"update","table":"Logical_Switch_Port","where":[["name","==","d_a"]],"row":{"up":true}}`)
	server.Transact(`{"op":"insert","table":"Logical_Switch_Port","row":{"name":"alien"},"uuid-name":"p"},
		{"op":"mutate","table":"Logical_Switch","where":[["name","==","n1"]],"mutations":[["ports","insert",["named-uuid","p"]]]}`)
	if changes := commit(t, db, node, pod); len(changes) > 0 {
		t.Errorf("what others wrote was changed: %v", changes)
	}
	if got := portsOf(t, server, "n1"); !slices.Equal(got, []string{"alien", "d_a"}) {
		t.Errorf("ports of n1: %v", got)
	}
	commit(t, db, ovsdb.Want{Owner: "Pod/d/a"})
	if got := server.Dump("Logical_Switch", "name"); got != "n1\ntheirs\n" {
		t.Errorf("switches: %q", got)
	}
	if got := portsOf(t, server, "n1"); !slices.Equal(got, []string{"alien"}) {
		t.Errorf("ports of n1 after the delete: %v", got)
	}
}

func TestHandEditsAreReportedAndRepaired(t *testing.T) {
	server, db := open(t)
	told := make(chan []string, 100)
	node := ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}}
	pod := ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a", "unknown")}}
	commit(t, db, node, pod)
	db.OnChange(func(owners []string) { told <- owners })
	edits := map[string]string{
		"a changed column": `{"op":"update","table":"Logical_Switch_Port","where":[],"row":{"addresses":"dynamic"}}`,
		"a removed member": `{"op":"mutate","table":"Logical_Switch","where":[],"mutations":[["ports","delete",["set",[["uuid","%s"]]]]]}`,
		"a deleted row":    `{"op":"delete","table":"Logical_Switch","where":[["name","==","n1"]]}`,
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(edit, "%s") {
				uuid, _, _ := strings.Cut(server.Dump("Logical_Switch_Port", "_uuid"), "\n")
				edit = fmt.Sprintf(edit, uuid)
			}
			server.Transact(edit)
			select {
			case owners := <-told:
				if len(owners) == 0 {
					t.Error("told of nobody")
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the edit was not reported")
			}
			if changes := commit(t, db, node, pod); len(changes) == 0 {
				t.Error("nothing was repaired")
			}
			if got := portsOf(t, server, "n1"); !slices.Equal(got, []string{"d_a"}) {
				t.Errorf("ports of n1: %v", got)
			}
			if got := server.Dump("Logical_Switch_Port", "addresses"); got != "[unknown]\n" {
				t.Errorf("addresses: %q", got)
			}
		})
		for len(told) > 0 {
			<-told
		}
	}
}

// A weak reference that somebody removes is a change of the child, too.
func TestRemovedMembershipIsReportedAndRepaired(t *testing.T) {
	server, db := open(t)
	port := portRow("n1", "d_a")
	port.Parents = append(port.Parents, ovsdb.Parent{Table: nb.PortGroupTable, Name: "pg", Column: "ports"})
	pod := ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{port}}
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}},
		ovsdb.Want{Owner: "Policy/d/p", Rows: []ovsdb.Row{{ID: "pg", Model: &nb.PortGroup{Name: "pg"}}}}, pod)
	told := make(chan []string, 10)
	db.OnChange(func(owners []string) { told <- owners })
	server.Transact(`{"op":"update","table":"Port_Group","where":[],"row":{"ports":["set",[]]}}`)
	select {
	case owners := <-told:
		if !slices.Contains(owners, "Pod/d/a") {
			t.Errorf("told of %v", owners)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the edit was not reported")
	}
	commit(t, db, pod)
	if got := server.Dump("Port_Group", "ports"); got == "[]\n" {
		t.Error("the port is not back in its group")
	}
}

func TestModelOfAnotherDatabaseIsItsOwnersError(t *testing.T) {
	_, db := open(t)
	result, err := db.Commit(t.Context(),
		ovsdb.Want{Owner: "Pod/d/odd", Rows: []ovsdb.Row{{ID: "x", Model: &struct{}{}}}},
		ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}})
	if err != nil || result.Failed["Pod/d/odd"] == nil || len(result.Changes) != 1 {
		t.Errorf("%v %+v", err, result)
	}
}

func TestDuplicatesAreHealed(t *testing.T) {
	server, db := open(t)
	row := `{"op":"insert","table":"Logical_Switch","row":{"name":"n1","external_ids":["map",[["ovn-offload.io/owner","Node/n1"],["ovn-offload.io/id","n1"]]]}}`
	server.Transact(row + "," + row)
	pod := ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a")}}
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}}, pod)
	if got := server.Dump("Logical_Switch", "name"); got != "n1\n" {
		t.Errorf("switches: %q", got)
	}
	commit(t, db, pod)
	if got := portsOf(t, server, "n1"); !slices.Equal(got, []string{"d_a"}) {
		t.Errorf("ports of n1: %v", got)
	}
}

func TestConflictWithAnothersRowIsAnErrorAndLosesNothing(t *testing.T) {
	server, db := open(t)
	server.Transact(`{"op":"insert","table":"Logical_Switch_Port","row":{"name":"d_a"},"uuid-name":"p"},
		{"op":"insert","table":"Logical_Switch","row":{"name":"theirs","ports":["named-uuid","p"]}}`)
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}})
	_, err := db.Commit(t.Context(), ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a")}})
	if err == nil || !strings.Contains(err.Error(), "d_a") {
		t.Errorf("want an error that names the row, got %v", err)
	}
	if got := portsOf(t, server, "theirs"); !slices.Equal(got, []string{"d_a"}) {
		t.Errorf("ports of theirs: %v", got)
	}
}

func TestMergeKeys(t *testing.T) {
	server, db := open(t)
	server.Transact(`{"op":"update","table":"NB_Global","where":[],"row":{"options":["map",[["theirs","1"],["old","2"],["mine","3"]]]}}`)
	for deadline := time.Now().Add(10 * time.Second); db.Table(nb.NBGlobalTable)[0].(*nb.NBGlobal).Options["old"] == ""; {
		if time.Now().After(deadline) {
			t.Fatal("the edit did not arrive")
		}
		time.Sleep(time.Millisecond)
	}
	if err := db.MergeKeys(t.Context(), nb.NBGlobalTable, "options", map[string]string{"mine": "4", "old": "", "new": "5"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(server.Dump("NB_Global", "options")); got != `"{mine=""4"", new=""5"", theirs=""1""}"` {
		t.Errorf("options: %s", got)
	}
}

func TestWaitRow(t *testing.T) {
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

func TestNothingIsPlannedBeforeTheProbeRow(t *testing.T) {
	server := ovsdbtest.Start(t, nb.Definition)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if db, err := ovsdb.Open(ctx, config(t, server)); err == nil {
		db.Close()
		t.Fatal("a database without its probe row was opened")
	}
	opened := make(chan error, 1)
	go func() {
		db, err := ovsdb.Open(t.Context(), config(t, server))
		if err == nil {
			db.Close()
		}
		opened <- err
	}()
	server.Transact(newGlobal)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
}

// TestReconnectIsToldWhenThereIsAProbeRow: who could not commit until then waits for that.
func TestReconnectIsToldWhenThereIsAProbeRow(t *testing.T) {
	server, db := open(t)
	commit(t, db, ovsdb.Want{Owner: "a", Rows: []ovsdb.Row{switchRow("a")}})
	told := make(chan bool, 10)
	db.OnReconnect(func() { told <- db.Connected() })
	server.Transact(`{"op":"delete","table":"NB_Global","where":[]}`)
	server.Kill()
	owners(t, db, 0)
	server.Restart()
	owners(t, db, 1)
	server.Transact(newGlobal)
	select {
	case ready := <-told:
		if !ready {
			t.Error("told while nothing can be committed")
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody was told")
	}
}

// owners waits until the replica has rows of so many owners.
func owners(t *testing.T, db *ovsdb.DB, want int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(db.Owners()) != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the replica has rows of %v", db.Owners())
		}
	}
}

func TestUnreachable(t *testing.T) {
	schema, err := nb.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range []string{"unix:/nonexistent/sock", "ssl:127.0.0.1:1", "nonsense"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := ovsdb.Open(ctx, ovsdb.Defaults([]string{endpoint}, schema))
		cancel()
		if err == nil || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("want an error that names %s, got %v", endpoint, err)
		}
	}
}
