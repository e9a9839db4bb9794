package vf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
)

// bigNode has 8 PFs in switchdev mode with 125 VFs each: 1,000 VFs, 2,008
// netdevs.
func bigNode() string {
	var b, devlink strings.Builder
	for p := range 8 {
		root := fmt.Sprintf("devices/pci0000:%02x/0000:%02x:02.0/", p*16, p*16)
		pf := fmt.Sprintf("0000:%02x:00.0", p*16+1)
		vf := func(v int) string { return fmt.Sprintf("0000:%02x:%02x.%d", p*16+2+(v/256), v/8%32, v%8) }
		fmt.Fprintf(&b, "-- %s%s --\nvendor=0x15b3  device=0x101d  class=0x020000  numa_node=%d  sriov_totalvfs=127  sriov_numvfs=125\n", root, pf, p/4)
		fmt.Fprintf(&b, "driver -> ../../../../bus/pci/drivers/mlx5_core\n")
		for v := range 125 {
			fmt.Fprintf(&b, "virtfn%d -> ../%s\n", v, vf(v))
		}
		fmt.Fprintf(&b, "-- %s%s/net/up%d --\nflags=up  carrier=1  phys_port_name=p0  phys_switch_id=%016x  hw-tc-offload=on\n", root, pf, p, p+1)
		fmt.Fprintf(&devlink, "dev pci/%s  mode=switchdev\nport pci/%s/65535  flavour=physical  number=0  netdev=up%d\n", pf, pf, p)
		for v := range 125 {
			fmt.Fprintf(&b, "-- %s%s/net/r%dv%d --\nphys_port_name=pf0vf%d  phys_switch_id=%016x  hw-tc-offload=on\n", root, pf, p, v, v, p+1)
			fmt.Fprintf(&b, "-- %s%s --\nvendor=0x15b3  device=0x101e  class=0x020000  numa_node=%d\n", root, vf(v), p/4)
			fmt.Fprintf(&b, "physfn -> ../%s\ndriver -> ../../../../bus/pci/drivers/mlx5_core\niommu_group -> ../../../../kernel/iommu_groups/%d\n", pf, v)
			fmt.Fprintf(&b, "-- %s%s/net/v%dv%d --\nflags=up\n", root, vf(v), p, v)
			fmt.Fprintf(&devlink, "port pci/%s/%d  flavour=pcivf  controller=0  pf=0  number=%d  external=false  netdev=r%dv%d\n", pf, v+1, v, p, v)
		}
	}
	return b.String() + "-- devlink --\n" + devlink.String()
}

func TestInventory_NodeWithThousandVFs(t *testing.T) {
	w, err := vftest.Parse([]byte(bigNode()))
	if err != nil {
		t.Fatal(err)
	}
	inv := read(t, node(t, w))
	if len(inv.PFs) != 8 || len(inv.Problems) != 0 {
		t.Fatalf("%d PFs, problems %q", len(inv.PFs), inv.Problems)
	}
	for _, pf := range inv.PFs {
		if len(pf.VFs) != 125 || len(pf.Problems) != 0 || len(pf.Representors) != 0 {
			t.Fatalf("%s: %d VFs, problems %q, %d representors left", pf.Name, len(pf.VFs), pf.Problems, len(pf.Representors))
		}
		for _, v := range pf.VFs {
			number := strings.TrimPrefix(pf.Uplink().Name, "up")
			if v.Representor == nil || v.Representor.Name != fmt.Sprintf("r%sv%d", number, v.Index) ||
				v.Netdev == nil || v.Netdev.Name != fmt.Sprintf("v%sv%d", number, v.Index) {
				t.Fatalf("%s VF %d: netdev %+v, representor %+v", pf.Name, v.Index, v.Netdev, v.Representor)
			}
		}
	}
}

// On a disk: the kernel's links and files instead of a map's.
func onDisk(t testing.TB, w *vftest.World) *Node {
	t.Helper()
	root := t.TempDir()
	if err := w.Write(root); err != nil {
		t.Fatal(err)
	}
	n := node(t, w)
	n.Sysfs = netdev.OpenSysfs(root)
	return n
}

func TestInventory_MemoryAndDiskAgree(t *testing.T) {
	for _, file := range []string{"testdata/connectx6dx-switchdev.txtar", "testdata/bluefield2-dpu.txtar"} {
		w := load(t, file)
		if diff := cmp.Diff(read(t, node(t, w)), read(t, onDisk(t, w)), cmp.AllowUnexported(PCIAddress{})); diff != "" {
			t.Errorf("%s in memory and on disk (-memory +disk):\n%s", file, diff)
		}
	}
}

func BenchmarkInventory(b *testing.B) {
	w, err := vftest.Parse([]byte(bigNode()))
	if err != nil {
		b.Fatal(err)
	}
	n := onDisk(b, w)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Read(); err != nil {
			b.Fatal(err)
		}
	}
}
