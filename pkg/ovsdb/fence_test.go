package ovsdb_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// slowPath passes bytes on to a server, except what clients send between hold and
// release: that arrives late.
type slowPath struct {
	endpoint string
	held     sync.Mutex
	waiting  chan struct{} // something is being held
	client   net.Conn      // the last one
	answers  lockedText    // of the server
}

// lossy drops what a client that is gone does not read.
type lossy struct{ io.Writer }

func (w lossy) Write(p []byte) (int, error) {
	_, _ = w.Writer.Write(p)
	return len(p), nil
}

func newSlowPath(t *testing.T, server string) *slowPath {
	t.Helper()
	p := &slowPath{endpoint: filepath.Join(t.TempDir(), "s"), waiting: make(chan struct{}, 100)}
	listener, err := net.Listen("unix", p.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			target, err := net.Dial("unix", strings.TrimPrefix(server, "unix:"))
			if err != nil {
				client.Close()
				continue
			}
			t.Cleanup(func() { target.Close() }) // not with the client, as if the network still had its bytes
			p.client = client
			go func() { io.Copy(io.MultiWriter(&p.answers, lossy{client}), target); client.Close() }()
			go p.forward(target, client)
		}
	}()
	return p
}

func (p *slowPath) forward(to io.Writer, from io.Reader) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !p.held.TryLock() {
			p.waiting <- struct{}{}
			p.held.Lock()
		}
		_, err = to.Write(buffer[:n])
		p.held.Unlock()
		if err != nil {
			return
		}
	}
}

func openAs(t *testing.T, writer string, endpoints ...string) (*ovsdb.DB, *prometheus.Registry) {
	t.Helper()
	schema, err := nb.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	cfg, registry := ovsdb.Defaults(endpoints, schema), prometheus.NewRegistry()
	cfg.Registerer = registry
	if writer != "" {
		cfg.Fence = &ovsdb.Fence{Table: nb.NBGlobalTable, Column: "external_ids", Key: "leader", Value: writer}
	}
	db, err := ovsdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if writer != "" {
		if err := db.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return db, registry
}

func nodeWant(name string) ovsdb.Want {
	return ovsdb.Want{Owner: "Node/" + name, Rows: []ovsdb.Row{switchRow(name)}}
}

// lateCommit has a writer send a transaction that arrives when another writer has
// claimed the database and written, and gives the error.
func lateCommit(t *testing.T, server, successors *ovsdbtest.Server, first, second string) error {
	t.Helper()
	path := newSlowPath(t, server.Endpoint())
	former, registry := openAs(t, first, "unix:"+path.endpoint)
	commit(t, former, nodeWant("early"))
	path.held.Lock()
	result := make(chan error)
	go func() {
		_, err := former.Commit(t.Context(), nodeWant("late"))
		result <- err
	}()
	<-path.waiting
	successor, _ := openAs(t, second, successors.Endpoint())
	commit(t, successor, nodeWant("new"))
	path.held.Unlock()
	err := <-result
	if first != "" {
		if got := metric(t, registry, "ovn_offload_ovsdb_fenced_total"); (got > 0) != (err != nil) {
			t.Errorf("%v transactions counted as fenced with the error %v", got, err)
		}
	}
	return err
}

func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestFence_LateTransactionOfAFormerWriterIsRefused, and without a fence it is done.
func TestFence_LateTransactionOfAFormerWriterIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, first, second string
		want                []string
	}{
		{"fenced", "one", "two", []string{"early", "new"}},
		{"without a fence", "", "", []string{"early", "late", "new"}},
	} {
		for _, cluster := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cluster %t", c.name, cluster), func(t *testing.T) {
				former, successors := servers(t, cluster)
				former.Transact(newGlobal)
				err := lateCommit(t, former, successors, c.first, c.second)
				if errors.Is(err, ovsdb.ErrFenced) != (c.first != "") || c.first == "" && err != nil {
					t.Errorf("the late commit ends with %v", err)
				}
				wantSwitches(t, former, c.want...)
			})
		}
	}
}

