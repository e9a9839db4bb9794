package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const checkout = "../.."

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTests_BeginWithTheirArea: each test of the lab begins with world.Test, each of the bench with tier.In; the areas
// are those of areas.txt.
func TestTests_BeginWithTheirArea(t *testing.T) {
	m, err := parsePathMap(readFile(t, areasFile))
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for dir, begins := range map[string]string{labDir: "world.Test", benchDir: "tier.In"} {
		files, err := filepath.Glob(filepath.Join(checkout, dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				test, ok := decl.(*ast.FuncDecl)
				if !ok || !strings.HasPrefix(test.Name.Name, "Test") || test.Name.Name == "TestMain" || strings.HasPrefix(test.Name.Name, "TestInside") {
					continue
				}
				areas := begin(test, begins)
				if len(areas) == 0 {
					t.Errorf("%s: %s does not begin with %s and an area", name, test.Name.Name, begins)
				}
				used = append(used, areas...)
			}
		}
	}
	slices.Sort(used)
	for _, area := range slices.Compact(used) {
		if !slices.Contains(m.areas, area) {
			t.Errorf("%s lacks area %s", areasFile, area)
		}
	}
	for _, area := range m.areas {
		if !slices.Contains(used, area) {
			t.Errorf("area %s of %s has no test", area, areasFile)
		}
	}
}

// begin gives the areas that a test's first statement names, in lower case, without core and marks.
func begin(test *ast.FuncDecl, begins string) (areas []string) {
	if len(test.Body.List) == 0 {
		return nil
	}
	statement, ok := test.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return nil
	}
	call, ok := statement.X.(*ast.CallExpr)
	if !ok || selector(call.Fun) != begins {
		return nil
	}
	for _, arg := range call.Args[1:] {
		name := strings.TrimPrefix(selector(arg), "world.")
		if literal, ok := arg.(*ast.BasicLit); ok {
			name, _ = strconv.Unquote(literal.Value)
		}
		if !slices.Contains([]string{"", "Core", "tier.Core", "Beside", "Disruptive", "Alone", "Strict"}, name) {
			areas = append(areas, strings.ToLower(name))
		}
	}
	return areas
}

// selector is x.y of an expression of that form; "" for others.
func selector(expr ast.Expr) string {
	s, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}

// TestAreas_EachLineIsOfAPath: a line of areas.txt whose path is gone is removed.
func TestAreas_EachLineIsOfAPath(t *testing.T) {
	m, err := parsePathMap(readFile(t, areasFile))
	if err != nil {
		t.Fatal(err)
	}
	files, err := readTree(checkout)
	if err != nil {
		t.Skip("not a checkout of git: ", err)
	}
	for _, row := range m.rows {
		if row.pattern != lockFile && !slices.ContainsFunc(sortedKeys(files), row.matches) {
			t.Errorf("%s has %s, of which there is no file", areasFile, row.pattern)
		}
	}
}

// TestLabTests_KeepTheirBudget: a test of the lab takes 20 s at most in the committed table. slow.txt lists those that
// take longer, with their seconds, which only fall.
func TestLabTests_KeepTheirBudget(t *testing.T) {
	slow := parseSlow(t, readFile(t, slowFile))
	took := slowTests(readFile(t, figures))
	if len(took) == 0 {
		t.Fatalf("%s has no table of tests of the lab", figures)
	}
	for test, seconds := range took {
		if seconds > max(slow[test], int(budget.Seconds())) {
			t.Errorf("%s took %d s in the table of %s, at most %d", test, seconds, figures, max(slow[test], int(budget.Seconds())))
		}
	}
	for test := range slow {
		if took[test] <= int(budget.Seconds()) {
			t.Errorf("%s has %s, which took %d s in the table of %s: remove the line", slowFile, test, took[test], figures)
		}
	}
	before, err := exec.Command("git", "-C", checkout, "show", "HEAD:"+slowFile).Output()
	if err != nil {
		return // the first version, or no checkout of git
	}
	was := parseSlow(t, string(before))
	for test, seconds := range slow {
		if old, known := was[test]; known && seconds > old {
			t.Errorf("%s: %s has %d s, %d before: seconds only fall", slowFile, test, seconds, old)
		}
	}
}

const slowFile = "test/slow.txt"

func parseSlow(t *testing.T, text string) map[string]int {
	t.Helper()
	rows, err := parseRows(slowFile, text, "test", "seconds")
	if err != nil {
		t.Fatal(err)
	}
	slow := map[string]int{}
	for _, fields := range rows {
		seconds, err := strconv.Atoi(fields[1])
		if err != nil || seconds <= 0 {
			t.Fatalf("%s: want seconds for %s: %q", slowFile, fields[0], fields[1])
		}
		slow[fields[0]] = seconds
	}
	return slow
}

// TestFlakes_AreMendedSoon: at most five tests are listed, each with its cause, and none for more than 40 commits.
func TestFlakes_AreMendedSoon(t *testing.T) {
	listed, err := parseFlakes(readFile(t, flakesFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(listed) > mostFlakes {
		t.Errorf("%d tests are listed in %s, at most %d", len(listed), flakesFile, mostFlakes)
	}
	for _, f := range listed {
		out, err := exec.Command("git", "-C", checkout, "rev-list", "--count", f.commit+"..HEAD").Output()
		if err != nil {
			t.Errorf("%s: commit %s of %s: %v", flakesFile, f.commit, f.test, err)
			continue
		}
		if since, _ := strconv.Atoi(strings.TrimSpace(string(out))); since > flakeCommits {
			t.Errorf("%s: %s is listed for %d commits, at most %d: mend it", flakesFile, f.test, since, flakeCommits)
		}
	}
}

func TestParseFlakes_WantsACause(t *testing.T) {
	if list, err := parseFlakes("# head\nTestA abc a reason of words\n"); err != nil || len(list) != 1 || list[0] != (flake{"TestA", "abc", "a reason of words"}) {
		t.Errorf("%v %v", list, err)
	}
	for _, text := range []string{"TestA abc", "TestA", "TestA abc  "} {
		if _, err := parseFlakes(text); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}

func TestSlowTests_AreThoseOfTheLab(t *testing.T) {
	got := slowTests("| Test | Step | Duration |\n|---|---|---|\n| `TestA` | e2e | 31 s |\n| `TestB` | bench | 99 s |\ntext\n")
	if len(got) != 1 || got["TestA"] != 31 {
		t.Errorf("%v", got)
	}
}

// TestTests_DrawFromTheGatesSeed: what a test has at random comes from tier.Seed, so that the gate fails for a change and
// not for a draw; and no test of the lab makes its subtests wait behind other tests (atOnce runs them in their test's turn).
func TestTests_DrawFromTheGatesSeed(t *testing.T) {
	files, err := readTree(checkout)
	if err != nil {
		t.Skip("not a checkout of git: ", err)
	}
	unseeded := regexp.MustCompile(`rand\.(Uint64|Uint32|Int64|IntN|N|Perm|Shuffle|Float64)\(|seed\b.*time\.Now|NewPCG\(.*time\.Now`)
	parallel := regexp.MustCompile(`\bt\.Parallel\(\)`)
	for _, name := range sortedKeys(files) {
		if !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "hack/gate/") {
			continue
		}
		text := readFile(t, name)
		if found := unseeded.FindString(text); found != "" {
			t.Errorf("%s has %q: draw from tier.Seed", name, found)
		}
		if strings.HasPrefix(name, labDir) && parallel.MatchString(text) {
			t.Errorf("%s has t.Parallel: world.Test calls it for tests, atOnce serves for subtests", name)
		}
	}
}
