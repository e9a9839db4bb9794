package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
)

// inventory reads one of the trees of package vf.
func inventory(t *testing.T, name string, change func(*vftest.World)) vf.Inventory {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := vftest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(w)
	}
	inv, err := (&vf.Node{Sysfs: w.Sysfs(), Kernel: w.Kernel, Links: w}).Read()
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestFromInventory_DevicesOfSwitchdevNIC(t *testing.T) {
	got := FromInventory(inventory(t, "connectx6dx-switchdev", nil), OwnUplink)
	pf := PF{Name: "ens1f0np0", Address: "0000:03:00.0", Eswitch: vf.Switchdev, LinkType: "ether"}
	one := func(id string, index int, driver, representor string, rdma ...string) Device {
		return Device{
			ID: id, PF: pf, Index: index, Vendor: 0x15b3, Product: 0x101e, Driver: driver, NUMA: 0,
			RDMA: rdma, Representor: representor, IOMMUGroup: strconv.Itoa(60 + index),
		}
	}
	want := []Device{
		one("0000:03:00.2", 0, "mlx5_core", "ens1f0npf0vf0", "mlx5_2"),
		one("0000:03:00.3", 1, "mlx5_core", "ens1f0npf0vf1", "mlx5_3"), // a pod has its netdev
		one("0000:03:00.4", 2, "mlx5_core", "ens1f0npf0vf2", "mlx5_4"),
		one("0000:03:00.5", 3, "vfio-pci", "ens1f0npf0vf3"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFromInventory_VFsOfTheNodeAreUnhealthy(t *testing.T) {
	inv := inventory(t, "vfs-of-the-node", nil)
	var got []string
	for _, d := range FromInventory(inv, OwnUplink) {
		got = append(got, d.Problem)
	}
	want := []string{
		"the node uses it: ens1f0v0 has address 10.1.2.3/24",
		"the node uses it: ens1f0v1 carries macvtap0, storage.5",
		"the node uses it: ens1f0v2 is a port of br0",
		"the node uses it: ens1f0v3 has address 2001:db8::3/64",
		"", // link-local addresses are the kernel's
		"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFromInventory_OldKernel: on an old kernel a VF in a pod cannot be distinguished from others there. A VF without a
// netdev needs no search.
func TestFromInventory_OldKernel(t *testing.T) {
	inv := inventory(t, "connectx6dx-switchdev", (*vftest.World).ForgetParents)
	const old = "the kernel is older than 5.14 and does not say which device a netdev belongs to"
	var got []string
	for _, d := range FromInventory(inv, OwnUplink) {
		got = append(got, d.Problem)
	}
	if diff := cmp.Diff([]string{old, "", old, ""}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefaultPools_TakeSwitchdevOnly(t *testing.T) {
	none := &claims{}
	for name, want := range map[string]int{
		"connectx6dx-switchdev": 4, "connectx6dx-legacy": 0, "e810-switchdev": 2, "swsim": 4, "plain": 0, "nothing": 0,
		"bluefield2-dpu": 0, // its VFs are the host's
	} {
		got := assign(DefaultPools(), FromInventory(inventory(t, name, nil), OwnUplink), none, nil)
		if len(got[DefaultResource]) != want {
			t.Errorf("%s: %d devices, want %d", name, len(got[DefaultResource]), want)
		}
	}
}

// TestDefaultDPUPools_LeaveOtherNICsOut: a VF of a NIC beside the DPU does not lead to the network of pods. A pool of the
// administrator may have them.
func TestDefaultDPUPools_LeaveOtherNICsOut(t *testing.T) {
	product := func(id string) func(*vftest.World) {
		return func(w *vftest.World) {
			for file := range w.Tree {
				if strings.HasSuffix(file, "/0000:af:00.0/device") {
					w.Tree[file] = &fstest.MapFile{Data: []byte(id + "\n")}
				}
			}
		}
	}
	none := &claims{}
	explicit := []Pool{{Resource: DefaultResource, Selectors: []Selector{{RootDevices: []string{"0000:3b:00.0"}}}}}
	for name, c := range map[string]struct {
		pools   []Pool
		product string
		want    []string // PFs
	}{
		"a DPU and another NIC":    {DefaultDPUPools(), "0xa2dc", []string{"0000:af:00.0"}},
		"no product that is known": {DefaultDPUPools(), "0x1021", []string{"0000:3b:00.0", "0000:3b:00.1", "0000:af:00.0"}},
		"a pool of the other NIC":  {explicit, "0xa2dc", []string{"0000:3b:00.0"}},
	} {
		devices := FromInventory(inventory(t, "two-cards", product(c.product)), DPUUplink)
		var got []string
		for _, d := range assign(c.pools, devices, none, nil)[DefaultResource] {
			got = append(got, d.PF.Address)
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, slices.Compact(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFromInventory_PFIsDownOnHostWithDPU: there the netdev of the PF is not the wire
// but the host's own function, which may be left without configuration.
func TestFromInventory_PFIsDownOnHostWithDPU(t *testing.T) {
	inv := vf.Inventory{PFs: []vf.PF{{
		Ports: []vf.Netdev{{Name: "ens1f0np0"}}, Eswitch: vf.Eswitch{Mode: vf.Legacy},
		VFs: []vf.VF{
			{Device: vf.Device{Name: "0000:03:00.2", Driver: "mlx5_core"}},
			{Device: vf.Device{Name: "0000:03:00.3"}},
		},
	}}}
	for uplink, want := range map[Uplink][]string{
		OwnUplink: {"uplink ens1f0np0 is down", "uplink ens1f0np0 is down"},
		DPUUplink: {"", "no driver is bound"},
	} {
		var got []string
		for _, d := range FromInventory(inv, uplink) {
			got = append(got, d.Problem)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("uplink of the DPU: %t (-want +got):\n%s", uplink, diff)
		}
	}
}

func TestFromInventory_ProblemOfEachVF(t *testing.T) {
	up := func(name string) vf.Netdev { return vf.Netdev{Name: name, Up: true, Carrier: true} }
	dark := up("p0")
	dark.Carrier = false
	good := vf.VF{Device: vf.Device{Name: "0000:03:00.2", Driver: "mlx5_core"}, Representor: &vf.Representor{Netdev: up("r0")}}
	change := func(f func(*vf.VF)) vf.VF {
		v := good
		f(&v)
		return v
	}
	bond := func(carrier bool) []vf.Bond {
		return []vf.Bond{{Netdev: vf.Netdev{Name: "bond0", Up: true, Carrier: carrier}, Ports: []string{"p0", "p1"}}}
	}
	for name, c := range map[string]struct {
		ports []vf.Netdev
		mode  vf.Mode
		bonds []vf.Bond
		vf    vf.VF
		want  string
	}{
		"good":            {ports: []vf.Netdev{up("p0")}, mode: vf.Switchdev, vf: good},
		"no uplink here":  {mode: vf.Legacy, vf: good},
		"wire is dead":    {ports: []vf.Netdev{dark}, mode: vf.Switchdev, vf: good, want: "uplink p0 is no-carrier"},
		"uplink is down":  {ports: []vf.Netdev{{Name: "p0"}}, mode: vf.Switchdev, vf: good, want: "uplink p0 is down"},
		"other wire":      {ports: []vf.Netdev{dark}, mode: vf.Switchdev, bonds: bond(true), vf: good},
		"both wires dead": {ports: []vf.Netdev{up("p0")}, mode: vf.Switchdev, bonds: bond(false), vf: good, want: "uplink bond0 is no-carrier"},
		"no driver": {ports: []vf.Netdev{up("p0")}, mode: vf.Switchdev,
			vf: change(func(v *vf.VF) { v.Driver = "" }), want: "no driver is bound"},
		"no representor": {ports: []vf.Netdev{up("p0")}, mode: vf.Switchdev,
			vf: change(func(v *vf.VF) { v.Representor = nil }), want: "no representor was found"},
		"legacy has none": {ports: []vf.Netdev{up("p0")}, mode: vf.Legacy, vf: change(func(v *vf.VF) { v.Representor = nil })},
		"the node's": {ports: []vf.Netdev{up("p0")}, mode: vf.Switchdev,
			vf: change(func(v *vf.VF) { v.Netdev = &vf.Netdev{Name: "v0", Use: "is a port of br0"} }), want: "the node uses it: v0 is a port of br0"},
		"idle netdev": {ports: []vf.Netdev{up("p0")}, mode: vf.Switchdev,
			vf: change(func(v *vf.VF) { v.Netdev = &vf.Netdev{Name: "v0"} })},
	} {
		inv := vf.Inventory{Bonds: c.bonds, PFs: []vf.PF{{
			Device: vf.Device{Name: "0000:03:00.0"}, Ports: c.ports, Eswitch: vf.Eswitch{Mode: c.mode}, VFs: []vf.VF{c.vf},
		}}}
		if got := FromInventory(inv, OwnUplink)[0].Problem; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
