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

func (d *Devices) portOf(representor string) (DevlinkPort, error) {
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
