package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

var errNotLoaded = errors.New("the database was not read in time")

const (
	minReconnect = 100 * time.Millisecond
	maxReconnect = 2 * time.Second
)

// run keeps a connection until ctx ends. It tries all endpoints in turn, and waits after each round.
func (db *DB) run(ctx context.Context) {
	defer close(db.stopped)
	wait, failed := minReconnect, 0
	for attempt := 0; ctx.Err() == nil; attempt++ {
		endpoint := db.cfg.Endpoints[attempt%len(db.cfg.Endpoints)]
		connected, err := db.serve(ctx, endpoint)
		if ctx.Err() != nil {
			return
		}
		db.complain(endpoint, err)
		if failed++; connected {
			wait, failed = minReconnect, len(db.cfg.Endpoints)
		}
		if failed < len(db.cfg.Endpoints) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait, failed = min(2*wait, maxReconnect), 0
	}
}

// complain logs the first of the same reasons of an endpoint.
func (db *DB) complain(endpoint string, err error) {
	db.mu.Lock()
	before := db.problems[endpoint]
	db.problems[endpoint] = err
	db.mu.Unlock()
	level := slog.LevelWarn
	if before != nil && before.Error() == err.Error() {
		level = slog.LevelDebug
	}
	db.cfg.Logger.Log(context.Background(), level, "database disconnected", "database", db.cfg.Schema.Model.Name(), "endpoint", endpoint, "error", err)
}

// serve connects once, reads the database, and applies updates until the connection ends. It returns the reason.
func (db *DB) serve(ctx context.Context, endpoint string) (connected bool, err error) {
	start := time.Now()
	setup, cancel := context.WithTimeout(ctx, db.cfg.ConnectTimeout)
	defer cancel()
	// An endpoint on a host that is down must not use up the time of the other endpoints.
	dialing, dialed := context.WithTimeout(setup, db.cfg.ProbeInterval)
	stream, err := dial(dialing, endpoint, db.cfg.TLS)
	dialed()
	if err != nil {
		return false, fmt.Errorf("connecting to %s: %w", endpoint, err)
	}
	// Updates may follow the monitor's reply at once: they wait for the replica
	// that is made of it.
	var replica *replica
	server := newServer(db.cfg.Schema.Model.Name(), db.cfg.Leader)
	installed, over := make(chan struct{}), make(chan struct{})
	c := newConn(stream, func(params json.RawMessage) error {
		var args []json.RawMessage
		if err := json.Unmarshal(params, &args); err != nil || len(args) != 3 {
			return fmt.Errorf("update3 with %d parameters: %w", len(args), err)
		}
		ready, apply := installed, func(tables json.RawMessage) error { return db.update(replica, tables) }
		if string(args[0]) == `"`+serverMonitor+`"` {
			ready, apply = server.known, server.update
		}
		select {
		case <-ready:
			return apply(args[2])
		case <-over: // loading failed: there is nothing to apply it to
			return errNotLoaded
		}
	})
	go c.read(3 * db.cfg.ProbeInterval)
	go c.probe(ctx, db.cfg.ProbeInterval)
	defer func() {
		close(over)
		stream.Close()
		<-c.ended
	}()
	if err := server.check(setup, c); err != nil {
		return false, err
	}
	if err := db.renew(setup, c); err != nil {
		return false, err
	}
	if replica, err = db.load(setup, c); err != nil {
		return false, err
	}
	db.install(c, replica)
	close(installed)
	db.cfg.Logger.Info("database connected", "database", db.cfg.Schema.Model.Name(), "endpoint", endpoint, "took", time.Since(start))
	select {
	case <-c.ended:
		err = c.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	db.uninstall()
	return true, err
}

// load reads the schema and the whole database, which it begins to monitor.
func (db *DB) load(ctx context.Context, c *conn) (*replica, error) {
	name := db.cfg.Schema.Model.Name()
	var server lib.DatabaseSchema
	if err := c.call(ctx, "get_schema", lib.NewGetSchemaArgs(name), &server); err != nil {
		return nil, err
	}
	tables, types, err := db.cfg.Schema.tables(server)
	if err != nil {
		return nil, err
	}
	requests := map[string]lib.MonitorRequest{}
	for _, t := range tables {
		columns := append([]string(nil), t.parents...)
		for _, c := range t.columns {
			columns = append(columns, c.name)
		}
		requests[t.name] = lib.MonitorRequest{Columns: columns, Select: lib.NewDefaultMonitorSelect()}
	}
	var reply [3]json.RawMessage
	args := []any{name, "replica", requests, "00000000-0000-0000-0000-000000000000"}
	if err := c.call(ctx, "monitor_cond_since", args, &reply); err != nil {
		return nil, err
	}
	var content lib.TableUpdates2
	if err := json.Unmarshal(reply[2], &content); err != nil {
		return nil, fmt.Errorf("reading the database: %w", err)
	}
	replica := newReplica(tables, types)
	if _, err := replica.apply(content, func(string) {}); err != nil {
		return nil, fmt.Errorf("reading the database: %w", err)
	}
	return replica, nil
}

func (db *DB) install(c *conn, replica *replica) {
	db.mu.Lock()
	db.conn, db.replica, db.problems = c, replica, map[string]error{}
	db.generation++
	again := db.generation > 1 && db.ready() == nil
	db.signal()
	for owner := range db.waiters {
		db.wake(owner)
	}
	var onReconnect []func()
	if again {
		onReconnect = db.onReconnect.list()
	}
	db.mu.Unlock()
	db.metrics.connections.Inc()
	db.metrics.connected.Set(1)
	for _, f := range onReconnect {
		f()
	}
}

func (db *DB) uninstall() {
	db.mu.Lock()
	db.conn, db.replica = nil, nil
	db.signal()
	db.mu.Unlock()
	db.metrics.connected.Set(0)
}
