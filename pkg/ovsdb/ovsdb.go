// Package ovsdb reconciles the rows of a database with the rows that owners want.
//
// A DB keeps a replica of one OVSDB database over one connection and one monitor. Updates are applied in their order,
// each before the reply to the transaction that caused it. Every row of ours has its owner and its id in external_ids.
// Commit compares the wanted rows of owners with the replica and sends the difference as one transaction. It returns
// when the replica has the result. Rows without an owner are never changed. The package does not remember its writes: a
// change by another client is an update, OnChange reports the owner, and the owner's next commit repairs the rows.
//
// A new connection is a new generation: the whole replica is read again, and OnReconnect reports the generation. No
// commit is planned until the replica is complete and its probe table has a row. So an empty replica never counts as an
// empty database.
//
// Data flow: rows of pkg/ovn (Northbound) or of pkg/cni and pkg/node (local Open_vSwitch) -> Commit -> plan ->
// transaction -> update -> replica.
package ovsdb

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
)

// ErrDisconnected is wrapped by errors of calls that need a connection, or a
// complete replica, while there is none.
var ErrDisconnected = errors.New("the database is not connected")

// Config names the database of a replica.
type Config struct {
	// Endpoints are tried in turn: unix:PATH, tcp:HOST:PORT, ssl:HOST:PORT.
	Endpoints []string
	// TLS is called for each connection to an ssl endpoint, so that renewed certificates are used without a restart.
	TLS    func() (*tls.Config, error)
	Schema Schema
	// Fence refuses late writes of former writers; nil: no fence, and no Claim.
	Fence *Fence
	// Leader leaves out the followers of a cluster: a leader has all earlier transactions.
	Leader bool
	// ConnectTimeout bounds connecting and reading the whole database. ProbeInterval is the idle time after which the
	// server is probed, and the timeout of dialing. After three idle intervals the connection is closed.
	ConnectTimeout, ProbeInterval time.Duration
	Logger                        *slog.Logger
	Registerer                    prometheus.Registerer
}

// Defaults waits a minute for a database and probes it every ten seconds.
func Defaults(endpoints []string, schema Schema) Config {
	return Config{
		Endpoints: endpoints, Schema: schema,
		ConnectTimeout: time.Minute, ProbeInterval: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
}

// DB is a replica of a database and the way to change it.
type DB struct {
	cfg     Config
	metrics *metrics
	stop    context.CancelFunc
	stopped chan struct{}

	commit chan struct{} // a token: one commit at a time

	mu          sync.RWMutex
	fence       string           // our value of the fence, "" before Claim
	claims      int              // values of the fence so far
	problems    map[string]error // by endpoint, since the last connection
	conn        *conn
	replica     *replica // nil while there is no complete one
	generation  uint64
	onChange    listeners[func([]string)]
	onForeign   listeners[func([]string)]
	onReconnect listeners[func()]
	waiters     map[string][]chan struct{} // by owner
	expected    map[string]bool            // the owners in a commit, and whether their rows have changed
	changed     chan struct{}              // closed and replaced when the connection comes or goes
}

// Open connects and returns when the replica is complete. It tries again until ctx ends, with a log line for each failed
// attempt.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	db := &DB{
		cfg: cfg, metrics: newMetrics(cfg), stop: stop, stopped: make(chan struct{}),
		commit:  make(chan struct{}, 1),
		waiters: map[string][]chan struct{}{}, changed: make(chan struct{}), problems: map[string]error{},
	}
	go db.run(running)
	for {
		db.mu.RLock()
		ready, changed := db.ready() == nil, db.changed
		db.mu.RUnlock()
		if ready {
			return db, nil
		}
		select {
		case <-ctx.Done():
			db.Close()
			return nil, fmt.Errorf("opening database %s at %v: %w", cfg.Schema.Model.Name(), cfg.Endpoints, ctx.Err())
		case <-changed:
		}
	}
}

// Close ends the connection.
func (db *DB) Close() {
	db.stop()
	<-db.stopped
}

// listeners are called in no order. Each can be removed.
type listeners[F any] struct {
	next int
	all  map[int]F
}

// add returns the function that removes f. The caller holds mu.
func (l *listeners[F]) add(mu *sync.RWMutex, f F) (cancel func()) {
	if l.all == nil {
		l.all = map[int]F{}
	}
	id := l.next
	l.next++
	l.all[id] = f
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(l.all, id)
	}
}

func (l *listeners[F]) list() []F { return slices.Collect(maps.Values(l.all)) }

// OnChange adds a listener for the owners whose rows changed in the database, and for owners that wait no longer
// (ErrNoParent, Result.Held). A commit after which its owners have the wanted rows is not reported. f is called from
// several goroutines and must not block.
func (db *DB) OnChange(f func(owners []string)) (cancel func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.onChange.add(&db.mu, f)
}

// OnForeign adds a listener for the tables in which rows without an owner changed. f is called from one goroutine and
// must not block.
func (db *DB) OnForeign(f func(tables []string)) (cancel func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.onForeign.add(&db.mu, f)
}

