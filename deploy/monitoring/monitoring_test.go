package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFiles_AreThoseOfChart: `make generate` writes them again.
func TestFiles_AreThoseOfChart(t *testing.T) {
	want, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	if err := filepath.WalkDir("../chart/files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, "../chart/")] = text
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("files (-code +chart):\n%s", diff)
	}
	for name, text := range want {
		if !bytes.Equal(text, found[name]) {
			t.Errorf("%s is not what the code makes of it", name)
		}
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	again, err := WithList(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(again), string(page)); diff != "" {
		t.Errorf("docs/metrics.md (-code +file):\n%s", diff)
	}
}

// registered are the names of metrics in the code: each is written in full where it is registered.
func registered(t *testing.T) map[string]string {
	t.Helper()
	full := regexp.MustCompile(`^ovn_offload_[a-z0-9_]+$`)
	names := map[string]string{}
	for _, root := range []string{"../../pkg", "../../cmd"} {
		if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if text, err := strconv.Unquote(literal.Value); err == nil && full.MatchString(text) {
						names[text] = path
					}
				}
				return true
			})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// TestMetrics_AreThoseOfCode: the table names each metric that a process registers, and no other.
func TestMetrics_AreThoseOfCode(t *testing.T) {
	names := registered(t)
	for _, m := range Metrics() {
		if names[m.Name] == "" {
			t.Errorf("%s is in the table, and no code registers it", m.Name)
		}
		delete(names, m.Name)
		if (m.Kind == "counter") != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a %s", m.Name, m.Kind)
		}
	}
	for name, path := range names {
		t.Errorf("%s registers %s, which is not in the table", path, name)
	}
}

// expressions are all queries of boards, alerts and records, with their places.
func expressions() map[string][]string {
	out := map[string][]string{}
	for _, b := range Boards() {
		for _, row := range b.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					place := b.Title + ": " + row.Title + ": " + p.Title
					out[place] = append(out[place], q.Expr)
				}
			}
		}
	}
	for _, a := range Alerts() {
		out[a.Name] = append(out[a.Name], a.Expr)
	}
	for _, r := range Records() {
		out[r.Name] = append(out[r.Name], r.Expr)
	}
	return out
}

// unknown are the names of an expression that neither the table nor the records have.
func unknown(expr string) []string {
	return slices.DeleteFunc(Names(expr), func(name string) bool {
		return slices.ContainsFunc(Metrics(), func(m Metric) bool { return m.Name == name }) ||
			slices.ContainsFunc(Records(), func(r Record) bool { return r.Name == name })
	})
}

// TestQueries_UseTheTable: each metric of a query exists, and each metric is in a query.
func TestQueries_UseTheTable(t *testing.T) {
	used := map[string]bool{}
	for place, all := range expressions() {
		for _, expr := range all {
			for _, name := range unknown(expr) {
				t.Errorf("%s: there is no metric %s", place, name)
			}
			for _, name := range Names(expr) {
				used[name] = true
			}
		}
	}
	for _, m := range Metrics() {
		if used[m.Name] == (m.Unused != "") {
			t.Errorf("%s: used %v, and the reason for not using it is %q", m.Name, used[m.Name], m.Unused)
		}
	}
	for _, r := range Records() {
		if !used[r.Name] {
			t.Errorf("nothing uses %s", r.Name)
		}
	}
	if got := unknown(`rate(ovn_offload_datapath_packetz_total{place="x"}[5m]) / node:ovn_offload_nothing:ratio`); len(got) != 2 {
		t.Errorf("misspelt metrics: found %q", got)
	}
}

// TestAlerts_HaveRunbooks: the page exists, names the alert and is in the list of docs/monitoring.md.
func TestAlerts_HaveRunbooks(t *testing.T) {
	list, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Alerts() {
		page, err := os.ReadFile(filepath.Join("../../docs/failures", a.Page))
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(page), "`"+a.Name+"`") {
			t.Errorf("%s does not name %s", a.Page, a.Name)
		}
		line := regexp.MustCompile(`\b` + a.Name + `\b.*\(failures/` + regexp.QuoteMeta(a.Page) + `\)`)
		if !line.Match(list) {
			t.Errorf("docs/monitoring.md does not list %s with %s", a.Name, a.Page)
		}
		if a.Summary == "" || !strings.Contains(a.Do, "kubectl") || !slices.Contains([]string{"info", "warning", "critical"}, a.Severity) {
			t.Errorf("%s: summary %q, command %q, severity %q", a.Name, a.Summary, a.Do, a.Severity)
		}
	}
}

// TestBoards_CanBeImported: fixed names, no two panels in one place, and every variable of a query is there.
func TestBoards_CanBeImported(t *testing.T) {
	boards := map[string]bool{}
	for _, b := range Boards() {
		text, err := b.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			UID    string
			Panels []struct {
				ID      int
				Title   string
				GridPos struct{ X, Y, W, H int }
			}
			Templating struct{ List []struct{ Name string } }
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		if boards[board.UID] || !regexp.MustCompile(`^[a-z-]{1,40}$`).MatchString(board.UID) {
			t.Errorf("board %q: not a name of its own", board.UID)
		}
		boards[board.UID] = true
		places := map[string]string{}
		for _, p := range board.Panels {
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := fmt.Sprint(p.GridPos.X+x, " ", p.GridPos.Y+y)
					if places[at] != "" || p.GridPos.X+x >= 24 {
						t.Errorf("%s: %s and %s are both at %s", b.ID, p.Title, places[at], at)
					}
					places[at] = p.Title
				}
			}
		}
		var names []string
		for _, v := range board.Templating.List {
			names = append(names, v.Name)
		}
		for _, m := range regexp.MustCompile(`\$\{?([a-z_]+)`).FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(names, m[1]) && !slices.Contains([]string{"__rate_interval", "__all"}, m[1]) {
				t.Errorf("%s: no variable %s", b.ID, m[1])
			}
		}
	}
	if len(boards) != 5 {
		t.Errorf("%d boards", len(boards))
	}
}
