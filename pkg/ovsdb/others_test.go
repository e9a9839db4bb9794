package ovsdb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

func TestCommit_KeepsRowsAndColumnsOfOthers(t *testing.T) {
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

// TestMembers_GivesExistingRowsOnly: of rows of ours and of others, those that are there.
func TestMembers_GivesExistingRowsOnly(t *testing.T) {
	server, db := open(t)
	server.Transact(`{"op":"insert","table":"Logical_Switch_Port","row":{"name":"alien"},"uuid-name":"p"},
		{"op":"insert","table":"Logical_Switch","row":{"name":"theirs","ports":["named-uuid","p"]}}`)
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}}, ovsdb.Want{Owner: "Node/n2", Rows: []ovsdb.Row{switchRow("n2")}},
		ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a")}}, ovsdb.Want{Owner: "Pod/d/b", Rows: []ovsdb.Row{portRow("n2", "d_b")}})
	commit(t, db, ovsdb.Want{Owner: "Node/n2"}, ovsdb.Want{Owner: "Pod/d/b"})
	got := map[string][]string{}
	for name, members := range db.Members(nb.LogicalSwitchTable, "ports") {
		for _, member := range members {
			got[name] = append(got[name], member.(*nb.LogicalSwitchPort).Name)
		}
	}
	if diff := cmp.Diff(map[string][]string{"theirs": {"alien"}, "n1": {"d_a"}}, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestOnChange_ManualEditIsReportedAndRepaired(t *testing.T) {
	server, db := open(t)
	reported := make(chan []string, 100)
	node := ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}}
	pod := ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a", "unknown")}}
	commit(t, db, node, pod)
	db.OnChange(func(owners []string) { reported <- owners })
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
			case owners := <-reported:
				if len(owners) == 0 {
					t.Error("reported without an owner")
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
		for len(reported) > 0 {
			<-reported
		}
	}
}

// A weak reference that another client removes is a change of the child, too.
func TestOnChange_RemovedMembershipIsReportedAndRepaired(t *testing.T) {
	server, db := open(t)
	port := portRow("n1", "d_a")
	port.Parents = append(port.Parents, ovsdb.Parent{Table: nb.PortGroupTable, Name: "pg", Column: "ports"})
	pod := ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{port}}
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}},
		ovsdb.Want{Owner: "Policy/d/p", Rows: []ovsdb.Row{{ID: "pg", Model: &nb.PortGroup{Name: "pg"}}}}, pod)
	reported := make(chan []string, 10)
	db.OnChange(func(owners []string) { reported <- owners })
	server.Transact(`{"op":"update","table":"Port_Group","where":[],"row":{"ports":["set",[]]}}`)
	select {
	case owners := <-reported:
		if !slices.Contains(owners, "Pod/d/a") {
			t.Errorf("reported %v", owners)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the edit was not reported")
	}
	commit(t, db, pod)
	if got := server.Dump("Port_Group", "ports"); got == "[]\n" {
		t.Error("the port is not back in its group")
	}
}

func TestCommit_RemovesDuplicateRows(t *testing.T) {
	server, db := open(t)
	row := `{"op":"insert","table":"Logical_Switch","row":{"name":"n1","external_ids":["map",[["ovn-offload.io/owner","Node/n1"],["ovn-offload.io/id","n1"]]]}}`
	server.Transact(row + "," + row)
	waitFor(t, func() bool { return len(db.Rows("Node/n1")) == 2 })
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

func TestCommit_ConflictWithForeignRowIsAnError(t *testing.T) {
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

// TestCommit_ReplacedParentGetsItsRow: another client replaces the switch before the transaction, and the replica does
// not have the new switch yet. Without a check the server would drop the port without an error.
func TestCommit_ReplacedParentGetsItsRow(t *testing.T) {
	server, db := open(t)
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}})
	reported, goOn := make(chan struct{}), make(chan struct{})
	db.OnChange(func(owners []string) {
		if slices.Contains(owners, "Node/stop") {
			close(reported)
			<-goOn // no update is read meanwhile
		}
	})
	ours := `{"op":"insert","table":"Logical_Switch","row":{"name":"%s","external_ids":["map",[["ovn-offload.io/owner","Node/%[1]s"],["ovn-offload.io/id","%[1]s"]]]}}`
	server.Transact(fmt.Sprintf(ours, "stop"))
	<-reported
	server.Transact(`{"op":"delete","table":"Logical_Switch","where":[["name","==","n1"]]},` + fmt.Sprintf(ours, "n1"))
	done := make(chan error, 1)
	go func() {
		result, err := db.Commit(t.Context(), ovsdb.Want{Owner: "Node/n2", Rows: []ovsdb.Row{switchRow("n2")}}, ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("n1", "d_a")}})
		done <- errors.Join(err, result.Failed["Pod/d/a"])
	}()
	waitFor(t, func() bool { return strings.Contains(server.Dump("Logical_Switch", "name"), "n2") })
	if got := portsOf(t, server, "n1"); len(got) > 0 {
		t.Errorf("ports of n1: %v; this shows nothing", got)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := portsOf(t, server, "n1"); !slices.Equal(got, []string{"d_a"}) {
		t.Errorf("ports of n1: %v", got)
	}
}
