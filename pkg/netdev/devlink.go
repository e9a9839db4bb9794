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
	devlink map[int]*nl.SocketHandle // for questions to one instance, which the library has not
	rdma    *netlink.Handle          // nil: a kernel without RDMA
	ethtool *ethtool.Ethtool

	mu     sync.Mutex
	family int // of generic netlink; 0 before the first question
}

// Eswitch is what a NIC says of its embedded switch.
type Eswitch struct {
	// Mode is legacy, switchdev, "unknown" for one that is newer than we are, or "" for a NIC that has no eswitch, or
	// none that this machine may ask for: mlx5 refuses a host whose DPU has it.
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
	if d.generic, err = openHandle(n.ns, unix.NETLINK_GENERIC); err != nil {
		return nil, fmt.Errorf("opening generic netlink: %w", err)
	}
	if d.devlink, err = openSocket(n.ns, unix.NETLINK_GENERIC); err != nil {
		_ = d.generic.Close()
		return nil, fmt.Errorf("opening generic netlink: %w", err)
	}
	// The socket belongs to the namespace in which it is made, for good.
	err = inside(n, func() (err error) {
		d.ethtool, err = ethtool.NewEthtool()
		return err
	})
	if err != nil {
		_, _ = d.generic.Close(), d.devlink[unix.NETLINK_GENERIC].Close()
		return nil, fmt.Errorf("opening a socket for ethtool: %w", err)
	}
	if d.rdma, err = openHandle(n.ns, unix.NETLINK_RDMA); err != nil {
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
	err := errors.Join(d.generic.Close(), d.devlink[unix.NETLINK_GENERIC].Close())
	if d.rdma != nil {
		err = errors.Join(err, d.rdma.Close())
	}
	return err
}

// DevlinkRequest sends a request about an instance, or about all if bus is empty, and gives the answers. The error is the
// kernel's number; ENOENT is a kernel without devlink.
func (d *Devices) DevlinkRequest(command uint8, flags int, bus, device string, more ...nl.NetlinkRequestData) ([][]byte, error) {
	family, err := d.devlinkFamily()
	if err != nil {
		return nil, err
	}
	return retryDump(func() ([][]byte, error) {
		request := nl.NewNetlinkRequest(family, flags)
		request.Sockets = d.devlink
		request.AddData(&nl.Genlmsg{Command: command, Version: nl.GENL_DEVLINK_VERSION})
		if bus != "" {
			request.AddData(nl.NewRtAttr(nl.DEVLINK_ATTR_BUS_NAME, nl.ZeroTerminated(bus)))
			request.AddData(nl.NewRtAttr(nl.DEVLINK_ATTR_DEV_NAME, nl.ZeroTerminated(device)))
		}
		for _, data := range more {
			request.AddData(data)
		}
		return request.Execute(unix.NETLINK_GENERIC, 0)
	})
}

// devlinkFamily asks until the kernel has devlink, which it then has for good.
func (d *Devices) devlinkFamily() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.family == 0 {
		family, err := d.generic.GenlFamilyGet(nl.GENL_DEVLINK_NAME)
		if err != nil {
			return 0, err
		}
		d.family = int(family.ID)
	}
	return d.family, nil
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
