package product

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestRepository_IsOfChart(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "deploy", "chart", "values.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("image: {repository: registry.example.com/net, tag: v1}\n")
	if repository, err := Repository(root); err != nil || repository != "registry.example.com/net" {
		t.Errorf("repository %q: %v", repository, err)
	}
	write("image: {tag: v1}\n")
	if repository, err := Repository(root); err == nil {
		t.Errorf("values without a repository give %q", repository)
	}
}

func TestUnpack_HasBothLayers(t *testing.T) {
	work := t.TempDir()
	layer := func(file, name string) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(work, file)
		if out, err := exec.Command("tar", "-C", dir, "-cf", path, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return path
	}
	built := Built{Base: layer("base.tar", "os-release")}
	layer("programs.tar", "agent")
	root := filepath.Join(work, "root")
	if err := Unpack(t.Context(), work, built, root); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"os-release", "agent"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	if err := Unpack(t.Context(), work, built, root); err == nil {
		t.Error("unpacked into a directory that was there")
	}
	if err := Unpack(t.Context(), work, Built{Base: filepath.Join(work, "absent")}, filepath.Join(work, "other")); err == nil {
		t.Error("unpacked a layer that is absent")
	}
}