func wantSwitches(t *testing.T, server *ovsdbtest.Server, want ...string) {
	t.Helper()
	var got []string
	for range 200 { // a follower may lag
		if got = slices.Sorted(strings.FieldsSeq(server.Dump("Logical_Switch", "name"))); slices.Equal(got, want) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("switches %v, want %v", got, want)
}

// TestFence_LateTransactionOfAFormerConnectionIsRefused: the same writer has done the commit on another connection
// meanwhile, because its outcome was not known. Without a fence the commit is done twice.
func TestFence_LateTransactionOfAFormerConnectionIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, writer string
		want         []string
	}{
		{"fenced", "one", []string{"early", "late"}},
		{"without a fence", "", []string{"early", "late", "late"}},
	} {
		for _, cluster := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cluster %t", c.name, cluster), func(t *testing.T) {
				former, later := servers(t, cluster)
				former.Transact(newGlobal)
				path := newSlowPath(t, former.Endpoint())
				db, _ := openAs(t, c.writer, "unix:"+path.endpoint, later.Endpoint())
				commit(t, db, nodeWant("early"))
				again := make(chan struct{}, 1)
				db.OnReconnect(func() { again <- struct{}{} })
				path.held.Lock()
				result := make(chan error)
				go func() {
					_, err := db.Commit(t.Context(), nodeWant("late"))
					result <- err
				}()
				<-path.waiting
				path.client.Close()
				if err := <-result; !errors.Is(err, ovsdb.ErrDisconnected) {
					t.Fatalf("the commit on the lost connection ends with %v", err)
				}
				<-again
				commit(t, db, nodeWant("late"))
				answered := strings.Count(path.answers.String(), `"result"`)
				path.held.Unlock()
				eventually(t, "an answer to the late transaction", func() bool {
					return strings.Count(path.answers.String(), `"result"`) > answered
				})
				wantSwitches(t, former, c.want...)
			})
		}
	}
}

// servers are those of a former writer and its successor: the same, or two followers
// of a cluster.
func servers(t *testing.T, cluster bool) (former, successors *ovsdbtest.Server) {
	t.Helper()
	if cluster {
		members := ovsdbtest.StartCluster(t, nb.Definition, 3)
		return members[1], members[2]
	}
	server := ovsdbtest.Start(t, nb.Definition)
	return server, server
}

// TestFence_OtherKeysOfTheColumnDoNotMatter: northd and people write there, too.
func TestFence_OtherKeysOfTheColumnDoNotMatter(t *testing.T) {
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(newGlobal)
	db, _ := openAs(t, "one", server.Endpoint())
	server.Transact(`{"op":"mutate","table":"NB_Global","where":[],"mutations":[["external_ids","insert",["map",[["x","y"]]]],["nb_cfg","+=",1]]}`)
	commit(t, db, nodeWant("n1"))
	if got := server.Dump("NB_Global", "external_ids"); !strings.Contains(got, "leader=one") || !strings.Contains(got, "x=y") {
		t.Errorf("external_ids %s", got)
	}
}

// TestFence_IsClaimedAgainAfterARestore: a copy from before has another value, or none,
// and nothing is written until the writer has claimed the database again.
func TestFence_IsClaimedAgainAfterARestore(t *testing.T) {
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(newGlobal)
	backup := server.Backup()
	db, _ := openAs(t, "one", server.Endpoint())
	commit(t, db, nodeWant("n1"))
	again := make(chan struct{}, 10)
	db.OnReconnect(func() { again <- struct{}{} })
	server.Replace(backup)
	<-again
	if _, err := db.Commit(t.Context(), nodeWant("n1")); !errors.Is(err, ovsdb.ErrFenced) {
		t.Errorf("a commit into a database that was not claimed: %v", err)
	}
	if err := db.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(t, db, nodeWant("n1"))
}
