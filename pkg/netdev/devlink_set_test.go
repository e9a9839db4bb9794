package netdev_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

func TestSetVFs_WritesNumberToSysfs(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "bus/pci/devices/0000:03:00.0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "sriov_numvfs")
	if err := netdev.SetVFs(root, "0000:03:00.0", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without SR-IOV: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("an attribute was made")
	}
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := netdev.SetVFs(root, "0000:03:00.0", 8); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "8" {
		t.Errorf("%q, %v", raw, err)
	}
}
