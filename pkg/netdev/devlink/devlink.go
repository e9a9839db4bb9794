// Package devlink asks and sets what instances of devlink say: the modes of eswitches, the ports, and the MAC of a port's
// function.
//
// Place in the data flow:
//
//	pkg/vf         the inventory: eswitches and ports of the PFs  \
//	                                                               > Devices -> netdev.Devices.DevlinkRequest
//	pkg/vf/attach  the MAC of a VF, through its representor       /
//
// Each question is to one instance, and so takes one lock. Each VF is an instance as well, with a lock that its driver
// holds while the VF starts, and so the netlink library's lists of all instances wait for each VF. That library also
// drops the errors of eswitches that do not answer. docs/decisions/netlink-requests.md has the reasons.
package devlink

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Devices is netdev.Devices with the questions to instances. It is safe for concurrent use.
type Devices struct {
	*netdev.Devices
	links *netdev.NS

	mu        sync.Mutex
	addresses []string                      // the NICs whose ports were listed last
	ports     map[string]netdev.DevlinkPort // as they were listed last, by netdev
}

// Open takes the devices of the namespace. The NS stays the caller's, and is closed after the Devices.
func Open(n *netdev.NS) (*Devices, error) {
	devices, err := netdev.OpenDevices(n)
	if err != nil {
		return nil, err
	}
	return &Devices{Devices: devices, links: n}, nil
}

// Eswitch asks a NIC on PCI. An error is no answer: the driver may be busy, as while VFs are made, and be in any mode.
// Only this instance is locked: a list of all instances waits for each VF that is starting.
func (d *Devices) Eswitch(address string) (netdev.Eswitch, error) {
	answers, err := d.DevlinkRequest(nl.DEVLINK_CMD_ESWITCH_GET, unix.NLM_F_ACK, "pci", address)
	if isAbsent(err) {
		return netdev.Eswitch{}, nil
	}
	if err == nil && len(answers) == 0 {
		err = errors.New("an empty answer")
	}
	if err != nil {
		return netdev.Eswitch{}, fmt.Errorf("asking for the eswitch mode of pci/%s: %w", address, err)
	}
	return parseEswitch(answers[0])
}

// DevlinkPorts lists the ports of NICs on PCI, or those of all instances if none is named. Kernels before 6.6 list all in
// each case, which is noticed and asked for once.
func (d *Devices) DevlinkPorts(addresses ...string) ([]netdev.DevlinkPort, error) {
	ports, err := d.list(addresses)
	if err != nil {
		return nil, err
	}
	byNetdev := map[string]netdev.DevlinkPort{}
	for _, p := range ports {
		byNetdev[p.Netdev] = p
	}
	d.mu.Lock()
	d.addresses, d.ports = slices.Clone(addresses), byNetdev
	d.mu.Unlock()
	return ports, nil
}

func (d *Devices) list(addresses []string) (ports []netdev.DevlinkPort, err error) {
	if len(addresses) == 0 {
		ports, err = d.dumpPorts("", "")
	} else {
		ports, err = portsOf(addresses, func(address string) ([]netdev.DevlinkPort, error) { return d.dumpPorts("pci", address) })
	}
	if err != nil {
		return nil, fmt.Errorf("listing devlink ports: %w", err)
	}
	return ports, nil
}

// portsOf joins the ports of instances. An instance that fails takes away the ports of all: some would pass for all.
func portsOf(addresses []string, dump func(address string) ([]netdev.DevlinkPort, error)) (all []netdev.DevlinkPort, err error) {
	for _, address := range addresses {
		ports, err := dump(address)
		if err != nil {
			return nil, fmt.Errorf("of pci/%s: %w", address, err)
		}
		for _, p := range ports {
			if p.Bus != "pci" || p.Device != address {
				return ports, nil // the kernel has listed those of all instances
			}
		}
		all = append(all, ports...)
	}
	return all, nil
}

