package vf

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Found is what sysfs shows, before devlink and the links have been asked. The
// PFs have their VFs and SFs, and no netdevs yet: sysfs does not say which of a
// PF's netdevs is the uplink and which is a representor.
type Found struct {
	PFs     []PF
	Netdevs []FoundNetdev
	Bonds   []Bond
	// Problems are of devices that are not in PFs.
	Problems []string
}

// FoundNetdev is a netdev with a device below it.
type FoundNetdev struct {
	Name string
	// Device is the function's: its name in sysfs, or that of an SF.
	Device   string
	PortName string
	SwitchID string
	Above    Above
}

// location is a device's path in sysfs and what the path tells.
type location struct {
	target string // where the link led, below the root of sysfs
	path   string // of the function
	device string // name of the function
	pci    PCIAddress
	root   string
	sf     string // the auxiliary device, when it is an SF's
}

const maxVFs = 1 << 16 // what PCI can number

type discovery struct {
	sys       netdev.Sysfs
	found     Found
	locations map[string]location // of functions that have a netdev, by name
	rdma      map[string][]string // by function or SF
	sfs       map[string][]SF     // by function
}

// Discover reads the tree. What cannot be read of one device is a problem of
// that device; only a tree that cannot be listed is an error. No tree at all is
// a node without NICs.
func Discover(sys netdev.Sysfs) (Found, error) {
	d := discovery{sys: sys, locations: map[string]location{}, rdma: map[string][]string{}, sfs: map[string][]SF{}}
	for _, step := range []func() error{d.netdevs, d.rdmaDevices, d.scalable, d.functions, d.bonds} {
		if err := step(); err != nil {
			return Found{}, err
		}
	}
	slices.SortFunc(d.found.PFs, func(a, b PF) int {
		if c := a.PCI.Compare(b.PCI); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return d.found, nil
}

// netdevs finds the owner of each in the path to which its link leads, which
// costs one look and is true of PFs, VFs, SFs, representors and virtio alike.
func (d *discovery) netdevs() error {
	names, err := d.sys.Names("class/net")
	if err != nil {
		return err
	}
	for _, name := range names {
		where, ok := d.locate("class/net/"+name, "/net/"+name)
		if !ok {
			continue
		}
		nd := FoundNetdev{Name: name, Device: where.device}
		if where.sf != "" {
			nd.Device = where.sf
		} else {
			d.locations[where.device] = where
		}
		nd.PortName, err = d.sys.Attr(where.target + "/phys_port_name")
		d.problem(err)
		nd.SwitchID, err = d.sys.Attr(where.target + "/phys_switch_id")
		d.problem(err)
		if f, ok := ParsePortName(nd.PortName); !ok || f.Flavour == netdev.FlavourPhysical {
			nd.Above, err = above(d.sys, where.target)
			d.problem(err)
		}
		d.found.Netdevs = append(d.found.Netdevs, nd)
	}
	return nil
}

func (d *discovery) rdmaDevices() error {
	names, err := d.sys.Names("class/infiniband")
	if err != nil {
		return err
	}
	for _, name := range names {
		if where, ok := d.locate("class/infiniband/"+name, "/infiniband/"+name); ok {
			owner := where.device
			if where.sf != "" {
				owner = where.sf
			}
			d.rdma[owner] = append(d.rdma[owner], name)
		}
	}
	return nil
}

// scalable finds the SFs that have become devices here.
func (d *discovery) scalable() error {
	names, err := d.sys.Names("bus/auxiliary/devices")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isSF(name) {
			continue
		}
		where, ok := d.locate("bus/auxiliary/devices/"+name, "")
		if !ok {
			continue
		}
		dir := where.target
		sf := SF{Device: name, RDMA: d.rdma[name]}
		number, err := d.sys.SFNumber(name)
		if err != nil {
			d.problem(fmt.Errorf("%s has no number: %w", dir, err))
			continue
		}
		sf.Number = uint32(number)
		sf.Driver, err = d.link(dir + "/driver")
		d.problem(err)
		d.sfs[where.device] = append(d.sfs[where.device], sf)
		d.locations[where.device] = where
	}
	return nil
}

// functions are the network controllers of PCI, and the owners of netdevs that
// are of another class or not on PCI. VFs come with their PF.
func (d *discovery) functions() error {
	names, err := d.sys.Names("bus/pci/devices")
	if err != nil {
		return err
	}
	for _, name := range names {
		dir := "bus/pci/devices/" + name
		class, err := d.sys.Attr(dir + "/class")
		if d.problem(err) || !strings.HasPrefix(class, "0x02") {
			continue
		}
		if where, ok := d.locate(dir, ""); ok {
			d.locations[name] = where
		}
	}
	for _, where := range d.locations {
		if d.sys.PF(where.device) == "" {
			d.found.PFs = append(d.found.PFs, d.pf(where))
		}
	}
	return nil
}

func (d *discovery) pf(where location) PF {
	pf := PF{SFs: d.sfs[where.device]}
	note := func(err error) {
		if err != nil {
			pf.Problems = append(pf.Problems, err.Error())
		}
	}
	pf.Device = d.device(where, note)
	slices.SortFunc(pf.SFs, func(a, b SF) int { return int(int64(a.Number) - int64(b.Number)) })
	var err error
	pf.TotalVFs, err = d.number(where.path+"/sriov_totalvfs", 0)
	note(err)
	count, err := d.number(where.path+"/sriov_numvfs", 0)
	note(err)
	if count > min(pf.TotalVFs, maxVFs) {
		note(fmt.Errorf("sriov_numvfs is %d, more than sriov_totalvfs, which is %d", count, pf.TotalVFs))
		count = min(pf.TotalVFs, maxVFs)
	}
	pf.NumVFs = count
	for i := range count {
		vf, err := d.vf(where, i, note)
		if err != nil {
			note(fmt.Errorf("VF %d: %w", i, err))
			continue
		}
		pf.VFs = append(pf.VFs, vf)
	}
	return pf
}

func (d *discovery) vf(pf location, index int, note func(error)) (VF, error) {
	dir, err := d.sys.Target(pf.path + "/virtfn" + strconv.Itoa(index))
	if err != nil {
		return VF{}, err
	}
	if dir == "" {
		return VF{}, fmt.Errorf("no virtfn%d, though sriov_numvfs counts it", index)
	}
	address, err := ParsePCIAddress(path.Base(dir))
	if err != nil {
		return VF{}, err
	}
	v := VF{Index: index, Device: d.device(location{path: dir, device: path.Base(dir), pci: address, root: pf.root}, note)}
	v.IOMMUGroup, err = d.link(dir + "/iommu_group")
	note(err)
	return v, nil
}

func (d *discovery) device(where location, note func(error)) Device {
	out := Device{Name: where.device, PCI: where.pci, Root: where.root, RDMA: d.rdma[where.device]}
	var err error
	out.Vendor, err = d.id(where.path + "/vendor")
	note(err)
	out.Product, err = d.id(where.path + "/device")
	note(err)
	out.Driver, err = d.link(where.path + "/driver")
	note(err)
	out.NUMA, err = d.number(where.path+"/numa_node", -1)
	note(err)
	return out
}

// bonds lists what the bonding driver has, if it is there.
func (d *discovery) bonds() error {
	names, err := d.sys.Attr("class/net/bonding_masters")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(names) {
		b := Bond{Netdev: Netdev{Name: name}}
		mode, err := d.sys.Attr("class/net/" + name + "/bonding/mode")
		d.problem(err)
		b.Mode, _, _ = strings.Cut(mode, " ") // the number follows
		ports, err := d.sys.Attr("class/net/" + name + "/bonding/slaves")
		d.problem(err)
		b.Ports = strings.Fields(ports)
		slices.Sort(b.Ports)
		d.found.Bonds = append(d.found.Bonds, b)
	}
	return nil
}

// locate follows a link of a class or a bus to the function that owns what it
// leads to; not ok for what software has made.
func (d *discovery) locate(link, suffix string) (location, bool) {
	target, err := d.sys.Target(link)
	if d.problem(err) || target == "" {
		return location{}, false
	}
	owner := strings.TrimSuffix(target, suffix)
	if strings.HasPrefix(target, "devices/virtual/") {
		return location{}, false
	}
	where := location{target: target, path: owner, device: path.Base(owner)}
	parts := strings.Split(owner, "/")
	for i, part := range parts {
		if address, ok := scanPCIAddress(part); ok {
			where.pci, where.device, where.path = address, part, path.Join(parts[:i+1]...)
		}
		if isRoot(part) {
			where.root = part
		}
		if isSF(part) {
			where.sf = part
		}
	}
	return where, true
}

func (d *discovery) number(attr string, absent int) (int, error) {
	text, err := d.sys.Attr(attr)
	if err != nil || text == "" {
		return absent, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return absent, fmt.Errorf("%s holds %q, not a number", attr, text)
	}
	return n, nil
}

func (d *discovery) id(attr string) (id ID, err error) {
	text, err := d.sys.Attr(attr)
	if err == nil && text != "" && id.UnmarshalText([]byte(text)) != nil {
		err = fmt.Errorf("%s holds %q, not a PCI id", attr, text)
	}
	return id, err
}

// link gives the last element of a link's target: a driver, an IOMMU group.
func (d *discovery) link(name string) (string, error) {
	target, err := d.sys.Target(name)
	if target == "" {
		return "", err
	}
	return path.Base(target), nil
}

func (d *discovery) problem(err error) bool {
	if err != nil {
		d.found.Problems = append(d.found.Problems, err.Error())
	}
	return err != nil
}

// isRoot takes names such as pci0000:00.
func isRoot(name string) bool {
	rest, ok := strings.CutPrefix(name, "pci")
	if !ok {
		return false
	}
	_, ok = scanPCIAddress(rest + ":00.0")
	return ok
}

// isSF takes names such as mlx5_core.sf.2.
func isSF(name string) bool {
	_, number, ok := strings.Cut(name, ".sf.")
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 32)
	return err == nil
}
