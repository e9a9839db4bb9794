package netdev

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// SetVFMAC sets what a VF will use when its driver starts, through its PF. A
// driver that has started need not take notice.
func (d *Devices) SetVFMAC(pf string, vf int, mac net.HardwareAddr) error {
	l, err := find(d.ns, pf)
	if err != nil {
		return err
	}
	if err := d.ns.handle.LinkSetVfHardwareAddr(l, vf, mac); err != nil {
		return fmt.Errorf("setting MAC %s of VF %d of %s: %w", mac, vf, pf, err)
	}
	return nil
}

// SetFunctionMAC is SetVFMAC through the function's port of the switch, as
// "devlink port function set" does it.
func (d *Devices) SetFunctionMAC(representor string, mac net.HardwareAddr) error {
	p, err := d.portOf(representor)
	if err != nil {
		return err
	}
	err = d.generic.DevlinkPortFnSet(p.Bus, p.Device, p.Index, netlink.DevlinkPortFnSetAttrs{
		FnAttrs: netlink.DevlinkPortFn{HwAddr: mac}, HwAddrValid: true,
	})
	if err != nil {
		return fmt.Errorf("setting MAC %s of the function behind %s: %w", mac, representor, err)
	}
	return nil
}

// FunctionMAC is what the function will use now; nil when it has none, or its
// driver does not tell.
func (d *Devices) FunctionMAC(representor string) (net.HardwareAddr, error) {
	p, err := d.portOf(representor)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return p.Function.MAC, err
}

// portOf asks for the port that the last dump had for the representor, and lists all
// ports only where that is another one by now. (Before Linux 6.2 a link does not tell
// its port, and the library does not read it.)
func (d *Devices) portOf(representor string) (DevlinkPort, error) {
	d.mu.Lock()
	last, seen := d.ports[representor]
	d.mu.Unlock()
	if seen {
		port, err := d.generic.DevLinkGetPortByIndex(last.Bus, last.Device, last.Index)
		if err == nil && port.NetdeviceName == representor {
			return fromDevlinkPort(port), nil
		}
	}
	ports, err := d.DevlinkPorts()
	if err != nil {
		return DevlinkPort{}, err
	}
	for _, p := range ports {
		if p.Netdev == representor {
			return p, nil
		}
	}
	return DevlinkPort{}, fmt.Errorf("devlink port of %s: %w", representor, ErrNotFound)
}
