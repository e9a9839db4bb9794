package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Remove deletes the rows of tables whose name column is name, in one
// transaction over a connection of its own: for rows of others, in a database
// of which no replica is kept (cfg.Schema is not used). Each endpoint has
// cfg.ConnectTimeout. Rows that are not there are no error.
func Remove(ctx context.Context, cfg Config, database, name string, tables ...string) error {
	var ops []lib.Operation
	for _, table := range tables {
		ops = append(ops, lib.Operation{Op: lib.OperationDelete, Table: table, Where: []lib.Condition{lib.NewCondition("name", lib.ConditionEqual, name)}})
	}
	var results []lib.OperationResult
	err := first(ctx, cfg, func(ctx context.Context, c *conn) error {
		if err := c.call(ctx, "transact", lib.NewTransactArgs(database, ops...), &results); err != nil {
			return err
		}
		return refused(results, ops)
	})
	if err != nil {
		return fmt.Errorf("removing %s from %s: %w", name, database, err)
	}
	return nil
}

// Select reads columns of all rows of tables as Remove connects. It gives the rows as the server writes them (RFC 7047, 5.2.2).
func Select(ctx context.Context, cfg Config, database string, tables map[string][]string) (map[string][]json.RawMessage, error) {
	rows := map[string][]json.RawMessage{}
	return rows, first(ctx, cfg, func(ctx context.Context, c *conn) error {
		for table, columns := range tables {
			var result []struct{ Rows []json.RawMessage }
			op := lib.Operation{Op: lib.OperationSelect, Table: table, Where: []lib.Condition{}, Columns: columns}
			if err := c.call(ctx, "transact", lib.NewTransactArgs(database, op), &result); err != nil {
				return fmt.Errorf("reading %s: %w", table, err)
			}
			if len(result) != 1 || result[0].Rows == nil {
				return fmt.Errorf("reading %s: the server refuses", table)
			}
			rows[table] = result[0].Rows
		}
		return nil
	})
}

// Check asks each endpoint whether it serves a database and, as the member or a relay of a cluster, is connected to the
// leader. The error has the reasons of all endpoints; it is nil when one endpoint is good. Only Endpoints, TLS and
// ConnectTimeout of cfg are used.
func Check(ctx context.Context, cfg Config, database string) error {
	return first(ctx, cfg, newServer(database, false).check)
}

// first does something at the first endpoint where that is possible.
func first(ctx context.Context, cfg Config, do func(context.Context, *conn) error) error {
	var failed []error
	for _, endpoint := range cfg.Endpoints {
		err := visit(ctx, cfg, endpoint, do)
		if err == nil {
			return nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", endpoint, err))
	}
	return errors.Join(failed...)
}

// visit uses a connection of its own.
func visit(ctx context.Context, cfg Config, endpoint string, do func(context.Context, *conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	stream, err := dial(ctx, endpoint, cfg.TLS)
	if err != nil {
		return err
	}
	c := newConn(stream, func(json.RawMessage) error { return nil })
	go c.read(cfg.ConnectTimeout)
	defer func() {
		stream.Close()
		<-c.ended
	}()
	return do(ctx, c)
}

// refused is the server's reason for not doing a transaction.
func refused(results []lib.OperationResult, ops []lib.Operation) error {
	failed, err := lib.CheckOperationResults(results, ops)
	switch {
	case len(failed) > 0:
		return fmt.Errorf("transaction refused: %w", failed[0])
	case err != nil:
		return fmt.Errorf("transaction refused: %w", err)
	}
	return nil
}