// dumpPorts gives none of an instance that is not there, or in a kernel without devlink.
func (d *Devices) dumpPorts(bus, device string) ([]netdev.DevlinkPort, error) {
	answers, err := d.DevlinkRequest(nl.DEVLINK_CMD_PORT_GET, unix.NLM_F_ACK|unix.NLM_F_DUMP, bus, device)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ports := make([]netdev.DevlinkPort, len(answers))
	for i, answer := range answers {
		if ports[i], err = parseDevlinkPort(answer); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// isAbsent says that there is no instance, or that the instance has no eswitch, or none for this machine: mlx5 answers
// EPERM to a host whose DPU has the eswitch, and EINVAL while it has not made one.
func isAbsent(err error) bool {
	for _, absent := range []error{os.ErrNotExist, unix.ENODEV, unix.EOPNOTSUPP, unix.EPERM, unix.EINVAL} {
		if errors.Is(err, absent) {
			return true
		}
	}
	return false
}

// SetFunctionMAC is netdev.Devices.SetVFMAC through the function's port of the switch, as
// "devlink port function set" does it.
func (d *Devices) SetFunctionMAC(representor string, mac net.HardwareAddr) error {
	p, err := d.portOf(representor)
	if err != nil {
		return err
	}
	index := nl.NewRtAttr(nl.DEVLINK_ATTR_PORT_INDEX, nl.Uint32Attr(p.Index))
	function := nl.NewRtAttr(nl.DEVLINK_ATTR_PORT_FUNCTION|unix.NLA_F_NESTED, nil)
	function.AddRtAttr(nl.DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR, mac)
	if _, err := d.DevlinkRequest(nl.DEVLINK_CMD_PORT_SET, unix.NLM_F_ACK, p.Bus, p.Device, index, function); err != nil {
		return fmt.Errorf("setting MAC %s of the function behind %s: %w", mac, representor, err)
	}
	return nil
}

// FunctionMAC is what the function will use now; nil when it has none, or its
// driver does not tell.
func (d *Devices) FunctionMAC(representor string) (net.HardwareAddr, error) {
	p, err := d.portOf(representor)
	if errors.Is(err, netdev.ErrNotFound) {
		return nil, nil
	}
	return p.Function.MAC, err
}

// portOf asks for the port that the last list had for the representor. If that is another one by now, as when links were
// renamed, it lists the ports of the representor's NIC. (Before Linux 6.2 a link does not tell its port, and the library
// does not read it.)
func (d *Devices) portOf(representor string) (netdev.DevlinkPort, error) {
	d.mu.Lock()
	last, seen := d.ports[representor]
	addresses := d.addresses
	d.mu.Unlock()
	if seen {
		port, err := d.port(last)
		if err == nil && port.Netdev == representor {
			return port, nil
		}
	}
	link, err := d.links.Link(representor)
	if err != nil {
		return netdev.DevlinkPort{}, fmt.Errorf("devlink port of %s: %w", representor, err)
	}
	if link.Parent != "" {
		addresses = []string{link.Parent}
	}
	ports, err := d.list(addresses)
	if err != nil {
		return netdev.DevlinkPort{}, err
	}
	for _, p := range ports {
		if p.Netdev == representor {
			return p, nil
		}
	}
	return netdev.DevlinkPort{}, fmt.Errorf("devlink port of %s: %w", representor, netdev.ErrNotFound)
}

// port asks for a port anew.
func (d *Devices) port(p netdev.DevlinkPort) (netdev.DevlinkPort, error) {
	index := nl.NewRtAttr(nl.DEVLINK_ATTR_PORT_INDEX, nl.Uint32Attr(p.Index))
	answers, err := d.DevlinkRequest(nl.DEVLINK_CMD_PORT_GET, unix.NLM_F_ACK, p.Bus, p.Device, index)
	if err != nil || len(answers) == 0 {
		return netdev.DevlinkPort{}, err
	}
	return parseDevlinkPort(answers[0])
}
