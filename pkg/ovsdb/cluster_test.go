package ovsdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// followLeader opens a database of several servers as the controller does.
func followLeader(t *testing.T, members []*ovsdbtest.Server) *ovsdb.DB {
	t.Helper()
	schema, err := nb.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	var endpoints []string
	for _, member := range members {
		endpoints = append(endpoints, member.Endpoint())
	}
	cfg := ovsdb.Defaults(endpoints, schema)
	cfg.Leader, cfg.Fence = true, &ovsdb.Fence{Table: nb.NBGlobalTable, Column: "external_ids", Key: "leader", Value: "one"}
	db, err := ovsdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// commitUntil commits one owner after the other, each until it is done.
func commitUntil(ctx context.Context, db *ovsdb.DB, stop <-chan struct{}, done *[]string) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		name := fmt.Sprintf("n%06d", len(*done))
		for {
			_, err := db.Commit(ctx, nodeWant(name))
			if err == nil {
				break
			}
			if ctx.Err() != nil || errors.Is(err, ovsdb.ErrFenced) {
				return fmt.Errorf("commit of %s: %w", name, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		*done = append(*done, name)
	}
}

// TestLeader_KilledUnderCommits: commits of unknown outcome are neither lost nor done twice. A switch has no unique
// name, so a commit that is done twice is seen.
func TestLeader_KilledUnderCommits(t *testing.T) {
	members := ovsdbtest.StartCluster(t, nb.Definition, 3)
	members[0].Transact(newGlobal)
	db := followLeader(t, members)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stop, ended := make(chan struct{}), make(chan error, 1)
	var want []string
	go func() { ended <- commitUntil(ctx, db, stop, &want) }()
	for range 3 {
		time.Sleep(200 * time.Millisecond)
		leader := ovsdbtest.Leader(members)
		if leader == nil {
			t.Fatal("no leader")
		}
		leader.Kill()
		eventually(t, "another leader", func() bool { return ovsdbtest.Leader(members) != nil && db.Connected() })
		leader.Restart()
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, member := range members {
		var got []string
		for range 200 { // a follower may lag
			if got = slices.Sorted(strings.FieldsSeq(member.Dump("Logical_Switch", "name"))); slices.Equal(got, want) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d switches, want %d", len(got), len(want))
		}
	}
}

// lockedText is a log that is read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestLeader_FollowersAreLeftOut, and without Leader the first server is taken.
func TestLeader_FollowersAreLeftOut(t *testing.T) {
	members := ovsdbtest.StartCluster(t, nb.Definition, 3)
	members[0].Transact(newGlobal)
	db := followLeader(t, []*ovsdbtest.Server{members[1], members[2], members[0]})
	commit(t, db, nodeWant("n1"))

	schema, err := nb.ReplicaSchema()
	if err != nil {
		t.Fatal(err)
	}
	for leader, want := range map[bool]string{true: "not the leader", false: ""} {
		cfg := ovsdb.Defaults([]string{members[1].Endpoint()}, schema)
		cfg.Leader = leader
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		var log lockedText
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		follower, err := ovsdb.Open(ctx, cfg)
		cancel()
		if err == nil {
			follower.Close()
		}
		if (err == nil) != (want == "") || !strings.Contains(log.String(), want) {
			t.Errorf("leader only %t: %v, log %s", leader, err, log.String())
		}
	}
}

// TestProblem_SaysThatMostServersAreLost, and the data is served again when one returns.
func TestProblem_SaysThatMostServersAreLost(t *testing.T) {
	members := ovsdbtest.StartCluster(t, nb.Definition, 3)
	members[0].Transact(newGlobal)
	db := followLeader(t, members)
	if err := db.Problem(); err != nil {
		t.Fatal(err)
	}
	members[0].Kill()
	members[1].Kill()
	says := func(want string) bool {
		err := db.Problem()
		return err != nil && strings.Contains(err.Error(), want)
	}
	eventually(t, "the reason", func() bool {
		return says("the cluster has no leader") && says(members[0].Endpoint()) && !db.Connected()
	})
	members[1].Restart()
	eventually(t, "a connection", db.Connected)
	commit(t, db, nodeWant("n1"))
}
