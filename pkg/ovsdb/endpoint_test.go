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
