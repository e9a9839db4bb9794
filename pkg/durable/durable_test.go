package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFile_ReplacesWholeFileOrNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state")
	for _, content := range []string{"long content", "new"} {
		if err := WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(file)
		if stat, errStat := os.Stat(file); err != nil || errStat != nil || string(raw) != content || stat.Mode() != 0o600 {
			t.Errorf("%q, %v, %v, %v", raw, stat, err, errStat)
		}
	}
	// A failure leaves what was there, and nothing beside it.
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "directory"), nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if err := WriteFile(filepath.Join(dir, "absent", "state"), nil, 0o600); err == nil {
		t.Error("written into no directory")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestSaveAndLoad_CheckpointInNewDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "checkpoint.json")
	var got map[string]int
	if found, err := Load(path, &got); found || err != nil {
		t.Errorf("no checkpoint: %t, %v", found, err)
	}
	if err := Save(path, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if found, err := Load(path, &got); !found || err != nil || got["a"] != 1 {
		t.Errorf("%t, %v, %v", found, err, got)
	}
	if err := os.WriteFile(path, []byte(`{"a"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := Load(path, &got); found || err == nil {
		t.Errorf("a damaged checkpoint: %t, %v", found, err)
	}
}
