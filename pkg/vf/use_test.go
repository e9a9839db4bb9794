package vf

import (
	"io/fs"
	"net/netip"
	"testing"
	"testing/fstest"
)

// TestNode_UseIsAsNowNotAsInInventory asks about a VF that has changed since.
func TestNode_UseIsAsNowNotAsInInventory(t *testing.T) {
	w := load(t, "testdata/vfs-of-the-node.txtar")
	n := node(t, w)
	inv := read(t, n)
	for _, v := range inv.PFs[0].VFs {
		if got, err := n.Use(v.Name); err != nil || got != v.Use() {
			t.Errorf("VF %d: %q, %v, and in the inventory %q", v.Index, got, err, v.Use())
		}
	}
	const idle = "0000:03:00.7"
	if got, err := n.Use(idle); err != nil || got != "" {
		t.Errorf("an idle VF: %q, %v", got, err)
	}
	w.IPs["ens1f0v5"] = []netip.Prefix{netip.MustParsePrefix("10.1.2.4/24")}
	if got, err := n.Use(idle); err != nil || got != "ens1f0v5 has address 10.1.2.4/24" {
		t.Errorf("with an address: %q, %v", got, err)
	}
	w.Tree["devices/pci0000:00/0000:03:00.7/net/ens1f0v5/upper_v5.9"] = &fstest.MapFile{Data: []byte("../v5.9"), Mode: fs.ModeSymlink}
	if got, err := n.Use(idle); err != nil || got != "ens1f0v5 carries v5.9" {
		t.Errorf("with a VLAN: %q, %v", got, err)
	}
	if got, err := n.Use("0000:99:00.1"); err != nil || got != "" {
		t.Errorf("a VF that is not there: %q, %v", got, err)
	}
}
