package cnifiles

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstall_ReplacesOnlyChangedPlugin(t *testing.T) {
	dir := t.TempDir()
	plugin := filepath.Join(dir, "plugin")
	must(t, os.WriteFile(plugin, []byte("one"), 0o600))
	bin, conf := filepath.Join(dir, "bin"), filepath.Join(dir, "conf")
	for range 2 {
		must(t, InstallPlugin(plugin, bin))
		must(t, WriteConf(conf))
	}
	first, err := os.Stat(filepath.Join(bin, PluginName))
	must(t, err)
	if first.Mode() != 0o755 {
		t.Errorf("mode %s", first.Mode())
	}
	must(t, InstallPlugin(plugin, bin))
	if second, err := os.Stat(filepath.Join(bin, PluginName)); err != nil || !os.SameFile(first, second) {
		t.Errorf("an equal plugin was replaced: %v", err)
	}
	must(t, os.WriteFile(plugin, []byte("two"), 0o600))
	must(t, InstallPlugin(plugin, bin))
	if content, err := os.ReadFile(filepath.Join(bin, PluginName)); string(content) != "two" {
		t.Errorf("plugin %q, %v", content, err)
	}
	for _, d := range []string{bin, conf} {
		if entries, err := os.ReadDir(d); err != nil || len(entries) != 1 {
			t.Errorf("%s holds %v, %v", d, entries, err)
		}
	}
	must(t, RemoveConf(conf))
	must(t, RemoveConf(conf))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
