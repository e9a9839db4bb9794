package vf

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/Mellanox/rdmamap"
	"github.com/google/go-cmp/cmp"
	"github.com/jaypipes/ghw"
	"github.com/k8snetworkplumbingwg/sriovnet"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// TestLibraries_AgreeWithInventory asks sriovnet, rdmamap and ghw about each device of
// each archive. docs/decisions/device-libraries.md says what they are not asked for.
func TestLibraries_AgreeWithInventory(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no archives", err)
	}
	vfs := 0
	for _, file := range files {
		w := load(t, file)
		if slices.ContainsFunc(slices.Collect(maps.Values(w.Faults)), func(err error) bool { return !errors.Is(err, unix.EOPNOTSUPP) }) {
			continue // a disk cannot have them, and an attribute without support is as one that is absent
		}
		n := node(t, w)
		want := read(t, n)
		root := t.TempDir()
		if err := w.Write(root); err != nil {
			t.Fatal(err)
		}
		n.Sysfs = netdev.OpenSysfs(root)
		if diff := cmp.Diff(want, read(t, n), cmp.AllowUnexported(PCIAddress{})); diff != "" {
			t.Errorf("%s by a tree (-) and by the libraries (+):\n%s", file, diff)
		}
		for _, pf := range want.PFs {
			for _, v := range pf.VFs {
				vfs++
				checkVF(t, root, pf, v)
			}
			for _, sf := range pf.SFs {
				checkSF(t, root, pf, sf)
			}
		}
		checkPCI(t, root, want)
	}
	if vfs == 0 {
		t.Error("no archive has a VF")
	}
}

// below makes a library that joins a name to a directory of /sys read the tree.
func below(root, bus, device string) string {
	return "../../../.." + root + "/bus/" + bus + "/devices/" + device
}

func checkVF(t *testing.T, root string, pf PF, v VF) {
	t.Helper()
	name := below(root, "pci", v.Name)
	if got, err := sriovnet.GetPfPciFromVfPci(name); err != nil || got != pf.Name {
		t.Errorf("sriovnet: PF of %s is %q, %v, want %s", v.Name, got, err, pf.Name)
	}
	if got := sriovnet.IsVfPciVfioBound(name); got != v.Vfio() {
		t.Errorf("sriovnet: %s bound to vfio is %t, the driver is %q", v.Name, got, v.Driver)
	}
	if diff := cmp.Diff(v.RDMA, rdmamap.GetRdmaDevicesForPcidev(name)); diff != "" {
		t.Errorf("rdmamap: devices of %s:\n%s", v.Name, diff)
	}
	if got, err := sriovnet.GetNetDevicesFromPci(name); v.Netdev != nil && (err != nil || len(got) != 1 || got[0] != v.Netdev.Name) {
		t.Errorf("sriovnet: netdevs of %s are %v, %v, want %s", v.Name, got, err, v.Netdev.Name)
	}
}

func checkSF(t *testing.T, root string, pf PF, sf SF) {
	t.Helper()
	name := below(root, "auxiliary", sf.Device)
	if got, err := sriovnet.GetSfIndexByAuxDev(name); err != nil || got != int(sf.Number) {
		t.Errorf("sriovnet: number of %s is %d, %v, want %d", sf.Device, got, err, sf.Number)
	}
	if got, err := sriovnet.GetPfPciFromAux(name); err != nil || got != pf.Name {
		t.Errorf("sriovnet: PF of %s is %q, %v, want %s", sf.Device, got, err, pf.Name)
	}
	if got, err := sriovnet.GetNetDevicesFromAux(name); sf.Netdev != nil && (err != nil || len(got) != 1 || got[0] != sf.Netdev.Name) {
		t.Errorf("sriovnet: netdevs of %s are %v, %v, want %s", sf.Device, got, err, sf.Netdev.Name)
	}
}

// checkPCI gives the tree what ghw needs of the kernel: a modalias of each device, and
// the directories of drivers.
func checkPCI(t *testing.T, root string, inv Inventory) {
	t.Helper()
	groups := map[string]string{}
	var devices []Device
	for _, pf := range inv.PFs {
		if pf.PCI.IsValid() {
			devices = append(devices, pf.Device)
		}
		for _, v := range pf.VFs {
			devices = append(devices, v.Device)
			groups[v.Name] = v.IOMMUGroup
		}
	}
	bus := filepath.Join(root, "bus/pci/devices")
	links, err := os.ReadDir(bus)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, link := range links {
		text := func(attr string) string {
			raw, _ := os.ReadFile(filepath.Join(bus, link.Name(), attr))
			return strings.ToUpper(strings.TrimPrefix(strings.TrimSpace(string(raw)), "0x"))
		}
		alias := "pci:v0000" + (text("vendor") + "0000")[:4] + "d0000" + (text("device") + "0000")[:4] + "sv00000000sd00000000bc02sc00i00\n"
		if err := os.WriteFile(filepath.Join(bus, link.Name(), "modalias"), []byte(alias), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range devices {
		driver := filepath.Join(root, "bus/pci/drivers", d.Driver)
		link := filepath.Join(bus, d.Name, "driver")
		if d.Driver == "" {
			continue
		}
		if err := errors.Join(os.MkdirAll(driver, 0o700), os.Remove(link), os.Symlink(driver, link)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := ghw.PCI(ghw.WithPathOverrides(map[string]string{"/sys": root}), ghw.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		got := info.GetDevice(d.Name)
		if got == nil {
			t.Errorf("ghw: no device %s", d.Name)
			continue
		}
		numa := -1
		if got.Node != nil {
			numa = got.Node.ID
		}
		line := strings.Join([]string{got.Vendor.ID, got.Product.ID, got.Driver, strconv.Itoa(numa)}, " ")
		if want := strings.Join([]string{d.Vendor.String(), d.Product.String(), d.Driver, strconv.Itoa(d.NUMA)}, " "); line != want {
			t.Errorf("ghw: %s is %q, want %q", d.Name, line, want)
		}
		if group, isVF := groups[d.Name]; isVF && got.IOMMUGroup != group {
			t.Errorf("ghw: IOMMU group of %s is %q, want %q", d.Name, got.IOMMUGroup, group)
		}
	}
	if len(links) == 0 {
		return
	}
	// The reason why the inventory does not rest on ghw.
	if err := os.Remove(filepath.Join(bus, links[0].Name(), "modalias")); err != nil {
		t.Fatal(err)
	}
	info, err = ghw.PCI(ghw.WithPathOverrides(map[string]string{"/sys": root}), ghw.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil || len(info.Devices) != 0 {
		t.Errorf("ghw lists devices beside one that it cannot read, %v: read facts of devices with ghw", err)
	}
}
