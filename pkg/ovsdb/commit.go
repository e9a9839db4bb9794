package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// commitTries is how often a commit is planned, should rows go just then.
const commitTries = 5

// errMissed says that a row was gone when the transaction came that changes it.
var errMissed = errors.New("somebody else has removed a row meanwhile")

// Result is what a commit did. Owners in Failed had nothing done for them;
// their errors are of the wants (ErrNoParent), not of the database.
type Result struct {
	Changes []Change
	Failed  map[string]error
	// Held are owners whose rows stay because rows of others use them. OnChange names them when nobody does any more.
	Held []string
}

// Commit makes the rows of each want's owner what the want says, in one
// transaction, and returns when the replica has them. With an error nothing was
// done, or (when the connection broke) it is not known, and the next commit
// compares again. Where another's transaction came between, it plans again itself.
func (db *DB) Commit(ctx context.Context, wants ...Want) (Result, error) {
	if err := db.begin(ctx); err != nil {
		return Result{}, err
	}
	defer db.end()
	db.expect(wants)
	defer db.unexpect(wants)
	var result Result
	for range commitTries {
		db.mu.RLock()
		if err := db.ready(); err != nil {
			db.mu.RUnlock()
			return result, err
		}
		plan, c := db.replica.plan(wants), db.conn
		db.mu.RUnlock()
		result.Changes, result.Failed, result.Held = append(result.Changes, plan.changes...), plan.failed, plan.held
		if len(plan.ops) == 0 {
			return result, nil
		}
		if err := db.transact(ctx, c, db.cfg.Fence, plan.ops); !errors.Is(err, errMissed) {
			return result, err
		}
	}
	return result, errMissed
}

// expect has updates of the owners of a commit noted in place of told.
func (db *DB) expect(wants []Want) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.expected = make(map[string]bool, len(wants))
	for _, want := range wants {
		db.expected[want.Owner] = false
	}
}

// unexpect tells of the updates of a commit's owners unless their rows are as wanted: then the commit has made them,
// and from here on every change is told.
func (db *DB) unexpect(wants []Want) {
	db.mu.Lock()
	var changed []string
	for owner, told := range db.expected {
		if told {
			changed = append(changed, owner)
		}
	}
	db.expected = nil
	onChange := db.onChange.list()
	db.mu.Unlock()
	if len(changed) > 0 && !db.holdsAll(wants) {
		tell(onChange, changed)
	}
}

// holdsAll says that the replica is as wants say: a commit of them would do nothing.
func (db *DB) holdsAll(wants []Want) bool {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.ready() != nil {
		return false
	}
	plan := db.replica.plan(wants)
	return len(plan.ops)+len(plan.failed) == 0
}

// MergeKeys sets keys of a map column in the one row of a table such as
// NB_Global or Open_vSwitch; the value "" removes a key. Other keys stay.
func (db *DB) MergeKeys(ctx context.Context, table, column string, keys map[string]string) error {
	return db.mergeKeys(ctx, table, column, keys, db.cfg.Fence)
}

func (db *DB) mergeKeys(ctx context.Context, table, column string, keys map[string]string, fence *Fence) error {
	if err := db.begin(ctx); err != nil {
		return err
	}
	defer db.end()
	db.mu.RLock()
	if err := db.ready(); err != nil {
		db.mu.RUnlock()
		return err
	}
	c := db.conn
	var ops []lib.Operation
	for uuid, w := range db.replica.rows[table] {
		have := w.table.mapColumn(w.model, w.table.index(column))
		if mutations := mergeKeys(column, have, keys); len(mutations) > 0 {
			ops = append(ops, lib.Operation{Op: lib.OperationMutate, Table: table, Where: is(uuid), Mutations: mutations})
		}
	}
	db.mu.RUnlock()
	if len(ops) == 0 {
		return nil
	}
	return db.transact(ctx, c, fence, ops)
}

// begin waits for the turn to commit; end gives it back.
func (db *DB) begin(ctx context.Context) error {
	select {
	case db.commit <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting to commit: %w", ctx.Err())
	}
}

func (db *DB) end() { <-db.commit }

// transact sends operations on the connection whose replica they were planned
// with: on a later one they could repeat what a commit of unknown outcome did.
// For the same reason a sent transaction is waited for whatever the caller's
// deadline, and a server that does not answer is left.
func (db *DB) transact(ctx context.Context, c *conn, fence *Fence, ops []lib.Operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.cfg.ConnectTimeout)
	defer cancel()
	start := time.Now()
	var results []lib.OperationResult
	args := append([]any{db.cfg.Schema.Model.Name()}, fence.check()...)
	for _, op := range ops {
		args = append(args, op)
	}
	if err := c.call(ctx, "transact", args, &results); err != nil {
		c.stream.Close()
		return err
	}
	if fence != nil && len(results) > 0 {
		if results[0].Error != "" {
			db.metrics.fenced.Inc()
			return fmt.Errorf("%w: %s: %s", ErrFenced, results[0].Error, results[0].Details)
		}
		results = results[1:]
	}
	db.metrics.transacted(ops, time.Since(start))
	if err := refused(results, ops); err != nil {
		return err
	}
	for i, op := range ops {
		// What was to be a child of such a row has vanished, and no update tells of it.
		if (op.Op == lib.OperationUpdate || op.Op == lib.OperationMutate) && results[i].Count == 0 {
			return fmt.Errorf("%s of table %s: %w", op.Op, op.Table, errMissed)
		}
	}
	return nil
}
