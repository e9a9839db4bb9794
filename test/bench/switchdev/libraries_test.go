//go:build bench

package switchdev

import (
	"log/slog"
	"slices"
	"strconv"
	"testing"

	"github.com/Mellanox/rdmamap"
	"github.com/jaypipes/ghw"
	"github.com/k8snetworkplumbingwg/sriovnet"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestLibraries_AgreeWithInventoryOfNIC asks sriovnet, rdmamap and ghw about each VF of the
// simulated NICs.
func TestLibraries_AgreeWithInventoryOfNIC(t *testing.T) {
	tier.In(t, "nic")
	node, _ := openNode(t)
	t.Setenv("PCIDB_PATH", "../../../pkg/vf/testdata/pci.ids")
	info, err := ghw.PCI(ghw.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	inv := inventory(t, node)
	for _, pci := range nics(t) {
		p := pf(t, inv, pci)
		if len(p.VFs) == 0 || !p.Switchdev() {
			t.Fatalf("%s has %d VFs, its eswitch is in mode %s", pci, len(p.VFs), p.Eswitch.Mode)
		}
		for _, v := range p.VFs {
			uplink, err := sriovnet.GetUplinkRepresentor(v.Name)
			if err != nil || uplink != p.Uplink().Name {
				t.Errorf("sriovnet: uplink of %s is %q, %v, want %s", v.Name, uplink, err, p.Uplink().Name)
			}
			if got, err := sriovnet.GetVfRepresentor(p.Uplink().Name, v.Index); err != nil || got != v.Representor.Name {
				t.Errorf("sriovnet: representor of %s is %q, %v, want %s", v.Name, got, err, v.Representor.Name)
			}
			if got, err := sriovnet.GetVfIndexByPciAddress(v.Name); err != nil || got != v.Index {
				t.Errorf("sriovnet: number of %s is %d, %v, want %d", v.Name, got, err, v.Index)
			}
			for _, device := range v.RDMA {
				nodes, err := node.Sysfs.RDMANodes(device)
				if got := rdmamap.GetRdmaCharDevices(device); err != nil || slices.ContainsFunc(nodes, func(n string) bool { return !slices.Contains(got, n) }) {
					t.Errorf("rdmamap: nodes of %s are %v, want %v, %v", device, got, nodes, err)
				}
			}
			d := info.GetDevice(v.Name)
			if d == nil {
				t.Errorf("ghw: no device %s", v.Name)
				continue
			}
			numa := "-1"
			if d.Node != nil {
				numa = strconv.Itoa(d.Node.ID)
			}
			got := []string{d.Vendor.ID, d.Product.ID, d.Driver, d.IOMMUGroup, numa}
			if want := []string{v.Vendor.String(), v.Product.String(), v.Driver, v.IOMMUGroup, strconv.Itoa(v.NUMA)}; !slices.Equal(got, want) {
				t.Errorf("ghw: %s is %q, want %q", v.Name, got, want)
			}
		}
	}
}
