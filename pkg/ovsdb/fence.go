package ovsdb

import (
	"context"
	"errors"

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
	// Value is the writer's own: no other writer ever has the same.
	Value string
}

// Claim sets the fence to our value and so excludes every other writer. Reads of the replica after Claim include all
// earlier writes.
func (db *DB) Claim(ctx context.Context) error {
	f := db.cfg.Fence
	return db.mergeKeys(ctx, f.Table, f.Column, map[string]string{f.Key: f.Value}, nil)
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
func (f *Fence) check() []any {
	if f == nil {
		return nil
	}
	has := lib.NewCondition(f.Column, lib.ConditionIncludes, lib.OvsMap{GoMap: map[any]any{f.Key: f.Value}})
	return []any{wait{
		Op: lib.OperationWait, Table: f.Table, Where: []lib.Condition{has}, Columns: []string{"_uuid"},
		Until: string(lib.WaitConditionNotEqual), Rows: []lib.Row{},
	}}
}
