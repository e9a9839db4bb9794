package ovsdb_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// silent is an endpoint that takes connections and says nothing, as a host that
// hangs does.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestRemove_ContinuesAfterSilentEndpoint(t *testing.T) {
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(`{"op":"insert","table":"Logical_Switch","row":{"name":"gone"}},{"op":"insert","table":"Logical_Switch","row":{"name":"other"}}`)
	cfg := ovsdb.Defaults([]string{"tcp:" + silent(t), server.Endpoint()}, ovsdb.Schema{})
	cfg.ConnectTimeout = time.Second
	if err := ovsdb.Remove(t.Context(), cfg, "OVN_Northbound", "gone", "Logical_Switch"); err != nil {
		t.Error(err)
	}
	if got := strings.TrimSpace(server.Dump("Logical_Switch", "name")); got != "other" {
		t.Errorf("switches %q", got)
	}
}

// TestSelect_ReadsAllRowsOfTables, and says what the server refuses.
func TestSelect_ReadsAllRowsOfTables(t *testing.T) {
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(`{"op":"insert","table":"Logical_Switch","row":{"name":"one"}},{"op":"insert","table":"Logical_Switch","row":{"name":"two"}},{"op":"insert","table":"Logical_Router","row":{"name":"r"}}`)
	cfg := ovsdb.Defaults([]string{"tcp:" + silent(t), server.Endpoint()}, ovsdb.Schema{})
	cfg.ConnectTimeout = time.Second
	rows, err := ovsdb.Select(t.Context(), cfg, "OVN_Northbound", map[string][]string{"Logical_Switch": {"_uuid", "name"}, "Logical_Router": {"name"}, "ACL": {"name"}})
	if err != nil || len(rows["Logical_Switch"]) != 2 || string(rows["Logical_Router"][0]) != `{"name":"r"}` || len(rows["ACL"]) != 0 {
		t.Errorf("%s, %v", rows, err)
	}
	for _, tables := range []map[string][]string{{"No_Table": {"name"}}, {"ACL": {"no_column"}}} {
		if rows, err := ovsdb.Select(t.Context(), cfg, "OVN_Northbound", tables); err == nil {
			t.Errorf("%v: %s", tables, rows)
		}
	}
}

// TestOpen_ContinuesAfterSilentEndpoint: of ConnectTimeout, which must do for reading
// the whole database, nothing is lost to a host that is down.
func TestOpen_ContinuesAfterSilentEndpoint(t *testing.T) {
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(newGlobal)
	cfg := config(t, server)
	cfg.Endpoints = []string{"ssl:" + silent(t), server.Endpoint()}
	cfg.TLS = func() (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "db"}, nil
	}
	cfg.ProbeInterval = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), cfg.ConnectTimeout/4)
	defer cancel()
	db, err := ovsdb.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}
