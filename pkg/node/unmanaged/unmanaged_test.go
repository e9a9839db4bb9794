package unmanaged

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sysfsOf is a tree with netdevs, of which some have a name of their port.
func sysfsOf(t *testing.T, ports map[string]string) string {
	t.Helper()
	sys := t.TempDir()
	for name, port := range ports {
		dir := filepath.Join(sys, "class/net", name)
		if err := os.MkdirAll(filepath.Join(dir, "device"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"uevent": "", "phys_port_name": port + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sys
}

// announced are the netdevs with a further uevent.
func announced(t *testing.T, sys string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(sys, "class/net/*/uevent"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && string(text) == "change" {
			names = append(names, filepath.Base(filepath.Dir(file)))
		}
	}
	return names
}

func TestInstall_WritesFilesAndRemoveLeavesOthers(t *testing.T) {
	run := t.TempDir()
	theirs := filepath.Join(run, "systemd/network/10-netplan-eth0.network")
	if err := os.MkdirAll(filepath.Dir(theirs), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(theirs, []byte("[Match]\nName=eth0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sys := sysfsOf(t, map[string]string{"eth0": "p0", "eth1": "", "rep0": "pf0vf0", "sf0": "c1pf0sf88", "vf0": ""})
	if err := os.Mkdir(filepath.Join(sys, "class/net/vf0/device/physfn"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Install(t.Context(), run, sys, []string{"breth0"}); err != nil {
		t.Fatal(err)
	}
	if got := announced(t, sys); !slices.Equal(got, []string{"rep0", "sf0", "vf0"}) {
		t.Errorf("uevents of %q", got)
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
