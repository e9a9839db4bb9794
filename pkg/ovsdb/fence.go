package ovsdb

import (
	"context"
	"errors"
	"fmt"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// ErrFenced is wrapped by the errors of transactions that the server refused because the fence has another writer's
// value.
var ErrFenced = errors.New("another writer has taken over the database")

// Fence is a key in a map column of the one row of a table. Each transaction
// begins with a wait (RFC 7047, section 5.2.6) for the value, so the server itself refuses late transactions of a former
// writer. A lock belongs to one server process. The value is a part of the database, so all servers of a cluster check
// it.
type Fence struct {
	Table, Column, Key string
	// Value is the writer's own: no other writer ever has the same. The database gets the value with a number, which is
	// another one for each connection.
	Value string
}

// Claim sets the fence to our value and so excludes every other writer. Reads of the replica after Claim include all
// earlier writes.
func (db *DB) Claim(ctx context.Context) error {
	f, value := db.cfg.Fence, db.nextFence()
	key := func(map[string]string) map[string]string { return map[string]string{f.Key: value} }
	if err := db.editKeys(ctx, f.Table, f.Column, key, func() string { return "" }); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.fence = value
	return nil
}

// fenced is the value that transactions wait for: before Claim one that the database never has, "" without a fence. The
// caller holds the lock.
func (db *DB) fenced() string {
	if db.cfg.Fence == nil || db.fence != "" {
		return db.fence
	}
	return db.cfg.Fence.Value
}

func (db *DB) nextFence() string {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.claims++
	return fmt.Sprintf("%s.%d", db.cfg.Fence.Value, db.claims)
}

// renew gives a claimed fence another value on a new connection, before the replica is read. The server answers when all
// earlier transactions are applied, also those that a former leader of a cluster has accepted. Transactions of the former
// connection that are late are refused. So the replica has the outcome of all of them. A fence that has not our value
// stays: commits find this out.
func (db *DB) renew(ctx context.Context, c *conn) error {
	db.mu.RLock()
	former := db.fence
	db.mu.RUnlock()
	if former == "" {
		return nil
	}
	f, value := db.cfg.Fence, db.nextFence()
	op := lib.Operation{
		Op: lib.OperationMutate, Table: f.Table, Where: []lib.Condition{f.has(former)},
		Mutations: mergeKeys(f.Column, map[string]string{f.Key: former}, map[string]string{f.Key: value}),
	}
	var results []lib.OperationResult
	err := c.call(ctx, "transact", lib.NewTransactArgs(db.cfg.Schema.Model.Name(), op), &results)
	if err == nil {
		err = refused(results, []lib.Operation{op})
	}
	if err != nil {
		return fmt.Errorf("renewing the claim: %w", err)
	}
	if results[0].Count > 0 {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.fence = value
	}
	return nil
}

// wait is the operation of that name. The library's own leaves out an empty list
// of rows, which the server insists on.
type wait struct {
	Op      string          `json:"op"`
	Timeout int             `json:"timeout"`
	Table   string          `json:"table"`
	Where   []lib.Condition `json:"where"`
	Columns []string        `json:"columns"`
	Until   string          `json:"until"`
	Rows    []lib.Row       `json:"rows"`
}

// check is how a transaction begins: with nothing, where there is no fence. It
// names our key alone, since others write into the same column.
func (f *Fence) check(value string) []any {
	if value == "" {
		return nil
	}
	return []any{wait{
		Op: lib.OperationWait, Table: f.Table, Where: []lib.Condition{f.has(value)}, Columns: []string{"_uuid"},
		Until: string(lib.WaitConditionNotEqual), Rows: []lib.Row{},
	}}
}

func (f *Fence) has(value string) lib.Condition {
	return lib.NewCondition(f.Column, lib.ConditionIncludes, lib.OvsMap{GoMap: map[any]any{f.Key: value}})
}
