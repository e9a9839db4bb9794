package unmanaged

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInstall_WritesFilesAndRemoveLeavesOthers(t *testing.T) {
	run := t.TempDir()
	theirs := filepath.Join(run, "systemd/network/10-netplan-eth0.network")
	if err := os.MkdirAll(filepath.Dir(theirs), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(theirs, []byte("[Match]\nName=eth0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Install(t.Context(), run, []string{"breth0"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		networkd: "Name=br-int ovn-k8s-mp0 ovs-system ovs-netdev genev_sys_* breth0\n",
		manager:  "interface-name:genev_sys_*;interface-name:breth0\n",
		rules:    `ENV{OVN_OFFLOAD}="1"`, functions: "Property=OVN_OFFLOAD=1",
	} {
		if text, err := os.ReadFile(filepath.Join(run, path)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q, %v; want %q", path, text, err, want)
		}
	}
	if filepath.Base(networkd) > filepath.Base(theirs) {
		t.Errorf("systemd-networkd uses %s before %s", filepath.Base(theirs), filepath.Base(networkd))
	}
	for range 2 {
		if err := Remove(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	if err := filepath.WalkDir(run, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			left = append(left, path)
		}
		return err
	}); err != nil || len(left) != 1 || left[0] != theirs {
		t.Errorf("left: %v, %v", left, err)
	}
}
