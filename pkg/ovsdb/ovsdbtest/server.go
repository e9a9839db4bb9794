// Package ovsdbtest runs a real ovsdb-server for tests: the truth about
// transactions, references and monitors, which no fake has. The server works on
// a database file of its own and a unix socket in a temporary directory; it can
// be killed and started again in the middle of a test.
package ovsdbtest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Server is a running ovsdb-server.
type Server struct {
	t        testing.TB
	dir      string
	database string
	process  *exec.Cmd
}

// Start makes a database of a schema (its JSON text) and serves it. The test is
// skipped on a machine without ovsdb-server.
func Start(t testing.TB, schema []byte) *Server {
	t.Helper()
	s := newServer(t, schema)
	s.run("ovsdb-tool", "create", s.file(), s.schema())
	s.database = strings.TrimSpace(s.run("ovsdb-tool", "db-name", s.file()))
	t.Cleanup(s.Kill)
	s.Restart()
	return s
}

// Need skips the test on a machine without these programs of Open vSwitch or OVN.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine (Debian packages openvswitch-common, openvswitch-switch and ovn-central)", program)
		}
	}
}

// FreeAddress is a TCP address and port of the loopback at which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (s *Server) file() string { return filepath.Join(s.dir, "db") }

func (s *Server) schema() string { return filepath.Join(s.dir, "schema") }

// Endpoint is where the server listens.
func (s *Server) Endpoint() string { return "unix:" + filepath.Join(s.dir, "sock") }

// Kill ends the server as kill -9 does.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.Process.Kill()
		s.process.Wait()
		s.process = nil
	}
}

// Restart starts the server, killing one that runs, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	socket := filepath.Join(s.dir, "sock")
	os.Remove(socket)
	s.process = exec.Command("ovsdb-server", "--remote=punix:"+socket, "--unixctl="+filepath.Join(s.dir, "ctl"), "--no-chdir", s.file())
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal("ovsdb-server does not listen after 20s")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Backup is the content of the database's file.
func (s *Server) Backup() []byte {
	s.t.Helper()
	content, err := os.ReadFile(s.file())
	if err != nil {
		s.t.Fatal(err)
	}
	return content
}

// Replace stops the server, writes a backup into its file and starts it.
func (s *Server) Replace(backup []byte) {
	s.t.Helper()
	s.Kill()
	if err := os.WriteFile(s.file(), backup, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.Restart()
}

// Restore has the running server replace its content by a backup's, in one
// transaction, which gives every row another UUID.
func (s *Server) Restore(backup []byte) {
	s.t.Helper()
	file := filepath.Join(s.dir, "backup")
	if err := os.WriteFile(file, backup, 0o600); err != nil {
		s.t.Fatal(err)
	}
	stdin, err := os.Open(file) // it seeks there
	if err != nil {
		s.t.Fatal(err)
	}
	defer stdin.Close()
	restore := exec.Command("ovsdb-client", "restore", s.Endpoint(), s.database)
	restore.Stdin = stdin
	if out, err := restore.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %v: %s", restore, err, out)
	}
}

// Transact runs a transaction given in the notation of ovsdb-client(1), without
// the database's name, and returns the reply.
func (s *Server) Transact(operations string) string {
	s.t.Helper()
	return s.run("ovsdb-client", "transact", s.Endpoint(), `["`+s.database+`",`+operations+`]`)
}

// Dump is the content of a table's columns as ovsdb-client prints it, sorted, a line for each row.
func (s *Server) Dump(table string, columns ...string) string {
	s.t.Helper()
	// Without _uuid the server would give equal rows once (RFC 7047, section 5.2.2).
	added := !slices.Contains(columns, "_uuid")
	if added {
		columns = append([]string{"_uuid"}, columns...)
	}
	out := s.run("ovsdb-client", append([]string{"dump", "--no-headings", "--format=csv", s.Endpoint(), s.database, table}, columns...)...)
	_, content, _ := strings.Cut(out, "\n") // the first line is the table's name
	rows := slices.Collect(strings.Lines(content))
	if added {
		for i, row := range rows {
			_, rows[i], _ = strings.Cut(row, ",")
		}
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}

// Content is all tables as ovsdb-client prints them in JSON, an object for each.
func (s *Server) Content() string {
	s.t.Helper()
	return s.run("ovsdb-client", "dump", "--format=json", s.Endpoint(), s.database)
}

func (s *Server) run(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}
