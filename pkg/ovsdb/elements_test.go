package ovsdb_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

func addressSet(addresses ...string) ovsdb.Want {
	return ovsdb.Want{Owner: "PodSet/s", Rows: []ovsdb.Row{{ID: "s", Model: &nb.AddressSet{Name: "s", Addresses: addresses}}}}
}

// TestCommit_SetsChangeByElement: mutations change any set into any other, also a set that another client edits in
// between. A second commit changes nothing.
func TestCommit_SetsChangeByElement(t *testing.T) {
	server := ovsdbtest.Start(t, nb.Definition)
	server.Transact(`{"op":"insert","table":"NB_Global","row":{}}`)
	cfg := config(t, server)
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	db, err := ovsdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	commit(t, db, addressSet())
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		var want []string
		for range r.IntN(60) {
			if addr := fmt.Sprintf("10.0.0.%d", r.IntN(80)); !slices.Contains(want, addr) {
				want = append(want, addr)
			}
		}
		if seed%4 == 0 { // an edit that the replica may not have yet
			server.Transact(`{"op":"mutate","table":"Address_Set","where":[],"mutations":[["addresses","insert","10.9.9.9"]]}`)
			commit(t, db, addressSet(want...))
		}
		waitFor(t, func() bool {
			commit(t, db, addressSet(want...))
			return dumpSet(server) == sortedText(want)
		})
		if changes := commit(t, db, addressSet(want...)); len(changes) > 0 {
			t.Fatalf("the same again changed %v", changes)
		}
	}
	if got := operations(t, registry, "update"); got != 0 {
		t.Errorf("%v updates were sent: a set was written as a whole", got)
	}
	if operations(t, registry, "mutate") == 0 {
		t.Error("no mutation was counted: this showed nothing")
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition does not become true within 10 s")
		}
	}
}

func dumpSet(server *ovsdbtest.Server) string {
	text := strings.NewReplacer(`"`, "", "[", "", "]", "", ",", " ").Replace(server.Dump("Address_Set", "addresses"))
	return sortedText(strings.Fields(text))
}

func sortedText(set []string) string {
	sorted := slices.Clone(set)
	slices.Sort(sorted)
	return strings.Join(sorted, " ")
}

func operations(t *testing.T, registry *prometheus.Registry, op string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "op" && label.GetValue() == op {
					return metric.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}
