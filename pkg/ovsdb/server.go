package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Errors of a server of a cluster, by which the next endpoint is tried.
var (
	errNoLeader  = errors.New("the cluster has no leader, or this server is not connected to the leader")
	errNotLeader = errors.New("this server is not the leader of the cluster")
)

// serverMonitor is the id of the monitor of the database _Server, in which a server describes its databases
// (ovsdb-server(5)).
const serverMonitor = "server"

// server is what a connected server says about itself. The server alone never is an error of the database: a server
// without a cluster is connected, and leads.
type server struct {
	database string
	leader   bool // only a leader is good

	mu   sync.Mutex
	uuid string // of the row of our database
	row  serverRow
}

type serverRow struct{ connected, leads bool }

// check returns an error if the server is not good, and begins to follow its row.
func (s *server) check(ctx context.Context, c *conn) error {
	args := []any{
		"_Server", serverMonitor,
		map[string]any{"Database": []any{map[string]any{"columns": []string{"name", "connected", "leader"}}}},
		"00000000-0000-0000-0000-000000000000",
	}
	var reply []json.RawMessage
	if err := c.call(ctx, "monitor_cond_since", args, &reply); err != nil {
		return err
	}
	if len(reply) != 3 {
		return fmt.Errorf("monitor_cond_since answers %d values", len(reply))
	}
	var tables lib.TableUpdates2
	if err := json.Unmarshal(reply[2], &tables); err != nil {
		return fmt.Errorf("reading what the server is: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for uuid, change := range tables["Database"] {
		if row := change.Initial; row != nil && (*row)["name"] == s.database {
			s.uuid = uuid
			s.set(*row)
			return s.verdict()
		}
	}
	return fmt.Errorf("the server has no database %s", s.database)
}

// update applies a notification. Its error ends the connection.
func (s *server) update(content json.RawMessage) error {
	var tables lib.TableUpdates2
	if err := json.Unmarshal(content, &tables); err != nil {
		return fmt.Errorf("reading what the server is: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	change, ok := tables["Database"][s.uuid]
	if !ok {
		return nil
	}
	if change.Modify == nil {
		return fmt.Errorf("the server has no database %s any more", s.database)
	}
	s.set(*change.Modify)
	return s.verdict()
}

// set takes the columns that a row or its change has; a changed scalar is given whole.
func (s *server) set(row lib.Row) {
	if connected, ok := row["connected"].(bool); ok {
		s.row.connected = connected
	}
	if leads, ok := row["leader"].(bool); ok {
		s.row.leads = leads
	}
}

func (s *server) verdict() error {
	switch {
	case !s.row.connected:
		return errNoLeader
	case s.leader && !s.row.leads:
		return errNotLeader
	}
	return nil
}
