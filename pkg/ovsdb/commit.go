package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// commitTries is the number of plans of one commit, for rows that other clients delete meanwhile.
const commitTries = 5

// errMissed means that a row did not exist any more when the server executed its change.
var errMissed = errors.New("another client has deleted a row meanwhile")

// Result has the changes of a commit. The commit changed no rows of owners in Failed. Their errors are about the wants
// (ErrNoParent), not about the database.
type Result struct {
	Changes []Change
	Failed  map[string]error
	// Held are owners whose rows stay because other rows use them. OnChange reports the owners after the last use.
	Held []string
}

// Commit makes each owner's rows equal to its want in one transaction, and returns when the replica has the rows. An
// error means that nothing was written, or, if the connection broke, that the outcome is unknown; then the next commit
// compares again. After a conflict with another client's transaction, Commit plans again.
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
		plan, c, fence := db.replica.plan(wants), db.conn, db.fenced()
		db.mu.RUnlock()
		result.Changes, result.Failed, result.Held = append(result.Changes, plan.changes...), plan.failed, plan.held
		if len(plan.ops) == 0 {
			return result, nil
		}
		if err := db.transact(ctx, c, fence, plan.ops); !errors.Is(err, errMissed) {
			return result, err
		}
	}
	return result, errMissed
}

// expect records updates of a commit's owners instead of reporting them.
func (db *DB) expect(wants []Want) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.expected = make(map[string]bool, len(wants))
	for _, want := range wants {
		db.expected[want.Owner] = false
	}
}

// unexpect ends expect. It reports the recorded updates unless the owners' rows are as wanted: then the updates are the
// commit's own.
func (db *DB) unexpect(wants []Want) {
	db.mu.Lock()
	var changed []string
	for owner, updated := range db.expected {
		if updated {
			changed = append(changed, owner)
		}
	}
	db.expected = nil
	onChange := db.onChange.list()
	db.mu.Unlock()
	if len(changed) > 0 && !db.holdsAll(wants) {
		notify(onChange, changed)
	}
}

// holdsAll says that a commit of wants would change nothing.
func (db *DB) holdsAll(wants []Want) bool {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.ready() != nil {
		return false
	}
	plan := db.replica.plan(wants)
	return len(plan.ops)+len(plan.failed) == 0
}

// EditKeys sets keys of a map column in the one row of a table such as NB_Global or Open_vSwitch, to what edit makes of the
// present ones; the value "" removes a key. Other keys stay. Edits of one DB do not overwrite each other.
func (db *DB) EditKeys(ctx context.Context, table, column string, edit func(have map[string]string) map[string]string) error {
	return db.editKeys(ctx, table, column, edit, db.fenced)
}

func (db *DB) editKeys(ctx context.Context, table, column string, edit func(map[string]string) map[string]string, fenced func() string) error {
	if err := db.begin(ctx); err != nil {
		return err
	}
	defer db.end()
	db.mu.RLock()
	if err := db.ready(); err != nil {
		db.mu.RUnlock()
		return err
	}
	c, fence := db.conn, fenced()
	var ops []lib.Operation
	for uuid, w := range db.replica.rows[table] {
		have := w.table.mapColumn(w.model, w.table.index(column))
		if mutations := mergeKeys(column, have, edit(have)); len(mutations) > 0 {
			ops = append(ops, lib.Operation{Op: lib.OperationMutate, Table: table, Where: is(uuid), Mutations: mutations})
		}
	}
	db.mu.RUnlock()
	if len(ops) == 0 {
		return nil
	}
	return db.transact(ctx, c, fence, ops)
}

// begin waits until no other commit runs; end lets the next one run.
func (db *DB) begin(ctx context.Context) error {
	select {
	case db.commit <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting to commit: %w", ctx.Err())
	}
}

func (db *DB) end() { <-db.commit }

// transact sends operations on the connection whose replica was used for the plan. On a later connection the operations
// could repeat a commit of unknown outcome. For the same reason the caller's deadline does not end the wait for a reply,
// and a server that does not answer is disconnected.
func (db *DB) transact(ctx context.Context, c *conn, fence string, ops []lib.Operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.cfg.ConnectTimeout)
	defer cancel()
	start := time.Now()
	var results []lib.OperationResult
	args := append([]any{db.cfg.Schema.Model.Name()}, db.cfg.Fence.check(fence)...)
	for _, op := range ops {
		args = append(args, op)
	}
	if err := c.call(ctx, "transact", args, &results); err != nil {
		c.stream.Close()
		return err
	}
	if fence != "" && len(results) > 0 {
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
		// A new child of a deleted row was not stored, and no update reports this.
		if (op.Op == lib.OperationUpdate || op.Op == lib.OperationMutate) && results[i].Count == 0 {
			return fmt.Errorf("%s of table %s: %w", op.Op, op.Table, errMissed)
		}
	}
	return nil
}
