package flows

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

var update = flag.Bool("update", false, "write the testdata again")

// TestTable_FlowsOfEachCase reads testdata/*.txtar: the facts, and the table they give.
func TestTable_FlowsOfEachCase(t *testing.T) {
	files, err := filepath.Glob("testdata/table-*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			nodetest.Must(t, err)
			got := strings.Join(Table(readBridge(t, archive.Files[0].Data)), "\n") + "\n"
			if *update {
				archive.Files = []txtar.File{archive.Files[0], {Name: "flows", Data: []byte(got)}}
				nodetest.Must(t, os.WriteFile(file, txtar.Format(archive), 0o644))
				return
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// readBridge also takes what a router's masquerade addresses are made of.
func readBridge(t *testing.T, text []byte) Bridge {
	t.Helper()
	var facts struct {
		Bridge
		Router                            int
		ServiceSubnets, MasqueradeSubnets []netip.Prefix
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	nodetest.Must(t, decoder.Decode(&facts))
	b := facts.Bridge
	if facts.Router != 0 {
		b.Routers = []Router{{
			Port: facts.Router, Mark: MarkDefault, Masquerade: Masquerades(facts.MasqueradeSubnets, facts.ServiceSubnets, b.Addresses),
		}}
	}
	b.Services = b.Services.sorted()
	return b
}
