package ovsdb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// policy wants a port group with one rule, whose match names the sets.
func policy(name string, sets ...string) ovsdb.Want {
	rule := ovsdb.Row{
		ID: "rule", Model: &nb.ACL{Action: nb.ACLActionDrop, Direction: nb.ACLDirectionToLport, Match: "ip4.src == {0.0.0.0"},
		Parents: []ovsdb.Parent{{Table: nb.PortGroupTable, Name: name, Column: "acls"}},
	}
	for _, set := range sets {
		rule.Model.(*nb.ACL).Match += ", $" + set
		rule.Uses = append(rule.Uses, ovsdb.Name{Table: nb.AddressSetTable, Name: set})
	}
	rule.Model.(*nb.ACL).Match += "}"
	return ovsdb.Want{Owner: "NetworkPolicy/" + name, Rows: []ovsdb.Row{{ID: "group", Model: &nb.PortGroup{Name: name}}, rule}}
}

// sets wants address sets of one owner.
func sets(owner string, names ...string) ovsdb.Want {
	want := ovsdb.Want{Owner: "PodSet/" + owner}
	for _, name := range names {
		want.Rows = append(want.Rows, ovsdb.Row{ID: name, Model: &nb.AddressSet{Name: name}})
	}
	return want
}

// dangling are the sets that matches name and the database does not have.
func dangling(server *ovsdbtest.Server) (missing []string) {
	have := strings.Fields(server.Dump("Address_Set", "name"))
	for _, named := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(server.Dump("ACL", "match"), -1) {
		if !slices.Contains(have, named[1]) {
			missing = append(missing, named[1])
		}
	}
	return missing
}

// openReported also returns the owners that OnChange reports.
func openReported(t *testing.T) (*ovsdbtest.Server, *ovsdb.DB, chan string) {
	t.Helper()
	server, db := open(t)
	reported := make(chan string, 1000)
	db.OnChange(func(owners []string) {
		for _, owner := range owners {
			reported <- owner
		}
	})
	return server, db, reported
}

func wantReported(t *testing.T, reported <-chan string, owner string) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case got := <-reported:
			if got == owner {
				return
			}
		case <-timeout:
			t.Fatalf("OnChange did not name %s", owner)
		}
	}
}

// TestUses_OwnerWaitsForWhatItUses: a rule does not come before its set, and OnChange names the rule's owner when the set
// comes. In one commit both come.
func TestUses_OwnerWaitsForWhatItUses(t *testing.T) {
	server, db, reported := openReported(t)
	result, err := db.Commit(t.Context(), policy("p", "a1"), policy("other"))
	if failed := result.Failed["NetworkPolicy/p"]; err != nil || len(result.Failed) != 1 || !errors.Is(failed, ovsdb.ErrNoParent) || !strings.Contains(failed.Error(), `Address_Set "a1"`) {
		t.Fatalf("failed: %v, %v", result.Failed, err)
	}
	commit(t, db, sets("a", "a2"))
	commit(t, db, sets("a", "a1", "a2"))
	wantReported(t, reported, "NetworkPolicy/p")
	commit(t, db, policy("p", "a1"))
	commit(t, db, policy("q", "b1"), sets("b", "b1"))
	if missing := dangling(server); len(missing) > 0 || strings.Count(server.Dump("ACL", "match"), "ip4.src") != 3 {
		t.Errorf("missing %v in\n%s", missing, server.Dump("ACL", "match"))
	}
	if len(reported) > 0 {
		t.Errorf("OnChange named %s, whose commit did what was wanted", <-reported)
	}
}

// TestUses_RowInUseStays until its last user goes, also for a later process. Then OnChange reports its owner.
func TestUses_RowInUseStays(t *testing.T) {
	server, db, _ := openReported(t)
	commit(t, db, sets("a", "a1", "a2"), policy("p", "a1"), policy("q", "a1"))
	db.Close()
	db, err := ovsdb.Open(t.Context(), config(t, server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	reported := make(chan string, 1000)
	db.OnChange(func(owners []string) {
		for _, owner := range owners {
			reported <- owner
		}
	})
	result, err := db.Commit(t.Context(), sets("a"))
	if err != nil || !slices.Equal(result.Held, []string{"PodSet/a"}) || strings.Contains(server.Dump("Address_Set", "name"), "a2") {
		t.Fatalf("held %v, %v:\n%s", result.Held, err, server.Dump("Address_Set", "name"))
	}
	commit(t, db, policy("p"))
	if len(reported) > 0 {
		t.Errorf("OnChange named %s while a rule uses the set", <-reported)
	}
	commit(t, db, ovsdb.Want{Owner: "NetworkPolicy/q"})
	wantReported(t, reported, "PodSet/a")
	commit(t, db, sets("a"))
	if strings.Contains(server.Dump("Address_Set", "name"), "a1") {
		t.Error("the set stays without a user")
	}
}

// TestUses_UserMovesInTheCommitInWhichTheSetGoes, so nothing is held.
func TestUses_UserMovesInTheCommitInWhichTheSetGoes(t *testing.T) {
	server, db, _ := openReported(t)
	commit(t, db, sets("a", "a1"), policy("p", "a1"))
	result, err := db.Commit(t.Context(), sets("a", "a2"), policy("p", "a2"))
	if err != nil || len(result.Held)+len(result.Failed) > 0 || strings.TrimSpace(server.Dump("Address_Set", "name")) != "a2" {
		t.Errorf("%+v, %v:\n%s", result, err, server.Dump("Address_Set", "name"))
	}
}

// TestUses_NoRuleEverNamesAMissingSet: owners commit at random, alone or together. In the end, when all reported owners
// have committed again, the database has the last wanted rows.
func TestUses_NoRuleEverNamesAMissingSet(t *testing.T) {
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 0))
		server, db, reported := openReported(t)
		wants := map[string]ovsdb.Want{}
		change := func() ovsdb.Want {
			some := func(prefix string) (names []string) {
				for i := range 3 {
					if r.IntN(2) == 0 {
						names = append(names, fmt.Sprint(prefix, i))
					}
				}
				return names
			}
			if r.IntN(2) == 0 {
				return sets("a", some("a")...)
			}
			if r.IntN(4) == 0 {
				return ovsdb.Want{Owner: "NetworkPolicy/p"}
			}
			return policy("p", some("a")...)
		}
		for range 60 {
			var some []ovsdb.Want
			for range 1 + r.IntN(2) {
				if want := change(); len(some) == 0 || some[0].Owner != want.Owner {
					some = append(some, want)
					wants[want.Owner] = want
				}
			}
			if _, err := db.Commit(t.Context(), some...); err != nil {
				t.Fatal(err)
			}
			if missing := dangling(server); len(missing) > 0 {
				t.Fatalf("seed %d: a rule names %v, which is not there", seed, missing)
			}
		}
		last := []ovsdb.Want{sets("a", "a0", "a1"), policy("p", "a1")}
		for _, want := range last {
			if _, err := db.Commit(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			wants[want.Owner] = want
		}
		for len(reported) > 0 {
			if _, err := db.Commit(t.Context(), wants[<-reported]); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Fields(server.Dump("Address_Set", "name")); !slices.Equal(got, []string{"a0", "a1"}) || !strings.Contains(server.Dump("ACL", "match"), "$a1}") {
			t.Errorf("seed %d: sets %v, rules\n%s", seed, got, server.Dump("ACL", "match"))
		}
	}
}
