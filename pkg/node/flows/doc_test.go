package flows

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// TestDocs_ListTheTable holds that meanings.txt says what the flows of each table and
// priority are for, and that docs/north-south.md has them, each with a flow of the test cases.
func TestDocs_ListTheTable(t *testing.T) {
	examples := exampleFlows(t)
	raw, err := os.ReadFile("meanings.txt")
	nodetest.Must(t, err)
	text := "| Table | Priority | What | To | Example |\n|---|---|---|---|---|\n"
	for line := range strings.Lines(string(raw)) {
		key, meaning, _ := strings.Cut(strings.TrimSpace(line), " | ")
		example, ok := examples[key]
		if !ok {
			t.Errorf("no flow has table and priority %s", key)
		}
		delete(examples, key)
		text += fmt.Sprintf("| %s | %s | `%s` |\n", strings.Replace(key, " ", " | ", 1), meaning, example)
	}
	for key, flow := range examples {
		t.Errorf("meanings.txt has no line %q: %s", key, flow)
	}
	const doc, begin, end = "../../../docs/north-south.md", "<!-- flows: written by go test ./pkg/node/flows -update -->\n", "<!-- flows: end -->\n"
	page, err := os.ReadFile(doc)
	nodetest.Must(t, err)
	before, rest, _ := strings.Cut(string(page), begin)
	have, after, ok := strings.Cut(rest, end)
	switch {
	case !ok:
		t.Fatalf("%s has no place for the flows", doc)
	case *update:
		nodetest.Must(t, os.WriteFile(doc, []byte(before+begin+text+end+after), 0o644))
	case have != text:
		t.Errorf("the flows in %s are not these, which -update writes:\n%s", doc, text)
	}
}

// exampleFlows has the first flow of the test cases for each "table priority".
func exampleFlows(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/table-*.txtar")
	nodetest.Must(t, err)
	named := regexp.MustCompile(`\b(in_port=|output:)([12])\b`)
	examples := map[string]string{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		nodetest.Must(t, err)
		for _, flow := range Table(readBridge(t, archive.Files[0].Data)) {
			var table, priority int
			_, err := fmt.Sscanf(flow, "table=%d,priority=%d", &table, &priority)
			nodetest.Must(t, err)
			if key := fmt.Sprint(table, " ", priority); examples[key] == "" {
				_, match, _ := strings.Cut(flow, fmt.Sprintf("priority=%d", priority))
				examples[key] = named.ReplaceAllStringFunc(strings.TrimLeft(match, ", "), func(port string) string {
					return port[:len(port)-1] + map[byte]string{'1': "uplink", '2': "router"}[port[len(port)-1]]
				})
			}
		}
	}
	return examples
}
