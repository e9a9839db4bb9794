package ovsdb_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

func TestOpen_WaitsForProbeRow(t *testing.T) {
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

// TestOnReconnect_WaitsForProbeRow: without the probe row no owner could commit.
func TestOnReconnect_WaitsForProbeRow(t *testing.T) {
	server, db := open(t)
	commit(t, db, ovsdb.Want{Owner: "a", Rows: []ovsdb.Row{switchRow("a")}})
	reported := make(chan bool, 10)
	db.OnReconnect(func() { reported <- db.Connected() })
	server.Transact(`{"op":"delete","table":"NB_Global","where":[]}`)
	server.Kill()
	owners(t, db, 0)
	server.Restart()
	owners(t, db, 1)
	server.Transact(newGlobal)
	select {
	case ready := <-reported:
		if !ready {
			t.Error("a reconnect is reported while no commit is possible")
		}
	case <-time.After(10 * time.Second):
		t.Error("the reconnect was not reported")
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

func TestOpen_ErrorNamesUnreachableEndpoint(t *testing.T) {
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
