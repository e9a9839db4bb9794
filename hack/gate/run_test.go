package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testGate is a gate for a module with tests of its own.
func testGate(t *testing.T, source string) (*gate, *strings.Builder) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example\n")
	write(t, dir, "x_test.go", "package example\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Stat\n\n"+source)
	write(t, dir, flakesFile, "# head\n")
	write(t, dir, resultDir+"/x", "")
	out := &strings.Builder{}
	return &gate{cfg: config{root: dir}, out: out, record: newRecorder(out), started: time.Now()}, out
}

// unitOnly runs the module's tests as the gate's unit tests and gives the verdict.
func (g *gate) unitOnly(t *testing.T) verdict {
	t.Helper()
	g.run(t.Context(), unitStep, g.unit)
	return g.confirm(t.Context())
}

const failsFirst = `
func TestFlaky(t *testing.T) {
	if _, err := os.Stat("seen"); err != nil {
		os.WriteFile("seen", nil, 0o644)
		t.Fatal("the first time")
	}
}
`

func TestConfirm_PassingAloneIsAFlake(t *testing.T) {
	g, out := testGate(t, failsFirst)
	v := g.unitOnly(t)
	if len(v.red) != 0 || len(v.flakes) != 1 || v.flakes[0].Test != "TestFlaky" {
		t.Fatalf("%+v\n%s", v, out)
	}
	if err := g.listFlakes(v.flakes, "abc"); err != nil {
		t.Fatal(err)
	}
	if err := g.listFlakes(v.flakes, "def"); err != nil { // it is listed once
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(g.cfg.root, flakesFile))
	if err != nil {
		t.Fatal(err)
	}
	if listed, err := parseFlakes(string(text)); err != nil || len(listed) != 1 || listed[0].test != "TestFlaky" || listed[0].commit != "abc" {
		t.Errorf("%v %v", listed, err)
	}
	g.say(v, "")
	for _, want := range []string{"FLAKE TestFlaky", "pressure: ", "the first time", "\n1 passed, 0 failed, 0 skipped\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
}

func TestConfirm_FailingAloneIsRed(t *testing.T) {
	for name, source := range map[string]string{
		"it fails always": `func TestBad(t *testing.T) { t.Error("always") }`,
		"it fails in one of three": `
func TestBad(t *testing.T) {
	entries, _ := os.ReadDir("runs")
	os.MkdirAll("runs/x"+string(rune('a'+len(entries))), 0o755)
	if len(entries) == 0 || len(entries) == 2 {
		t.Error("now and then")
	}
}`,
	} {
		g, out := testGate(t, source)
		if v := g.unitOnly(t); len(v.red) != 1 || !strings.Contains(v.red[0], "TestBad") || len(v.flakes) != 0 {
			t.Errorf("%s: %+v\n%s", name, v, out)
		}
	}
}

func TestConfirm_PanicIsNotRunAgain(t *testing.T) {
	g, out := testGate(t, strings.Replace(failsFirst, `t.Fatal("the first time")`, `panic("the first time")`, 1))
	if v := g.unitOnly(t); len(v.red) != 1 || !strings.Contains(v.red[0], "never a flake") || len(g.steps) != 1 {
		t.Errorf("%+v, %d steps\n%s", v, len(g.steps), out)
	}
}

func TestListFlakes_MoreThanFiveAreAnError(t *testing.T) {
	g, _ := testGate(t, "")
	var found []result
	for _, name := range []string{"TestA", "TestB", "TestC", "TestD", "TestE"} {
		found = append(found, result{Test: name})
	}
	if err := g.listFlakes(found, "abc"); err != nil {
		t.Error(err)
	}
	if err := g.listFlakes([]result{{Test: "TestF"}}, "abc"); err == nil {
		t.Error("a sixth passes")
	}
}

func TestFigures_ReplaceTheTables(t *testing.T) {
	g, _ := testGate(t, "")
	g.steps = []step{{name: "unit", took: 61 * time.Second, cpu: 100 * time.Second}}
	g.record.results["x"] = &result{Step: labStep, Test: "TestSlow", Outcome: "pass", Took: 31 * time.Second}
	g.record.results["y"] = &result{Step: labStep, Test: "TestSkipped", Outcome: "skip"}
	write(t, g.cfg.root, resultFile, g.table(50*time.Second))
	write(t, g.cfg.root, figures, "before\n"+figuresBegin+"old\n"+figuresEnd+"after\n")
	for range 2 { // once more changes nothing
		if err := putFigures(g.cfg.root); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(g.cfg.root, figures))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if !strings.HasPrefix(page, "before\n") || !strings.HasSuffix(page, "after\n") || strings.Contains(page, "old") {
		t.Errorf("%s", page)
	}
	if !strings.Contains(page, "| unit | 1 min 01 s | 1 min 40 s |") || !strings.Contains(page, "of these the lab 50 s") {
		t.Errorf("%s", page)
	}
	if slow := slowTests(page); len(slow) != 1 || slow["TestSlow"] != 31 {
		t.Errorf("%v in %s", slow, page)
	}
	write(t, g.cfg.root, figures, "no marks")
	if err := putFigures(g.cfg.root); err == nil {
		t.Error("a page without marks passes")
	}
}

func TestBeside_StandsStillWhileFrozen(t *testing.T) {
	g, _ := testGate(t, "")
	write(t, g.cfg.root, "hack/idle", readFile(t, "hack/idle"))
	if err := os.Chmod(filepath.Join(g.cfg.root, "hack/idle"), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := g.startBeside(t.Context(), "while sleep 0.02; do echo x >>ticks; done")
	if err != nil {
		t.Fatal(err)
	}
	ticks := func() int {
		text, _ := os.ReadFile(filepath.Join(g.cfg.root, "ticks"))
		return len(text)
	}
	grows := func(from int) bool {
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if ticks() > from {
				return true
			}
		}
		return false
	}
	if !grows(0) {
		t.Fatal("it does not run")
	}
	b.freeze()
	time.Sleep(200 * time.Millisecond) // what was under way
	before := ticks()
	time.Sleep(500 * time.Millisecond)
	if after := ticks(); after != before {
		t.Errorf("%d lines were written while it was frozen", after-before)
	}
	b.thaw()
	if !grows(before) {
		t.Error("it does not go on")
	}
	_ = b.cmd.Cancel()
	if _, err := b.wait(); err == nil {
		t.Error("its end is no error")
	}
}
