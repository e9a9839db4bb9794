package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPathMap_LongestPatternDecides(t *testing.T) {
	m, err := parsePathMap(`
# a comment
pkg/ovn/          services,policies
pkg/ovn/lb/       services   # the longest
pkg/ovn/chain*    networks
go.mod            all
docs/             none
test/e2e/s*_test.go services
`)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"networks", "policies", "services"}
	for file, want := range map[string][]string{
		"pkg/ovn/pod.go":            {"services", "policies"},
		"pkg/ovn/lb/lb.go":          {"services"},
		"pkg/ovn/chain.go":          {"networks"},
		"pkg/ovn/lb/lb_test.go":     nil, // unit tests
		"pkg/ovn/testdata/a.txtar":  nil,
		"test/e2e/service_test.go":  {"services"},
		"docs/testing.md":           nil,
		"go.mod":                    all,
		"pkg/new/unlisted.go":       all,
		"go.modx":                   all,
		"test/e2e/unlisted_test.go": all,
	} {
		got, known := m.of(file)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		if unknown := slices.Contains([]string{"pkg/new/unlisted.go", "go.modx", "test/e2e/unlisted_test.go"}, file); known == unknown {
			t.Errorf("%s: known %v", file, known)
		}
	}
}

func TestPathMap_BadLinesAreErrors(t *testing.T) {
	for _, text := range []string{"pkg/ovn/", "pkg/ovn/ services networks", "pkg/[ services"} {
		if _, err := parsePathMap(text); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}

// repository makes a git repository with files and gives its tree's hashes.
func repository(t *testing.T, files map[string]string) (dir string, hashes func() map[string]string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range files {
		write(t, dir, name, text)
	}
	m, err := parsePathMap(files[areasFile])
	if err != nil {
		t.Fatal(err)
	}
	return dir, func() map[string]string {
		t.Helper()
		files, err := readTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		return files.hashes(m)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestHashes_ChangeWithTheFilesOfTheirAreaOnly(t *testing.T) {
	dir, hashes := repository(t, map[string]string{
		areasFile: "a/ one\nb/ two\ndocs/ none\nshared all\ntest/areas.txt none\n", ".gitignore": "/_output/\n",
		"a/x.go": "x", "b/x.go": "x", "docs/x.md": "x", "shared": "x", "a/x_test.go": "x",
	})
	for _, tc := range []struct {
		name    string
		do      func()
		changed []string
	}{
		{"nothing", func() {}, nil},
		{"content", func() { write(t, dir, "a/x.go", "y") }, []string{"one"}},
		{"a new file", func() { write(t, dir, "b/new.go", "") }, []string{"two"}},
		{"a file with another name", func() { _ = os.Rename(filepath.Join(dir, "b/new.go"), filepath.Join(dir, "b/newer.go")) }, []string{"two"}},
		{"a file that is gone", func() { _ = os.Remove(filepath.Join(dir, "b/newer.go")) }, []string{"two"}},
		{"a program", func() { _ = os.Chmod(filepath.Join(dir, "a/x.go"), 0o755) }, []string{"one"}},
		{"a page", func() { write(t, dir, "docs/x.md", "y") }, nil},
		{"a unit test", func() { write(t, dir, "a/x_test.go", "y") }, nil},
		{"what git ignores", func() { write(t, dir, "_output/x", "y") }, nil},
		{"what everything needs", func() { write(t, dir, "shared", "y") }, []string{"one", "two"}},
		{"what no line has", func() { write(t, dir, "c/x.go", "y") }, []string{"one", "two"}},
	} {
		before := hashes()
		tc.do()
		var changed []string
		for area, hash := range hashes() {
			if hash != before[area] {
				changed = append(changed, area)
			}
		}
		slices.Sort(changed)
		if diff := cmp.Diff(tc.changed, changed); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestChoose_LeavesOutEqualHashesOnly(t *testing.T) {
	now := map[string]string{"a": "1", "b": "2", "c": "3"}
	changed := func(area, since string) string { return area + "/x.go" }
	for _, tc := range []struct {
		name string
		lock string
		want []string
	}{
		{"all are equal", "a 1 x\nb 2 x\nc 3 x\n", nil},
		{"one has another", "a 1 x\nb 9 x\nc 3 x\n", []string{"b"}},
		{"one is missing", "a 1 x\nc 3 x\n", []string{"b"}},
		{"the lock is empty", "", []string{"a", "b", "c"}},
		{"the lock cannot be read", "a 1 x\nb 2 x\nc 3\n", []string{"a", "b", "c"}},
	} {
		l, err := parseLock(tc.lock)
		c := choose(now, l, err, changed)
		if diff := cmp.Diff(tc.want, c.areas); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
		if len(c.said) != len(now) {
			t.Errorf("%s: %d lines for %d areas: %q", tc.name, len(c.said), len(now), c.said)
		}
	}
	if c := choose(now, nil, errors.New("no such file"), changed); len(c.areas) != 3 || !strings.Contains(c.said[0], "no such file") {
		t.Errorf("without a lock: %v", c)
	}
}

func TestRenew_KeepsOtherAreas(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, lockFile, "")
	m, _ := parsePathMap("a/ one\nb/ two\nc/ three")
	w := areaFiles{paths: m, hashes: map[string]string{"one": "1", "two": "2", "three": "3"}, last: lock{"two": {"old", "c0"}, "gone": {"x", "c0"}}}
	if err := renew(dir, w, []string{"one"}, "c1"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseLock(string(text))
	if diff := cmp.Diff(lock{"one": {"1", "c1"}, "two": {"old", "c0"}}, got, cmp.AllowUnexported(green{})); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}
