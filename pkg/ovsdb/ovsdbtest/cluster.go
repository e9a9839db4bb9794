package ovsdbtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// StartCluster serves one database of a schema by a RAFT cluster of n servers, of
// which the first begins as the leader.
func StartCluster(t testing.TB, schema []byte, n int) []*Server {
	t.Helper()
	var members []*Server
	raft := func(s *Server) string { return "unix:" + filepath.Join(s.dir, "raft") }
	for i := range n {
		s := newServer(t, schema)
		s.database = strings.TrimSpace(s.run("ovsdb-tool", "schema-name", s.schema()))
		if i == 0 {
			s.run("ovsdb-tool", "create-cluster", s.file(), s.schema(), raft(s))
		} else {
			s.run("ovsdb-tool", "join-cluster", s.file(), s.database, raft(s), raft(members[0]))
		}
		t.Cleanup(s.Kill)
		s.Restart()
		s.run("ovsdb-client", "--timeout=60", "wait", s.Endpoint(), s.database, "connected")
		members = append(members, s)
	}
	return members
}

// newServer has a directory with the schema, and no database yet.
func newServer(t testing.TB, schema []byte) *Server {
	t.Helper()
	Need(t, "ovsdb-server", "ovsdb-tool", "ovsdb-client")
	dir, err := os.MkdirTemp("", "ovsdb") // short: the path of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{t: t, dir: dir}
	if err := os.WriteFile(s.schema(), schema, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// Leader is the running member that leads; nil if there is none.
func Leader(members []*Server) *Server {
	for _, s := range members {
		if s.process == nil {
			continue
		}
		status, err := exec.Command("ovs-appctl", "-t", filepath.Join(s.dir, "ctl"), "cluster/status", s.database).CombinedOutput()
		if err == nil && strings.Contains(string(status), "\nRole: leader\n") {
			return s
		}
	}
	return nil
}
