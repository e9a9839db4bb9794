package node

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

var update = flag.Bool("update", false, "write the testdata again")

// flowTables remembers what was written to each bridge.
type flowTables map[string][]string

func (f flowTables) Replace(_ context.Context, bridge string, flows []string) error {
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

func (f flowTables) Watch(ctx context.Context, _ string, _ func(string) bool, _ chan<- struct{}) {
	<-ctx.Done()
}

// TestGatewayTable_FlowsOfEachCase reads testdata/*.txtar: the facts, and the table they give.
func TestGatewayTable_FlowsOfEachCase(t *testing.T) {
	files, err := filepath.Glob("testdata/table-*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			must(t, err)
			got := strings.Join(gatewayTable(readWire(t, archive.Files[0].Data)), "\n") + "\n"
			if *update {
				archive.Files = []txtar.File{archive.Files[0], {Name: "flows", Data: []byte(got)}}
				must(t, os.WriteFile(file, txtar.Format(archive), 0o644))
				return
			}
			equal(t, "flows", got, string(archive.Files[1].Data))
		})
	}
}

// readWire also takes what the meetings are made of.
func readWire(t *testing.T, text []byte) wire {
	t.Helper()
	var facts struct {
		wire
		ServiceSubnets, MasqueradeSubnets []netip.Prefix
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	must(t, decoder.Decode(&facts))
	w := facts.wire
	w.Meetings = meetings(Config{Zone: contract.Zone{MasqueradeSubnets: facts.MasqueradeSubnets}}, facts.ServiceSubnets, w.Addresses)
	w.Services = w.Services.sorted()
	return w
}

// TestFlows_OldTableStaysUntilServicesAreKnown: a new agent leaves the table of the one before it
// until it knows the services; where there is none it does not wait.
func TestFlows_OldTableStaysUntilServicesAreKnown(t *testing.T) {
	b := newBench(t)
	b.ovnController()
	s := b.setup(t)
	tables, known := flowTables{}, false
	s.deps.Flows = tables
	s.deps.Services = func() (ServicePorts, bool) { return ServicePorts{}, known }
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
