package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Mellanox/rdmamap"
	"github.com/jaypipes/ghw"
	"github.com/jaypipes/ghw/pkg/util"
	"github.com/k8snetworkplumbingwg/sriovnet"
)

// Library answers what the device libraries answer rightly. Fakes read a tree in
// memory. docs/decisions/device-libraries.md has their other functions.
type Library interface {
	// SFNumber takes the name of an auxiliary device, such as mlx5_core.sf.2.
	SFNumber(device string) (int, error)
	// PF gives the PCI address of a VF's PF, and "" for a device that is no VF.
	PF(address string) string
	// RDMADevices gives those of a PCI device in the namespace of the tree, in order.
	RDMADevices(address string) ([]string, error)
	// RDMANodes gives the verbs, umad and issm nodes of an RDMA device, in order.
	RDMANodes(device string) ([]string, error)
}

// libraries are sriovnet and rdmamap. Both join a name to a directory below /sys, so
// that a relative name leads to a tree that is mounted elsewhere.
type libraries struct{ root string }

func (l libraries) name(bus, device string) string {
	return path.Join(strings.Repeat("../", 4), l.root, "bus", bus, "devices", device)
}

func (l libraries) SFNumber(device string) (int, error) {
	return sriovnet.GetSfIndexByAuxDev(l.name("auxiliary", device))
}

func (l libraries) PF(address string) string {
	pf, err := sriovnet.GetPfPciFromVfPci(l.name("pci", address))
	if err != nil {
		return ""
	}
	return pf
}

// RDMADevices looks for errors itself, because rdmamap gives an empty list then.
func (l libraries) RDMADevices(address string) ([]string, error) {
	dir := filepath.Join(l.root, "bus/pci/devices", address, "infiniband")
	if err := readable(dir); err != nil {
		return nil, err
	}
	found := rdmamap.GetRdmaDevicesForPcidev(l.name("pci", address))
	slices.Sort(found)
	return found, nil
}

// RDMANodes leaves rdma_cm out: rdmamap looks for it in /dev, and the /dev of a
// container does not follow modules that are loaded later.
func (l libraries) RDMANodes(device string) ([]string, error) {
	for _, dir := range []string{rdmamap.RdmaUverbsDir, rdmamap.RdmaUmadDir} {
		if err := readable(dir); err != nil {
			return nil, err
		}
	}
	nodes := slices.DeleteFunc(rdmamap.GetRdmaCharDevices(device), func(node string) bool { return node == rdmamap.RdmaUcmDevice })
	slices.Sort(nodes)
	return nodes, nil
}

// readable lists a directory. A directory that is absent is no error.
func readable(dir string) error {
	if _, err := os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	return nil
}

// PCIName is the vendor and the product of a PCI id; what the database lacks is "".
type PCIName struct{ Vendor, Product string }

// PCINames looks vendor and product numbers up in the PCI id database, which ghw reads
// at each call. A machine without a database has no names.
func PCINames(ids ...[2]uint16) []PCIName {
	names := make([]PCIName, len(ids))
	info, err := ghw.PCI(ghw.WithDisableTopology(), ghw.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return names
	}
	text := func(name string) string {
		if name == util.UNKNOWN {
			return ""
		}
		return name
	}
	for i, id := range ids {
		// The number of a device is enough for a name, so that a device that ghw
		// cannot list has one as well.
		d := info.ParseDevice("", fmt.Sprintf("pci:v%08Xd%08Xsv00000000sd00000000bc00sc00i00", id[0], id[1]))
		names[i] = PCIName{text(d.Vendor.Name), text(d.Product.Name)}
	}
	return names
}
