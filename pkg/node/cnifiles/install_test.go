package cnifiles

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

func TestInstallPlugin_ReplacesOnlyChangedPlugin(t *testing.T) {
	dir := t.TempDir()
	plugin := filepath.Join(dir, "plugin")
	nodetest.Must(t, os.WriteFile(plugin, []byte("one"), 0o600))
	bin := filepath.Join(dir, "bin")
	for range 2 {
		nodetest.Must(t, InstallPlugin(plugin, bin))
	}
	first, err := os.Stat(filepath.Join(bin, PluginName))
	nodetest.Must(t, err)
	if first.Mode() != 0o755 {
		t.Errorf("mode %s", first.Mode())
	}
	nodetest.Must(t, InstallPlugin(plugin, bin))
	if second, err := os.Stat(filepath.Join(bin, PluginName)); err != nil || !os.SameFile(first, second) {
		t.Errorf("an equal plugin was replaced: %v", err)
	}
	nodetest.Must(t, os.WriteFile(plugin, []byte("two"), 0o600))
	nodetest.Must(t, InstallPlugin(plugin, bin))
	if content, err := os.ReadFile(filepath.Join(bin, PluginName)); string(content) != "two" {
		t.Errorf("plugin %q, %v", content, err)
	}
	if entries, err := os.ReadDir(bin); err != nil || len(entries) != 1 {
		t.Errorf("%s holds %v, %v", bin, entries, err)
	}
}
