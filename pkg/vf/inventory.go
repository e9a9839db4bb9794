package vf

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// Inventory is all NICs of a node, in the order of their addresses.
type Inventory struct {
	PFs   []PF   `json:"pfs"`
	Bonds []Bond `json:"bonds,omitempty"`
	// RDMA is "exclusive" when each namespace has RDMA devices of its own,
	// "shared" when it sees all, "" without RDMA, "unknown" without an answer.
	RDMA string `json:"rdma,omitempty"`
	// Problems are facts about no single device that could not be had.
	Problems []string `json:"problems,omitempty"`
}

// VF finds a VF by its device's name.
func (i *Inventory) VF(device string) (*PF, *VF, bool) {
	for p := range i.PFs {
		for v := range i.PFs[p].VFs {
			if i.PFs[p].VFs[v].Name == device {
				return &i.PFs[p], &i.PFs[p].VFs[v], true
			}
		}
	}
	return nil, nil, false
}

// RepresentorNames are the representors on all eswitches, sorted.
func (i *Inventory) RepresentorNames() []string {
	var all []string
	add := func(r *Representor) {
		if r != nil {
			all = append(all, r.Name)
		}
	}
	for _, pf := range i.PFs {
		for _, v := range pf.VFs {
			add(v.Representor)
		}
		for _, sf := range pf.SFs {
			add(sf.Representor)
		}
		for _, r := range pf.Representors {
			add(&r)
		}
	}
	slices.Sort(all)
	return all
}

// Device is what functions have in common with NICs that are not on PCI.
type Device struct {
	// Name is the kernel's: the PCI address, or such as virtio0.
	Name string     `json:"name"`
	PCI  PCIAddress `json:"pci,omitzero"`
	// Root is the PCIe root complex, such as pci0000:00.
	Root string `json:"pcieRoot,omitempty"`
	// NUMA is -1 where the host does not say.
	NUMA        int      `json:"numa"`
	Vendor      ID       `json:"vendor"`
	Product     ID       `json:"device"`
	VendorName  string   `json:"vendorName,omitempty"`
	ProductName string   `json:"deviceName,omitempty"`
	Driver      string   `json:"driver,omitempty"`
	RDMA        []string `json:"rdmaDevices,omitempty"`
}

// PF is a NIC: a physical function, or whatever has a netdev and no PF above
// it, such as a virtio NIC, which is a PF without VFs here.
type PF struct {
	Device
	Class Class `json:"class"`
	// Number is the PF's number in the eswitch; absent where nothing tells it.
	Number *uint32 `json:"pfNumber,omitempty"`
	// Ports are the netdevs of the physical ports. The first is the uplink, which in
	// switchdev mode is the uplink representor; several mean a NIC with more
	// than one port on one function.
	Ports   []Netdev `json:"ports,omitempty"`
	Eswitch Eswitch  `json:"eswitch"`
	// TotalVFs is how many VFs the NIC could have.
	TotalVFs int `json:"totalVFs"`
	// NumVFs is how many the kernel says there are; VFs lacks those that could
	// not be read.
	NumVFs int  `json:"-"`
	VFs    []VF `json:"vfs,omitempty"`
	SFs    []SF `json:"sfs,omitempty"`
	// Representors are those of functions of other hosts, and those whose function is not certain.
	Representors []Representor `json:"representors,omitempty"`
	Problems     []string      `json:"problems,omitempty"`
}

// Uplink is the first port, or nil: in another namespace, or no netdev driver.
func (p *PF) Uplink() *Netdev {
	if len(p.Ports) == 0 {
		return nil
	}
	return &p.Ports[0]
}

// Switchdev reports whether representors forward, as devlink says.
func (p *PF) Switchdev() bool { return p.Eswitch.Mode == Switchdev }

// Mode is an eswitch's mode.
type Mode string

// The modes. Whatever devlink does not call switchdev is Legacy; a NIC that
// has neither VFs nor a devlink answer has no eswitch, which is NoSwitch.
const (
	NoSwitch  Mode = "none"
	Legacy    Mode = "legacy"
	Switchdev Mode = "switchdev"
	Unknown   Mode = "unknown" // a mode newer than we are, or a NIC that has not answered yet
)

