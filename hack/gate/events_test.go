package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// recorded runs the tests of a package, written here, and records their events.
func recorded(t *testing.T, source string, args ...string) (*recorder, string) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example\n")
	write(t, dir, "x_test.go", "package example\n\nimport \"testing\"\n\n"+source)
	cmd := exec.Command("go", append([]string{"test", "-json", "-vet=off"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	r := newRecorder(&printed)
	if err := r.read(labStep, out); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // tests fail
	return r, printed.String()
}

// outcomes are the tests of a recorder with what became of them.
func outcomes(r *recorder) map[string]string {
	got := map[string]string{}
	for _, test := range r.all() {
		got[test.Test] = test.Outcome
	}
	return got
}

func TestRecorder_KeepsTheOutputOfWhatFailed(t *testing.T) {
	r, printed := recorded(t, `
func TestFine(t *testing.T) { t.Log("fine text") }
func TestSkipped(t *testing.T) { t.Skip("reason") }
func TestBad(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("bad text") }) }
func TestParallel(t *testing.T) { t.Parallel() }
`)
	if diff := cmp.Diff(map[string]string{"TestFine": "pass", "TestSkipped": "skip", "TestBad": "fail", "TestParallel": "pass"}, outcomes(r)); diff != "" {
		t.Error(diff)
	}
	failed, packages := r.failed()
	if len(failed) != 1 || !strings.Contains(failed[0].Output, "bad text") || failed[0].hopeless() != "" || failed[0].Pressure == "" {
		t.Errorf("%+v", failed)
	}
	if len(packages) != 0 {
		t.Errorf("packages: %v", packages)
	}
	if !strings.Contains(printed, "bad text") || strings.Contains(printed, "fine text") {
		t.Errorf("printed: %s", printed)
	}
}

func TestRecorder_PanicIsThatOfTheTestThatRan(t *testing.T) {
	r, _ := recorded(t, `
func TestFine(t *testing.T) {}
func TestPanics(t *testing.T) { panic("here") }
func TestNeverRuns(t *testing.T) {}
`)
	if diff := cmp.Diff(map[string]string{"TestFine": "pass", "TestPanics": "fail"}, outcomes(r)); diff != "" {
		t.Error(diff)
	}
	failed, _ := r.failed()
	if len(failed) != 1 || failed[0].hopeless() != "a panic" {
		t.Errorf("%+v", failed)
	}
}

func TestRecorder_PackageFailsWithoutATest(t *testing.T) {
	for name, source := range map[string]string{
		"it does not compile":       "func TestX(t *testing.T) { undefined() }",
		"its TestMain ends with 1":  "func TestMain(m *testing.M) { panic(1) }\nfunc TestX(t *testing.T) {}",
		"its process ends in a way": "func TestX(t *testing.T) {}\nfunc TestMain(m *testing.M) { m.Run(); panic(1) }",
	} {
		r, printed := recorded(t, source)
		if _, packages := r.failed(); len(packages) != 1 {
			t.Errorf("%s: %v\n%s", name, packages, printed)
		}
	}
}

func TestResult_StrictIsNeverAFlake(t *testing.T) {
	for output, want := range map[string]string{
		"    x_test.go:1: bad": "",
		"    x_test.go:1: bad\n    tier.go:1: " + tier.StrictMark:  "the test is strict",
		"==================\nWARNING: DATA RACE\nRead at 0x00c000": "a data race",
		"panic: test timed out after 1m0s":                         "a panic",
		"fatal error: all goroutines are asleep - deadlock!":       "a fatal error",
	} {
		if got := (result{Output: output}).hopeless(); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}

func TestJudge_FewFailuresAreRunAgain(t *testing.T) {
	failed := func(outputs ...string) (list []result) {
		for _, output := range outputs {
			list = append(list, result{Step: labStep, Test: "TestX", Output: output})
		}
		return list
	}
	for _, tc := range []struct {
		name     string
		failed   []result
		packages []string
		steps    []step
		again    int
		red      string
	}{
		{"nothing failed", nil, nil, []step{{name: "unit"}}, 0, ""},
		{"three tests", failed("a", "b", "c"), nil, []step{{name: "e2e", err: errTests}}, 3, ""},
		{"four tests", failed("a", "b", "c", "d"), nil, []step{{name: "e2e", err: errTests}}, 0, "4 tests failed"},
		{"one of two is strict", failed("a", tier.StrictMark), nil, nil, 0, "strict"},
		{"a package", failed("a"), []string{"unit pkg/x"}, nil, 0, "pkg/x"},
		{"a step", nil, nil, []step{{name: "lint", err: errors.New("exit status 1")}}, 0, "lint"},
	} {
		again, red := judge(tc.failed, tc.packages, tc.steps)
		if len(again) != tc.again || (len(red) > 0) != (tc.red != "") || !strings.Contains(strings.Join(red, "\n"), tc.red) {
			t.Errorf("%s: %d again, red %q", tc.name, len(again), red)
		}
	}
}
