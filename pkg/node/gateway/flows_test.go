package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
)

// flowTables remembers what was written to each bridge.
type flowTables map[string][]string

func (f flowTables) Replace(_ context.Context, bridge string, flows []string) error {
	flows = slices.Clone(flows)
	for i := range flows {
		_, flows[i], _ = strings.Cut(flows[i], ",") // the cookie is of no interest here
	}
	f[bridge] = flows
	return nil
}

func (f flowTables) Dump(_ context.Context, bridge, match string, flow func(string)) error {
	for _, one := range f[bridge] {
		if strings.Contains(one, match+",") {
			flow(one)
		}
	}
	return nil
}

func (f flowTables) Watch(ctx context.Context, _ string, _ func(string)) {
	<-ctx.Done()
}

// TestFlows_OldTableStaysUntilServicesAreKnown: a new agent leaves the table of the one before it
// until it knows the services; where there is none it does not wait.
func TestFlows_OldTableStaysUntilServicesAreKnown(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	s := b.setup(t)
	tables, known := flowTables{}, false
	s.deps.Flows = tables
	s.deps.Services = func() (flows.Services, bool) { return flows.Services{}, known }
	converge(t, s)
	if len(tables["breth0"]) == 0 {
		t.Fatal("no table while the services are not known")
	}
	before := []string{"table=1, priority=0 actions=LOCAL"}
	tables["breth0"] = before
	converge(t, s)
	if !slices.Equal(tables["breth0"], before) {
		t.Errorf("the table was replaced by %v", tables["breth0"])
	}
	known = true
	converge(t, s)
	if got := testutil.ToFloat64(s.metrics.flows); got != float64(len(tables["breth0"])) {
		t.Errorf("the metric says %v flows, the table has %d", got, len(tables["breth0"]))
	}
	if slices.Equal(tables["breth0"], before) {
		t.Error("the table is the old one though the services are known")
	}
}
