package netdev

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Devices asks the kernel about NICs: devlink, features and RDMA. It sees the
// devices of one namespace. A kernel without devlink or RDMA has none of them,
// which is no error. It is safe for concurrent use.
type Devices struct {
	ns      *NS
	generic *netlink.Handle
	rdma    *netlink.Handle // nil: a kernel without RDMA
	ethtool *ethtool.Ethtool

	mu    sync.Mutex
	ports map[string]DevlinkPort // of the last dump, by netdev
}

// DevlinkDevice is one instance, named as devlink(8) does: pci/0000:03:00.0.
type DevlinkDevice struct {
	Bus, Name string
	// Mode is legacy, switchdev, "unknown" for one that is newer than we are,
	// or "" where the device has no answer.
	Mode string
	// InlineMode and EncapMode are as in devlink(8), where the device has them.
	InlineMode, EncapMode string
}

// DevlinkPort is a port of an instance. Pointers are nil where the driver does
// not say.
type DevlinkPort struct {
	Bus, Device string
	Index       uint32
	// Netdev is empty when the port has none, or none in this namespace.
	Netdev     string
	Flavour    Flavour
	Controller *uint32
	External   *bool
	// Number is the number of the port for physical ports, of the function
	// for VFs and SFs; PF that of the physical function.
	PF, Number *uint32
	Function   PortFunction
}

// PortFunction is the far side of a port, where the driver tells it.
type PortFunction struct {
	// MAC is what the function will use; nil when it has none or all zeros.
	MAC net.HardwareAddr
	// Active and Attached are of scalable functions: activated by us, and
	// taken by a driver.
	Active, Attached bool
}

// Flavour is devlink's word for what a port leads to.
type Flavour string

// The flavours that matter here; a port of any other kind has its number.
const (
	FlavourPhysical Flavour = "physical"
	FlavourPF       Flavour = "pcipf"
	FlavourVF       Flavour = "pcivf"
	FlavourSF       Flavour = "pcisf"
	FlavourVirtual  Flavour = "virtual"
)

// OpenDevices takes the devices of the namespace. The NS stays the caller's.
func OpenDevices(n *NS) (*Devices, error) {
	d := &Devices{ns: n}
	var err error
	if d.generic, err = netlink.NewHandleAt(n.ns, unix.NETLINK_GENERIC); err != nil {
		return nil, fmt.Errorf("opening generic netlink: %w", err)
	}
	// The socket belongs to the namespace in which it is made, for good.
	err = inside(n, func() (err error) {
		d.ethtool, err = ethtool.NewEthtool()
		return err
	})
	if err != nil {
		_ = d.generic.Close()
		return nil, fmt.Errorf("opening a socket for ethtool: %w", err)
	}
	if d.rdma, err = netlink.NewHandleAt(n.ns, unix.NETLINK_RDMA); err != nil {
		d.rdma = nil
		if !errors.Is(err, unix.EPROTONOSUPPORT) {
			return nil, errors.Join(fmt.Errorf("opening RDMA netlink: %w", err), d.Close())
		}
	}
	return d, nil
}

// Close gives the sockets back.
func (d *Devices) Close() error {
	d.ethtool.Close()
	err := d.generic.Close()
	if d.rdma != nil {
		err = errors.Join(err, d.rdma.Close())
	}
	return err
}

// Devlink lists the instances with the modes of their eswitches.
func (d *Devices) Devlink() ([]DevlinkDevice, error) {
	list, err := retryDump(d.generic.DevLinkGetDeviceList)
	if err = withoutDevlink(err); err != nil {
		return nil, fmt.Errorf("listing devlink devices: %w", err)
	}
	out := make([]DevlinkDevice, len(list))
	for i, dev := range list {
		sw := dev.Attrs.Eswitch
		out[i] = DevlinkDevice{
			Bus: dev.BusName, Name: dev.DeviceName,
			Mode: sw.Mode, InlineMode: sw.InlineMode, EncapMode: sw.EncapMode,
		}
	}
	return out, nil
}

// DevlinkPorts lists the ports of all instances, in one dump.
func (d *Devices) DevlinkPorts() ([]DevlinkPort, error) {
	list, err := retryDump(d.generic.DevLinkGetAllPortList)
	if err = withoutDevlink(err); err != nil {
		return nil, fmt.Errorf("listing devlink ports: %w", err)
	}
	out, byNetdev := make([]DevlinkPort, len(list)), map[string]DevlinkPort{}
	for i, port := range list {
		out[i] = fromDevlinkPort(port)
		byNetdev[out[i].Netdev] = out[i]
	}
	d.mu.Lock()
	d.ports = byNetdev
	d.mu.Unlock()
	return out, nil
}

// DevlinkParam gives the value of a parameter, such as true for esw_multiport,
// now in use or else the one for the next start; "" where there is none.
func (d *Devices) DevlinkParam(bus, device, name string) (string, error) {
	p, err := d.generic.DevlinkGetDeviceParamByName(bus, device, name)
	if absent(err) || (err == nil && len(p.Values) == 0) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("devlink parameter %s of %s/%s: %w", name, bus, device, err)
	}
	value := p.Values[0]
	for _, v := range p.Values {
		if v.CMODE == nl.DEVLINK_PARAM_CMODE_RUNTIME {
			value = v
		}
	}
	return fmt.Sprint(value.Data), nil
}

// withoutDevlink takes away the error of a kernel that has no devlink at all.
func withoutDevlink(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func fromDevlinkPort(p *netlink.DevlinkPort) DevlinkPort {
	out := DevlinkPort{
		Bus: p.BusName, Device: p.DeviceName, Index: p.PortIndex, Netdev: p.NetdeviceName,
		Controller: p.ControllerNumber, External: p.External,
	}
	if p.PfNumber != nil {
		n := uint32(*p.PfNumber)
		out.PF = &n
	}
	switch p.PortFlavour {
	case nl.DEVLINK_PORT_FLAVOUR_PHYSICAL:
		out.Flavour, out.Number = FlavourPhysical, p.PortNumber
	case nl.DEVLINK_PORT_FLAVOUR_PCI_PF:
		out.Flavour = FlavourPF
	case nl.DEVLINK_PORT_FLAVOUR_PCI_VF:
		out.Flavour = FlavourVF
		if p.VfNumber != nil {
			n := uint32(*p.VfNumber)
			out.Number = &n
		}
	case nl.DEVLINK_PORT_FLAVOUR_PCI_SF:
		out.Flavour, out.Number = FlavourSF, p.SfNumber
	case nl.DEVLINK_PORT_FLAVOUR_VIRTUAL:
		out.Flavour = FlavourVirtual
	default:
		out.Flavour = Flavour(fmt.Sprint(p.PortFlavour))
	}
	if p.Fn != nil {
		out.Function = PortFunction{
			Active:   p.Fn.State == nl.DEVLINK_PORT_FN_STATE_ACTIVE,
			Attached: p.Fn.OpState == nl.DEVLINK_PORT_FN_OPSTATE_ATTACHED,
		}
		for _, b := range p.Fn.HwAddr {
			if b != 0 {
				out.Function.MAC = p.Fn.HwAddr
			}
		}
	}
	return out
}
