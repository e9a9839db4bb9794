package ovsdb_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

func bindingRow(node, ip, mac string) ovsdb.Row {
	port := "rtoe-GR_" + node
	return ovsdb.Row{ID: port + " " + ip, Model: &nb.StaticMACBinding{LogicalPort: port, IP: ip, MAC: mac}}
}

func bindings(db *ovsdb.DB) []string {
	var lines []string
	for _, model := range db.Table(nb.StaticMACBindingTable) {
		if b, ok := model.(*nb.StaticMACBinding); ok {
			lines = append(lines, b.LogicalPort+" "+b.IP+" "+b.MAC)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestUniqueRows_AreRepairedWithoutExternalIDs: its rows are known by what makes them unique; they
// are repaired and deleted like others, and those of other systems are not seen.
func TestUniqueRows_AreRepairedWithoutExternalIDs(t *testing.T) {
	server, db := open(t)
	const foreign = `{"op":"insert","table":"Static_MAC_Binding","row":{"logical_port":"theirs","ip":"192.0.2.1","mac":"02:00:00:00:00:01"}}`
	server.Transact(foreign)
	changed := make(chan []string, 10)
	db.OnChange(func(owners []string) { changed <- owners })
	want := ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{
		bindingRow("n1", "169.254.0.4", "0a:58:a9:fe:00:04"), bindingRow("n1", "fd69::4", "0a:58:00:00:00:04"),
	}}
	const theirs = "theirs 192.0.2.1 02:00:00:00:00:01"
	wanted := []string{"rtoe-GR_n1 169.254.0.4 0a:58:a9:fe:00:04", "rtoe-GR_n1 fd69::4 0a:58:00:00:00:04", theirs}
	if changes := commit(t, db, want); len(changes) != 2 {
		t.Errorf("the first commit changed %v", changes)
	}
	if diff := cmp.Diff(wanted, bindings(db)); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
	if changes := commit(t, db, want); len(changes) > 0 {
		t.Errorf("the same again changed %v", changes)
	}
	for len(changed) > 0 {
		<-changed
	}
	server.Transact(`{"op":"update","table":"Static_MAC_Binding","where":[["ip","==","fd69::4"]],"row":{"mac":"02:00:00:00:00:02"}}`)
	select {
	case owners := <-changed:
		if !slices.Equal(owners, []string{"Node/n1"}) {
			t.Errorf("a change by another client was reported as one of %v", owners)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a change by another client was not reported")
	}
	if changes := commit(t, db, want); len(changes) != 1 || changes[0].Op != "update" {
		t.Errorf("the repair changed %v", changes)
	}
	if diff := cmp.Diff(wanted, bindings(db)); diff != "" {
		t.Errorf("bindings after the repair (-want +got):\n%s", diff)
	}
	commit(t, db, ovsdb.Want{Owner: "Node/n1"})
	if diff := cmp.Diff([]string{theirs}, bindings(db)); diff != "" {
		t.Errorf("bindings after the end of the node (-want +got):\n%s", diff)
	}
}

// TestForeignRows_AreReportedToSubscriber: a listener gets changes of rows without an owner, and no others. A row of ours
// in a row without an owner is not reported either.
func TestForeignRows_AreReportedToSubscriber(t *testing.T) {
	server, db := open(t)
	reported := make(chan []string, 10)
	wantTable := func(want string) {
		t.Helper()
		select {
		case tables := <-reported:
			if !slices.Equal(tables, []string{want}) {
				t.Errorf("reported %v, want %s", tables, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("a change of a %s without an owner was not reported", want)
		}
	}
	db.OnForeign(func(tables []string) { reported <- tables })
	commit(t, db, ovsdb.Want{Owner: "Node/n1", Rows: []ovsdb.Row{switchRow("n1")}})
	server.Transact(`{"op":"insert","table":"Logical_Switch","row":{"name":"theirs"}}`)
	wantTable(nb.LogicalSwitchTable)
	commit(t, db, ovsdb.Want{Owner: "Pod/d/a", Rows: []ovsdb.Row{portRow("theirs", "d_a")}})
	server.Transact(`{"op":"insert","table":"Logical_Router","row":{"name":"theirs"}}`)
	wantTable(nb.LogicalRouterTable)
}