// Eswitch is a NIC's embedded switch. ID names the card: its PFs share it, and mlx5 has
// one in legacy mode as well, so that it says nothing of the mode.
type Eswitch struct {
	Mode       Mode   `json:"mode"`
	ID         string `json:"switchID,omitempty"`
	InlineMode string `json:"inlineMode,omitempty"`
	EncapMode  string `json:"encapMode,omitempty"`
	// Multiport joins the eswitches of a card's PFs without a bond.
	Multiport bool `json:"multiport,omitempty"`
}

// VF is a virtual function of the PF above it.
type VF struct {
	Index int `json:"index"`
	Device
	IOMMUGroup string `json:"iommuGroup,omitempty"`
	// Netdev is nil while the VF is a pod's, bound to vfio, or without driver.
	Netdev *Netdev `json:"netdev,omitempty"`
	// Representor is nil in legacy mode, and where none was certain.
	Representor *Representor `json:"representor,omitempty"`
}

// Vfio reports whether a userspace driver through VFIO has the VF; vendors
// have variants of it, such as mlx5_vfio_pci.
func (v *VF) Vfio() bool { return strings.Contains(v.Driver, "vfio") }

// SF is a scalable function on this host. Its device's name changes when it
// is created again, its number does not.
type SF struct {
	Number uint32 `json:"number"`
	// Device is on the auxiliary bus, such as mlx5_core.sf.2.
	Device string   `json:"device"`
	Driver string   `json:"driver,omitempty"`
	RDMA   []string `json:"rdmaDevices,omitempty"`

	Netdev      *Netdev      `json:"netdev,omitempty"`
	Representor *Representor `json:"representor,omitempty"`
}

// Representor is the eswitch port of a function.
type Representor struct {
	Netdev
	Function PortName `json:"function"`
	// FunctionMAC is what the function will use, where the driver tells it.
	FunctionMAC MAC `json:"functionMAC,omitempty"`
	// State is that of an SF: inactive, active or attached.
	State string `json:"state,omitempty"`
}

// Netdev is a network device of the node's own namespace.
type Netdev struct {
	Name  string `json:"netdev"`
	Index int    `json:"ifindex,omitempty"`
	MAC   MAC    `json:"mac,omitempty"`
	// PermanentMAC is the NIC's own; in a bond MAC is the bond's.
	PermanentMAC MAC  `json:"permanentMAC,omitempty"`
	MTU          int  `json:"mtu,omitempty"`
	Up           bool `json:"up"`
	Carrier      bool `json:"carrier"`
	// Master is the bridge or bond that has it as a port.
	Master string `json:"master,omitempty"`
	// LACP says that the port of a bond of mode 802.3ad has negotiated with the switch.
	LACP bool `json:"lacp,omitempty"`
	// Use is what the node does with it, such as "has address 10.1.2.3/24". It is
	// not of representors.
	Use string `json:"use,omitempty"`
	// NoParent says that the kernel does not tell the device of the netdev, as kernels
	// before 5.14 do not.
	NoParent bool `json:"noParent,omitempty"`
	// HWTC is hw-tc-offload; nil where it was not asked for or not answered.
	HWTC *bool `json:"hwTCOffload,omitempty"`
}

// Link is one word for the state: up, no-carrier or down.
func (n *Netdev) Link() string {
	switch {
	case !n.Up:
		return "down"
	case !n.Carrier:
		return "no-carrier"
	default:
		return "up"
	}
}

// Bond joins uplinks.
type Bond struct {
	Netdev
	// Mode is as in sysfs, such as 802.3ad or active-backup.
	Mode  string   `json:"mode"`
	Ports []string `json:"ports"`
	// LAG says that the NIC could join its PFs' eswitches behind the bond: all
	// ports are uplinks of one card in switchdev mode. Reason says why not.
	LAG    bool   `json:"vfLAG"`
	Reason string `json:"reason,omitempty"`
}

// MAC is a hardware address of any length that reads as text in JSON.
type MAC net.HardwareAddr

func (m MAC) String() string { return net.HardwareAddr(m).String() }

// MarshalText writes pairs of digits with colons.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (m *MAC) UnmarshalText(text []byte) error {
	*m = nil
	if len(text) == 0 {
		return nil
	}
	mac, err := net.ParseMAC(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a MAC address", text)
	}
	*m = MAC(mac)
	return nil
}
