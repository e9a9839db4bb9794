package build

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCache_FillsEachKeyOnce(t *testing.T) {
	c := &Cache{Dir: t.TempDir()}
	fails := func(_ context.Context, path string) error {
		write(t, path, "half")
		return errors.New("interrupted")
	}
	if _, err := c.once(t.Context(), "thing", "key", fails); err == nil {
		t.Fatal("want the error of fill")
	}
	made := 0
	fill := func(_ context.Context, path string) error {
		made++
		write(t, path, "whole")
		return nil
	}
	for range 2 {
		path, err := c.once(t.Context(), "thing", "key", fill)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != "whole" {
			t.Errorf("%s holds %q, %v", path, data, err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times, want once", made)
	}
}

func TestCache_RecentKeepsTwoNewest(t *testing.T) {
	c := &Cache{Dir: t.TempDir()}
	var paths []string
	for i, key := range []string{"a", "b", "c"} {
		path, err := c.Recent(t.Context(), "thing", key, func(_ context.Context, path string) error {
			write(t, path, key)
			when := time.Unix(int64(i), 0)
			return os.Chtimes(path, when, when)
		})
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	left, err := filepath.Glob(filepath.Join(c.Dir, "thing-*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(left)
	want := slices.Sorted(slices.Values(paths[1:]))
	if diff := cmp.Diff(want, left); diff != "" {
		t.Error(diff)
	}
}

func TestKubernetesVersion_IsThatOfGoMod(t *testing.T) {
	got, err := kubernetesVersion("../kubernetes/go.mod")
	if err != nil || got == "" || got[0] != 'v' {
		t.Errorf("version %q, %v", got, err)
	}
	if got, err := kubernetesVersion(write(t, filepath.Join(t.TempDir(), "go.mod"), "module x\n")); err == nil {
		t.Errorf("version %q of a module that does not require Kubernetes", got)
	}
}

func TestPauseArchive_HoldsOneImageWithItsFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pause"), "program")
	out := filepath.Join(dir, "pause.tar")
	c := &Cache{}
	if err := c.Pause(dir, out); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	contents := map[string][]byte{}
	r := tar.NewReader(file)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if contents[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(contents["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 {
		t.Fatalf("%d images in the archive, want one", len(manifest))
	}
	if diff := cmp.Diff([]string{PauseImage}, manifest[0].RepoTags); diff != "" {
		t.Error(diff)
	}
	for _, name := range append(manifest[0].Layers, manifest[0].Config) {
		if len(contents[name]) == 0 {
			t.Errorf("the manifest names %s, which is not there", name)
		}
	}
}

func TestFingerprint_FollowsContentOfImage(t *testing.T) {
	dir := t.TempDir()
	c := &Cache{}
	var prints []string
	for _, program := range []string{"one", "one", "two"} {
		write(t, filepath.Join(dir, "pause"), program)
		out := filepath.Join(dir, "pause.tar")
		if err := c.Pause(dir, out); err != nil {
			t.Fatal(err)
		}
		print, err := Fingerprint(out)
		if err != nil {
			t.Fatal(err)
		}
		prints = append(prints, print)
	}
	if prints[0] != prints[1] || prints[1] == prints[2] {
		t.Errorf("fingerprints %v of contents one, one, two", prints)
	}
	if _, err := Fingerprint(write(t, filepath.Join(dir, "text"), "no tar file")); err == nil {
		t.Error("a text file has a fingerprint")
	}
}

// Whoever gives up a build has its compilers gone, too.
func TestCache_CancelEndsCommandAndChildren(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := t.TempDir()
	c := &Cache{Repo: dir}
	ended := make(chan error, 1)
	go func() {
		ended <- c.run(ctx, "sh", "-c", "sleep 300 >sleeps 2>&1 & echo $! >id.new; mv id.new id; wait")
	}()
	var id []byte
	for deadline := time.Now().Add(time.Minute); len(id) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the command has not begun")
		}
		id, _ = os.ReadFile(filepath.Join(dir, "id"))
	}
	lives := func() bool { // a zombie has no arguments
		arguments, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(id)), "cmdline"))
		return err == nil && len(arguments) > 0
	}
	if !lives() {
		t.Fatal("the grandchild does not live, this shows nothing")
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("want an error")
	}
	for deadline := time.Now().Add(time.Minute); lives(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("grandchild %s lives on", id)
		}
	}
}

// Packages that the product, Kubernetes and CoreDNS share are compiled once, if their versions are the same.
func TestModules_HaveTheSameVersions(t *testing.T) {
	versions := map[string]map[string]string{} // by module, then by go.mod
	for _, gomod := range []string{"../../../go.mod", "../kubernetes/go.mod", "../coredns/go.mod"} {
		data, err := os.ReadFile(gomod)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(strings.TrimPrefix(line, "require "))
			if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") || !strings.Contains(fields[0], ".") {
				continue
			}
			if versions[fields[0]] == nil {
				versions[fields[0]] = map[string]string{}
			}
			versions[fields[0]][gomod] = fields[1]
		}
	}
	if len(versions["k8s.io/client-go"]) != 3 {
		t.Errorf("k8s.io/client-go is required with %v, want it in three modules", versions["k8s.io/client-go"])
	}
	for module, by := range versions {
		if len(slices.Compact(slices.Sorted(maps.Values(by)))) > 1 {
			t.Errorf("%s has several versions: %v", module, by)
		}
	}
}

func TestGoFlags_AreTheMakefiles(t *testing.T) {
	data, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if line := "export GOFLAGS := $(GOFLAGS) " + goFlags + "\n"; !strings.Contains(string(data), line) {
		t.Errorf("the Makefile has no line %q", line)
	}
}

// TestPlatform_HasItsPartsOfKernel: what another platform has in the cache is apart, so that neither prunes the other's.
func TestPlatform_HasItsPartsOfKernel(t *testing.T) {
	for p, want := range map[Platform]string{
		DefaultPlatform(): " amd64", {"arm64", 4}: "arm64-4k- arm64 4k", {"arm64", 64}: "arm64-64k- arm64 64k", {"amd64", 64}: "refused", {"riscv64", 4}: "refused",
	} {
		got := "refused"
		if p.Check() == nil {
			got = p.prefix() + " " + strings.Join(p.configs(), " ")
			for _, part := range p.configs() {
				if _, err := os.Stat("../../../test/bench/kernel/config." + part); err != nil {
					t.Error(err)
				}
			}
		}
		if got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
