package product

import (
	"os"
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
