package ovsdb_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const worldNodes, worldPods = 4, 40

// world has the wants of all owners: switches, and ports in them.
type world struct {
	mu     sync.Mutex
	random *rand.Rand
	wants  map[string][]ovsdb.Row
}

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 0)), wants: map[string][]ovsdb.Row{}}
	for i := range worldNodes {
		name := fmt.Sprintf("n%d", i)
		w.wants["Node/"+name] = []ovsdb.Row{switchRow(name)}
	}
	return w
}

// randomWorld prints its seed: a failure can be played again.
func randomWorld(t *testing.T) *world {
	seed := tier.Seed(t)
	return newWorld(seed)
}

// change gives one pod new rows, or none, and returns its owner.
func (w *world) change() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	owner := fmt.Sprintf("Pod/d/%d", w.random.IntN(worldPods))
	if w.random.IntN(3) == 0 {
		delete(w.wants, owner)
		return owner
	}
	name := strings.ReplaceAll(owner, "/", "_")
	sw := fmt.Sprintf("n%d", w.random.IntN(worldNodes))
	row := portRow(sw, name, fmt.Sprintf("0a:58:0a:f4:01:%02x 10.244.1.%d", w.random.IntN(250), w.random.IntN(250)))
	w.wants[owner] = []ovsdb.Row{row}
	if w.random.IntN(4) == 0 { // a second row of the same owner
		w.wants[owner] = append(w.wants[owner], portRow(sw, name+"_second"))
	}
	return owner
}

func (w *world) want(owner string) ovsdb.Want {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ovsdb.Want{Owner: owner, Rows: slices.Clone(w.wants[owner])}
}

func (w *world) owners() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.wants))
}

// wantedText and haveText render ports as "switch port addresses" lines: what is
// wanted, and what the server really has.
func (w *world) wantedText() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := []string{}
	for owner, rows := range w.wants {
		for _, row := range rows {
			if port, ok := row.Model.(*nb.LogicalSwitchPort); ok {
				lines = append(lines, fmt.Sprintf("%s %s %s %v", owner, row.Parents[0].Name, port.Name, port.Addresses))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func haveText(t *testing.T, server *ovsdbtest.Server) []string {
	t.Helper()
	db, err := ovsdb.Open(t.Context(), config(t, server))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	in := map[string]string{}
	for i := range worldNodes {
		sw := fmt.Sprintf("n%d", i)
		for _, port := range portsOf(t, server, sw) {
			in[port] = sw
		}
	}
	lines := []string{}
	for _, model := range db.Table(nb.LogicalSwitchPortTable) {
		port := model.(*nb.LogicalSwitchPort)
		lines = append(lines, fmt.Sprintf("%s %s %s %v", port.ExternalIDs[ovsdb.OwnerKey], in[port.Name], port.Name, port.Addresses))
	}
	slices.Sort(lines)
	return lines
}

// TestPlan_AppliedGivesWantedRows: for random worlds a and b, applying
// Plan(a, b) to a gives b, and Plan(b, b) is empty.
func TestPlan_AppliedGivesWantedRows(t *testing.T) {
	server, db := open(t)
	w := randomWorld(t)
	for range 60 {
		for range w.random.IntN(30) {
			w.change()
		}
		var wants []ovsdb.Want
		for _, owner := range append(w.owners(), db.Owners()...) {
			if !slices.ContainsFunc(wants, func(want ovsdb.Want) bool { return want.Owner == owner }) {
				wants = append(wants, w.want(owner))
			}
		}
		commit(t, db, wants...)
		if diff := cmp.Diff(w.wantedText(), haveText(t, server)); diff != "" {
			t.Fatalf("after a commit (-want +got):\n%s", diff)
		}
		if changes := commit(t, db, wants...); len(changes) > 0 {
			t.Fatalf("the same again changed %v", changes)
		}
	}
}

// TestCommit_ServerRestartsLoseNoChange: goroutines change the world while the
// server is killed and started again; in the end nothing is lost and nothing
// is doubled.
func TestCommit_ServerRestartsLoseNoChange(t *testing.T) {
	server, db := open(t)
	w := randomWorld(t)
	loop := drive(t, db, w)
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for range 600 {
				loop.Mark(w.change())
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 4 {
		time.Sleep(150 * time.Millisecond)
		server.Restart()
	}
	writers.Wait()
	deadline := time.Now().Add(30 * time.Second)
	for {
		diff := cmp.Diff(w.wantedText(), haveText(t, server))
		if diff == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("30s after the last change (-want +got):\n%s", diff)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if generation := db.Generation(); generation < 2 {
		t.Errorf("generation %d: the server never went away, so this showed nothing", generation)
	}
}

// drive runs the loop that the controller runs: build, commit, follow changes.
func drive(t *testing.T, db *ovsdb.DB, w *world) *reconcile.Loop[string] {
	t.Helper()
	loop := reconcile.New(reconcile.Defaults("test"), func(ctx context.Context, owners []string) (map[string]error, error) {
		var wants []ovsdb.Want
		for _, owner := range owners {
			wants = append(wants, w.want(owner))
		}
		result, err := db.Commit(ctx, wants...)
		return result.Failed, err
	})
	loop.MarkAllWith(func() []string { return append(w.owners(), db.Owners()...) })
	db.OnChange(func(owners []string) { loop.Mark(owners...) })
	db.OnReconnect(loop.MarkAll)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { loop.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return loop
}