// OnReconnect adds a listener for each later generation of the replica. f is called when the generation is complete and
// its probe row exists, and when the probe row comes back. f must not block.
func (db *DB) OnReconnect(f func()) (cancel func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.onReconnect.add(&db.mu, f)
}

// notify calls listeners. The caller does not hold the lock.
func notify[T any](all []func(T), what T) {
	for _, f := range all {
		f(what)
	}
}

// Connected reports whether the replica is complete and follows the server.
func (db *DB) Connected() bool {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.ready() == nil
}

// Problem is an error while the replica is not complete, with the reason of each endpoint.
func (db *DB) Problem() error {
	db.mu.RLock()
	defer db.mu.RUnlock()
	err := db.ready()
	if err == nil || db.replica != nil {
		return err
	}
	var reasons []string
	for _, endpoint := range slices.Sorted(maps.Keys(db.problems)) {
		reasons = append(reasons, endpoint+": "+db.problems[endpoint].Error())
	}
	return fmt.Errorf("%w: %s", err, strings.Join(reasons, "; "))
}

// Generation is the number of the connection, 0 while the replica is not complete. Two calls with the same result, not
// 0, mean that all reads between the calls were from one replica.
func (db *DB) Generation() uint64 {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.ready() != nil {
		return 0
	}
	return db.generation
}

// ready is the error while no commit can be planned. The caller holds the lock.
func (db *DB) ready() error {
	if db.replica == nil {
		return ErrDisconnected
	}
	if probe := db.cfg.Schema.Probe; len(db.replica.rows[probe]) == 0 {
		return fmt.Errorf("%w: it has no %s row yet", ErrDisconnected, probe)
	}
	return nil
}

// look reads the replica; nothing while there is none.
func look[T any](db *DB, f func(*replica) T) (out T) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.replica != nil {
		out = f(db.replica)
	}
	return out
}

// Owners lists the owners of rows in the replica.
func (db *DB) Owners() []string {
	return look(db, func(r *replica) []string { return slices.Collect(maps.Keys(r.owned)) })
}

// Rows are an owner's rows in the replica, without Parents. The models are the replica's own: do not change them.
func (db *DB) Rows(owner string) []Row {
	return look(db, func(r *replica) (rows []Row) {
		for _, w := range r.owned[owner] {
			rows = append(rows, Row{ID: w.id, Model: w.model})
		}
		return rows
	})
}

// Table has a model of every row of a table, with and without an owner. Do not change the models.
func (db *DB) Table(name string) []any {
	return look(db, func(r *replica) (models []any) {
		for _, w := range r.rows[name] {
			models = append(models, w.model)
		}
		return models
	})
}

// Members has the models of all rows in a set column, by the name of the row with the column. Do not change the models.
func (db *DB) Members(table, column string) map[string][]any {
	return look(db, func(r *replica) map[string][]any { return r.members(table, column) })
}

// WaitRow returns when ok holds for the model of an owner's row. It checks at once, and after each change of the owner's
// rows.
func (db *DB) WaitRow(ctx context.Context, table, owner, id string, ok func(model any) bool) error {
	woken := make(chan struct{}, 1)
	db.mu.Lock()
	db.waiters[owner] = append(db.waiters[owner], woken)
	db.mu.Unlock()
	defer func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		drop(db.waiters, owner, woken)
	}()
	for {
		if db.holds(table, owner, id, ok) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-woken:
		}
	}
}

func (db *DB) holds(table, owner, id string, ok func(any) bool) bool {
	return look(db, func(r *replica) bool {
		return slices.ContainsFunc(r.owned[owner], func(w *row) bool { return w.table.name == table && w.id == id && ok(w.model) })
	})
}

// wake signals the calls of WaitRow for an owner's rows. The caller holds the lock.
func (db *DB) wake(owner string) {
	for _, woken := range db.waiters[owner] {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}

// update applies the tables of one update3 notification.
func (db *DB) update(replica *replica, tables json.RawMessage) error {
	var updates lib.TableUpdates2
	if err := json.Unmarshal(tables, &updates); err != nil {
		return err
	}
	db.mu.Lock()
	unready := db.ready() != nil
	changed, err := replica.apply(updates, db.wake)
	for owner := range changed.owners {
		if _, ours := db.expected[owner]; ours {
			db.expected[owner] = true
			delete(changed.owners, owner)
		}
	}
	onChange, onForeign := db.onChange.list(), db.onForeign.list()
	var onReconnect []func()
	if unready && db.ready() == nil {
		db.signal()
		onReconnect = db.onReconnect.list()
	}
	db.mu.Unlock()
	for _, f := range onReconnect {
		f()
	}
	if err == nil && len(changed.owners) > 0 {
		notify(onChange, slices.Collect(maps.Keys(changed.owners)))
	}
	if err == nil && len(changed.foreign) > 0 {
		notify(onForeign, slices.Collect(maps.Keys(changed.foreign)))
	}
	return err
}

// signal wakes all who wait for a change of readiness. The caller holds the lock.
func (db *DB) signal() {
	close(db.changed)
	db.changed = make(chan struct{})
}
