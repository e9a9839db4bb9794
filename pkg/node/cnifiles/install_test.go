package cnifiles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

func TestInstall_ReplacesOnlyChangedPlugin(t *testing.T) {
	dir := t.TempDir()
	plugin := filepath.Join(dir, "plugin")
	nodetest.Must(t, os.WriteFile(plugin, []byte("one"), 0o600))
	bin, conf := filepath.Join(dir, "bin"), filepath.Join(dir, "conf")
	for range 2 {
		nodetest.Must(t, InstallPlugin(plugin, bin))
		nodetest.Must(t, WriteConf(conf))
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
	for _, d := range []string{bin, conf} {
		if entries, err := os.ReadDir(d); err != nil || len(entries) != 1 {
			t.Errorf("%s holds %v, %v", d, entries, err)
		}
	}
	nodetest.Must(t, RemoveConf(conf))
	nodetest.Must(t, RemoveConf(conf))
}

func TestCheckFirst_NamesFileOfOtherNetwork(t *testing.T) {
	dir := t.TempDir()
	nodetest.Must(t, WriteConf(dir))
	for _, name := range []string{"00-readme.txt", "05-calico.conf.bak", "20-flannel.conflist"} {
		nodetest.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for name, conf := range map[string]string{
		"00-multus.conf": `{"cniVersion":"1.0.0","name":"multus-cni-network","type":"multus-shim"}`, "01-multus.conflist": `{"plugins":[{"type":"multus"}]}`,
	} {
		nodetest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(conf), 0o600))
	}
	nodetest.Must(t, CheckFirst(dir))
	if others, err := Others(dir); err != nil || !slices.Equal(others, []string{"20-flannel.conflist"}) {
		t.Errorf("other networks: %q, %v", others, err)
	}
	nodetest.Must(t, os.WriteFile(filepath.Join(dir, "10-calico.conflist"), nil, 0o600))
	if err := CheckFirst(dir); err == nil || !strings.Contains(err.Error(), "10-calico.conflist, which comes before 10-ovn-kubernetes.conf") {
		t.Errorf("with a configuration of Calico: %v", err)
	}
}
