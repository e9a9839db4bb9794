package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The command reads the given tree and needs no cluster.
func TestInventoryCommand_ReadsGivenTreeWithoutCluster(t *testing.T) {
	nic := t.TempDir()
	for _, dir := range []string{"/devices/pci0000:00/0000:00:1f.6", "/bus/pci/devices"} {
		if err := os.MkdirAll(nic+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(nic+"/devices/pci0000:00/0000:00:1f.6/class", []byte("0x020000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../devices/pci0000:00/0000:00:1f.6", nic+"/bus/pci/devices/0000:00:1f.6"); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"inventory --sysfs " + nic:                     "0000:00:1f.6",
		"inventory -o json --sysfs " + nic:             `"pci": "0000:00:1f.6"`,
		"inventory --sysfs " + t.TempDir():             "no network devices",
		"inventory --output json --sysfs /nonexistent": `"pfs": []`,
	} {
		cmd := command()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(strings.Fields(args))
		if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, without %q:\n%s", args, err, want, &out)
		}
	}
	for _, verb := range []string{"inventory", "offload"} {
		cmd := command()
		cmd.SetArgs([]string{verb, "-o", "xml"})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--output=xml") {
			t.Errorf("%s: an output that there is not: %v", verb, err)
		}
	}
}
