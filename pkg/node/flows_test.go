package node

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the testdata again")

// flowTables remembers what was written to each bridge.
type flowTables map[string][]string

func (f flowTables) Replace(_ context.Context, bridge string, flows []string) error {
	f[bridge] = flows
	return nil
}

func (f flowTables) Watch(ctx context.Context, _ string, _ chan<- struct{}) { <-ctx.Done() }

// TestGatewayTable reads testdata/*.txtar: the facts, and the table they give.
func TestGatewayTable(t *testing.T) {
	files, err := filepath.Glob("testdata/table-*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test cases: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			must(t, err)
			var w wire
			must(t, json.Unmarshal(archive.Files[0].Data, &w))
			got := strings.Join(gatewayTable(w), "\n") + "\n"
			if *update {
				archive.Files = []txtar.File{archive.Files[0], {Name: "flows", Data: []byte(got)}}
				must(t, os.WriteFile(file, txtar.Format(archive), 0o644))
				return
			}
			equal(t, "flows", got, string(archive.Files[1].Data))
		})
	}
}
