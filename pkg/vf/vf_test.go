package vf

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
)

// TestMain gives ghw a database of the few names that the archives have.
func TestMain(m *testing.M) {
	if err := os.Setenv("PCIDB_PATH", "testdata/pci.ids"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

var update = flag.Bool("update", false, "write the expected outputs again")

func load(t testing.TB, file string) *vftest.World {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w, err := vftest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func node(t testing.TB, w *vftest.World) *Node {
	t.Helper()
	return &Node{Sysfs: w.Sysfs(), Kernel: w.Kernel, Links: w, Events: w.Kernel, Names: NewNames(netdev.PCINames)}
}

func read(t testing.TB, n *Node) Inventory {
	t.Helper()
	inv, err := n.Read()
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// Each archive is a node; beside it are the inventory as JSON and as a table.
func TestInventory_OfEachArchive(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no archives", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			inv := read(t, node(t, load(t, file)))
			text, err := json.MarshalIndent(inv, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/"+name+".json", append(text, '\n'))
			var back Inventory
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			again, err := json.MarshalIndent(back, "", "  ")
			if diff := cmp.Diff(string(text), string(again)); diff != "" || err != nil {
				t.Errorf("read and written again, %v:\n%s", err, diff)
			}
			var table bytes.Buffer
			if err := WriteTable(&table, inv); err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/"+name+".table", table.Bytes())
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestHandle_NamesPFAsDPUKnowsIt: by the PF's own address, whatever a bond has put over it, and
// by its number as the eswitch counts, or else as PCI does.
func TestHandle_NamesPFAsDPUKnowsIt(t *testing.T) {
	seven := uint32(7)
	second, err := ParsePCIAddress("0000:03:00.1")
	if err != nil {
		t.Fatal(err)
	}
	inv := Inventory{PFs: []PF{
		{
			Ports: []Netdev{{MAC: MAC{2, 0, 0, 0, 0, 9}, PermanentMAC: MAC{0x5c, 0, 0, 0, 0, 1}}},
			VFs:   []VF{{Device: Device{Name: "0000:03:00.2"}}},
		},
		{
			Device: Device{PCI: second},
			Ports:  []Netdev{{MAC: MAC{2, 0, 0, 0, 0, 9}, PermanentMAC: MAC{0x5c, 0, 0, 0, 0, 2}}},
			VFs:    []VF{{Device: Device{Name: "0000:04:00.2"}, Index: 3}},
		},
		{
			Device: Device{PCI: second}, Number: &seven,
			Ports: []Netdev{{MAC: MAC{2, 0, 0, 0, 0, 9}}},
			VFs:   []VF{{Device: Device{Name: "0000:05:00.2"}}},
		},
	}}
	for device, want := range map[string]string{
		"0000:03:00.2": "pf0vf0 5c:00:00:00:00:01", "0000:04:00.2": "pf1vf3 5c:00:00:00:00:02", "0000:05:00.2": "pf7vf0 ", "0000:09:00.2": "none",
	} {
		got := "none"
		if h, ok := inv.Handle(device); ok {
			got = h.Function.String() + " " + h.PFMAC.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", device, got, want)
		}
	}
}

func TestCard_GoesByProductsOfNICs(t *testing.T) {
	nic := func(address string, dpu bool, total int) PF {
		pci, err := ParsePCIAddress(address)
		if err != nil {
			t.Fatal(err)
		}
		return PF{Device: Device{Name: address, PCI: pci}, Class: Class{DPU: dpu}, TotalVFs: total}
	}
	for name, tc := range map[string]struct {
		pfs  []PF
		want []Card
	}{
		"a DPU":                         {[]PF{nic("0000:a3:00.0", true, 16), nic("0000:a3:00.1", true, 16)}, []Card{CardDPU, CardDPU}},
		"a DPU and another NIC":         {[]PF{nic("0000:18:00.0", false, 16), nic("0000:a3:00.0", true, 16)}, []Card{CardOther, CardDPU}},
		"an unknown card":               {[]PF{nic("0000:a3:00.0", false, 16), nic("0000:a3:00.1", false, 16)}, []Card{CardDPU, CardDPU}},
		"an unknown card and a plain":   {[]PF{nic("0000:00:02.0", false, 0), nic("0000:a3:00.0", false, 16)}, []Card{CardUnknown, CardDPU}},
		"two unknown cards":             {[]PF{nic("0000:18:00.0", false, 16), nic("0000:a3:00.0", false, 16)}, []Card{CardUnknown, CardUnknown}},
		"two DPUs, of which one serves": {[]PF{nic("0000:18:00.0", true, 16), nic("0000:a3:00.0", true, 16)}, []Card{CardDPU, CardDPU}},
	} {
		inv := Inventory{PFs: tc.pfs}
		var got []Card
		for i := range inv.PFs {
			got = append(got, inv.Card(&inv.PFs[i]))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
