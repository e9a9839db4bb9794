package controller

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// committing is a leader whose loops do not run: what waits in them can be counted.
func committing(t *testing.T) (*ovsdbtest.Server, *Zone, func() float64) {
	t.Helper()
	server, registry := ovsdbtest.Start(t, nb.Definition), prometheus.NewRegistry()
	server.Transact(`{"op":"insert","table":"NB_Global","row":{}}`)
	all, err := New(t.Context(), Config{Plan: ipam.Defaults(), Zones: []ZoneConfig{{}}, Logger: slog.New(slog.DiscardHandler), Registerer: registry}, apitest.Client(fake.NewClientset()))
	if err != nil {
		t.Fatal(err)
	}
	c := all.zones[0]
	schema, err := ovn.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	if c.db, err = ovsdb.Open(t.Context(), ovsdb.Defaults([]string{server.Endpoint()}, schema)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.db.Close)
	c.claimed = true // no other process writes here
	c.db.OnChange(c.rowsChanged)
	return server, c, func() float64 { return dirtyKeys(t, registry) }
}

// switchPass is a pass over one owner, whose row is a switch with this configuration.
func switchPass(name, value string) *pass {
	owner := contract.NodeOwner(name)
	return &pass{byName: map[string]contract.Owner{owner.String(): owner}, wants: []ovsdb.Want{{Owner: owner.String(), Rows: []ovsdb.Row{
		{ID: "switch", Model: &nb.LogicalSwitch{Name: name, OtherConfig: map[string]string{"value": value}}},
	}}}}
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not yet: %s", what)
		}
	}
}

// TestCommit_OwnChangeMarksNoKey, and a change by others before or after it does.
func TestCommit_OwnChangeMarksNoKey(t *testing.T) {
	server, c, dirty := committing(t)
	commit := func(p *pass) error {
		result, err := c.commitClaimed(t.Context(), p.wants)
		if err == nil && len(result.Changes) != 1 {
			err = fmt.Errorf("changes %v", result.Changes)
		}
		return err
	}
	for _, value := range []string{"1", "2"} {
		if err := commit(switchPass("n1", value)); err != nil {
			t.Fatal(err)
		}
	}
	if got := dirty(); got != 0 {
		t.Errorf("%v keys wait after commits that did what was wanted", got)
	}
	server.Transact(`{"op":"update","table":"Logical_Switch","where":[["name","==","n1"]],"row":{"other_config":["map",[["value","theirs"]]]}}`)
	within(t, "a later change marks its owner", func() bool { return dirty() == 1 })
}

// TestCommit_ConcurrentChangeMarksItsOwner: another client writes between the comparison and the transaction, which
// leaves the other client's write unchanged.
func TestCommit_ConcurrentChangeMarksItsOwner(t *testing.T) {
	server, c, dirty := committing(t)
	if _, err := c.commitClaimed(t.Context(), switchPass("n1", "1").wants); err != nil {
		t.Fatal(err)
	}
	stopped, goOn := make(chan struct{}), make(chan struct{})
	c.db.OnChange(func(names []string) {
		if slices.Contains(names, "Node/stop") {
			close(stopped)
			<-goOn // no update is read meanwhile
		}
	})
	server.Transact(`{"op":"insert","table":"Logical_Switch","row":{"name":"stop","external_ids":["map",[["ovn-offload.io/owner","Node/stop"],["ovn-offload.io/id","switch"]]]}}`)
	<-stopped
	server.Transact(`{"op":"update","table":"Logical_Switch","where":[["name","==","n1"]],"row":{"name":"theirs"}}`)
	done := make(chan error, 1)
	go func() {
		_, err := c.commitClaimed(t.Context(), switchPass("n1", "2").wants)
		done <- err
	}()
	within(t, "the commit in the database", func() bool { return strings.Contains(server.Dump("Logical_Switch", "other_config"), "2") })
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := dirty(); got != 2 {
		t.Errorf("%v keys wait, want Node/stop and the owner whose row has another name", got)
	}
}

// TestPod_IsBuiltOnce for each event, not once more for the commit of its row.
func TestPod_IsBuiltOnce(t *testing.T) {
	w := newWorld(t, testNode("n1"))
	w.eventually("a switch", func() bool { return strings.Contains(w.server.Dump("Logical_Switch", "name"), "n1") })
	batches := func() (n uint64) {
		families, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "ovn_offload_reconcile_batch_duration_seconds" && metric.GetLabel()[0].GetValue() == "rows" {
					n = metric.GetSummary().GetSampleCount()
				}
			}
		}
		return n
	}
	before := uint64(0)
	for i := range 12 {
		name := fmt.Sprint("p", i)
		if i == 2 { // nothing of the start is under way any more
			before = batches()
		}
		if err := createPod(t, w, name); err != nil {
			t.Fatal(err)
		}
		w.eventually("its port", func() bool { return slices.Contains(w.ports(), "d_"+name) })
	}
	// Two events for each: it is there, and it has an address.
	if got := batches() - before; before == 0 || got > 24 {
		t.Errorf("%d batches for ten pods", got)
	}
}

// TestMadeFor_IsThePodOfThePort, which need not be the first row: else a running pod would lose its address.
func TestMadeFor_IsThePodOfThePort(t *testing.T) {
	port := ovsdb.Row{Model: &nb.LogicalSwitchPort{Options: map[string]string{"iface-id-ver": "uid"}}}
	lease := ovsdb.Row{Model: &nb.DHCPOptions{}}
	for _, rows := range [][]ovsdb.Row{{port}, {lease, port}, {port, lease}} {
		if got := madeFor(rows); got != "uid" {
			t.Errorf("%d rows are made for %q", len(rows), got)
		}
	}
	if got := madeFor([]ovsdb.Row{lease}); got != "" {
		t.Errorf("rows without a port are made for %q", got)
	}
}
