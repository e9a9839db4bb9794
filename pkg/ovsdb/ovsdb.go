// Package ovsdb makes a database hold what owners want.
//
// A DB keeps a replica of one OVSDB database: one connection, one monitor, each
// update applied in the order in which it comes, before the reply to the
// transaction that caused it. Every row of ours carries its owner and its id in
// external_ids. Commit compares what owners want with the replica, sends the
// difference as one transaction, and returns when the replica holds the result;
// rows without an owner do not exist for it. There is no memory of what was
// written: what somebody else changes is seen as an update, is reported by
// OnChange, and is put right by the owner's next commit.
//
// A new connection is a new generation: the replica is read again from nothing
// and everybody is told (OnReconnect). Until it is complete, and its probe table
// has a row, nothing is planned, so that an empty replica is never taken for an
// empty database.
//
// Data flow: pkg/ovn's rows (Northbound) or pkg/cni's and pkg/node's (local
// Open_vSwitch) -> Commit -> plan -> transaction -> update -> replica.
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
	"sync"
	"time"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
)

// ErrDisconnected is wrapped by errors of calls that need a connection, or a
// complete replica, while there is none.
var ErrDisconnected = errors.New("the database is not connected")

// Config says which database to keep a replica of.
type Config struct {
	// Endpoints are tried in turn: unix:PATH, tcp:HOST:PORT, ssl:HOST:PORT.
	Endpoints []string
	// TLS is asked at each connection to an ssl endpoint, so that renewed
	// certificates are used without a restart.
	TLS    func() (*tls.Config, error)
	Schema Schema
	// Fence keeps former writers from writing late; nil: there is none, and no
	// Claim either.
	Fence *Fence
	// ConnectTimeout bounds connecting and reading the whole database;
	// ProbeInterval is the silence after which a server is asked for a sign of
	// life, and in which it must take a connection; after three times that silence
	// it is given up.
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

	commit chan struct{} // one committer: who has put in the token

	mu          sync.RWMutex
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

// Open connects and returns when the replica is complete. A database that is
// away is waited for, with a log line for each attempt, until ctx ends.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	db := &DB{
		cfg: cfg, metrics: newMetrics(cfg), stop: stop, stopped: make(chan struct{}),
		commit:  make(chan struct{}, 1),
		waiters: map[string][]chan struct{}{}, changed: make(chan struct{}),
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

// listeners are called in no order; each can be taken out.
type listeners[F any] struct {
	next int
	all  map[int]F
}

// add gives what takes f out; the caller holds mu.
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

// OnChange adds a listener that is told which owners' rows changed in the database, and which owners wait no longer
// (ErrNoParent, Result.Held). A commit whose owners have what they wanted afterwards is not told. f is called from
// several goroutines and must not block.
func (db *DB) OnChange(f func(owners []string)) (cancel func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.onChange.add(&db.mu, f)
}

// OnForeign adds a listener that is told in which tables rows of nobody that we know changed.
// It is called from one goroutine and must not block.
func (db *DB) OnForeign(f func(tables []string)) (cancel func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.onForeign.add(&db.mu, f)
}

// OnReconnect adds a listener that is told that a later generation of the replica is there
// and ready, also where its probe row came, or came back, after the connection.
// It must not block.
func (db *DB) OnReconnect(f func()) (cancel func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.onReconnect.add(&db.mu, f)
}

// tell calls listeners without the lock.
func tell[T any](all []func(T), what T) {
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

// Generation counts the connections: it changes when everything was read again.
// It is 0 while there is no complete replica, so what was read between two calls
// that gave the same number, not 0, was read from one replica.
func (db *DB) Generation() uint64 {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.ready() != nil {
		return 0
	}
	return db.generation
}

// ready says why nothing can be planned; the caller holds the lock.
func (db *DB) ready() error {
	if db.replica == nil {
		return ErrDisconnected
	}
	if probe := db.cfg.Schema.Probe; len(db.replica.rows[probe]) == 0 {
		return fmt.Errorf("%w: it has no %s row yet", ErrDisconnected, probe)
	}
	return nil
}

// Owners lists everybody who has rows in the replica.
func (db *DB) Owners() []string {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.replica == nil {
		return nil
	}
	return slices.Collect(maps.Keys(db.replica.owned))
}

// Rows is what an owner has in the replica. The models are the replica's own:
// they are to be read only. Parents are not filled in.
func (db *DB) Rows(owner string) []Row {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.replica == nil {
		return nil
	}
	var rows []Row
	for _, w := range db.replica.owned[owner] {
		rows = append(rows, Row{ID: w.id, Model: w.model})
	}
	return rows
}

// Table is every row of a table, whoever owns it, as models to be read only.
func (db *DB) Table(name string) []any {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.replica == nil {
		return nil
	}
	var models []any
	for _, w := range db.replica.rows[name] {
		models = append(models, w.model)
	}
	return models
}

// Members is every row in a set column of a table's rows, whoever owns it, by the
// names of these; models to be read only.
func (db *DB) Members(table, column string) map[string][]any {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.replica == nil {
		return nil
	}
	return db.replica.members(table, column)
}

// WaitRow returns when ok holds for an owner's row, seen as a model of the
// table's type. It looks at once and then after each change of the owner's rows.
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
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.replica == nil {
		return false
	}
	for _, w := range db.replica.owned[owner] {
		if w.table.name == table && w.id == id && ok(w.model) {
			return true
		}
	}
	return false
}

// wake tells those who wait for an owner's rows; the caller holds the lock.
func (db *DB) wake(owner string) {
	for _, woken := range db.waiters[owner] {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
}

// update applies one update3 notification.
func (db *DB) update(replica *replica, params json.RawMessage) error {
	var args []json.RawMessage
	if err := json.Unmarshal(params, &args); err != nil || len(args) != 3 {
		return fmt.Errorf("update3 with %d parameters: %w", len(args), err)
	}
	var updates lib.TableUpdates2
	if err := json.Unmarshal(args[2], &updates); err != nil {
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
		tell(onChange, slices.Collect(maps.Keys(changed.owners)))
	}
	if err == nil && len(changed.foreign) > 0 {
		tell(onForeign, slices.Collect(maps.Keys(changed.foreign)))
	}
	return err
}

// signal says that readiness changed; the caller holds the lock.
func (db *DB) signal() {
	close(db.changed)
	db.changed = make(chan struct{})
}
