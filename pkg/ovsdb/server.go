package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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

// server is what a connected server says about a database. A server without a cluster is connected, and leads.
type server struct {
	database string
	leader   bool          // only a leader is good
	known    chan struct{} // closed when check has the first answer

	found, connected, leads bool
}

func newServer(database string, leader bool) *server {
	return &server{database: database, leader: leader, known: make(chan struct{})}
}

// check returns an error if the server is not good, and begins to follow it.
func (s *server) check(ctx context.Context, c *conn) error {
	request := map[string]any{"columns": []string{"connected", "leader"}, "where": []any{[]string{"name", "==", s.database}}}
	args := []any{"_Server", serverMonitor, map[string]any{"Database": []any{request}}, "00000000-0000-0000-0000-000000000000"}
	var reply [3]json.RawMessage
	if err := c.call(ctx, "monitor_cond_since", args, &reply); err != nil {
		return err
	}
	defer close(s.known)
	return s.update(reply[2])
}

// update applies an answer. Its error ends the connection.
func (s *server) update(content json.RawMessage) error {
	var tables lib.TableUpdates2
	if err := json.Unmarshal(content, &tables); err != nil {
		return fmt.Errorf("reading what the server is: %w", err)
	}
	for _, change := range tables["Database"] {
		s.found = change.Delete == nil
		for _, row := range []*lib.Row{change.Initial, change.Insert, change.Modify} {
			if row == nil {
				continue
			}
			if connected, ok := (*row)["connected"].(bool); ok {
				s.connected = connected
			}
			if leads, ok := (*row)["leader"].(bool); ok {
				s.leads = leads
			}
		}
	}
	switch {
	case !s.found:
		return fmt.Errorf("the server has no database %s", s.database)
	case !s.connected:
		return errNoLeader
	case s.leader && !s.leads:
		return errNotLeader
	}
	return nil
}
