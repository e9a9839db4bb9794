package netdev

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// SetEswitchMode sets the mode of the eswitch of a NIC on PCI: legacy or switchdev. The driver makes and removes
// representors meanwhile, which takes seconds.
func (d *Devices) SetEswitchMode(address, mode string) error {
	handle, err := openHandle(d.ns.ns, unix.NETLINK_GENERIC) // of its own: questions about other NICs do not wait
	if err != nil {
		return fmt.Errorf("opening generic netlink: %w", err)
	}
	defer func() { _ = handle.Close() }()
	err = handle.DevLinkSetEswitchMode(&netlink.DevlinkDevice{BusName: "pci", DeviceName: address}, mode)
	if err != nil {
		return fmt.Errorf("setting the eswitch of pci/%s to %s: %w", address, mode, err)
	}
	return nil
}

// SetVFMAC sets what a VF will use when its driver starts, through its PF. A driver that has started need not take
// notice.
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

// ErrStillEnabled says that a driver keeps hw-tc-offload on, as each does while the link has rules of TC.
var ErrStillEnabled = errors.New("the driver keeps it on, as it does while there are rules")

// SetHWTC switches a link's hw-tc-offload. The kernel returns no error when the driver leaves the feature as it was, so
// it is read back.
func (d *Devices) SetHWTC(link string, on bool) error {
	err := d.ethtool.Change(link, map[string]bool{"hw-tc-offload": on})
	var now Features
	if err == nil {
		now, err = d.Features(link)
	}
	switch {
	case err != nil:
	case now.HWTC && !on:
		err = ErrStillEnabled
	case !now.HWTC && on:
		err = errors.New("the driver leaves it off")
	}
	if err != nil {
		return fmt.Errorf("setting hw-tc-offload of %s to %t: %w", link, on, err)
	}
	return nil
}

// SetVFs makes a NIC on PCI have so many VFs; root is where sysfs is mounted. The kernel refuses to go from one number
// to another other than by way of 0. It returns when the VFs' drivers have been asked to take them.
func SetVFs(root, address string, n int) error {
	file := filepath.Join(root, "bus/pci/devices", filepath.Base(address), "sriov_numvfs")
	f, err := os.OpenFile(file, os.O_WRONLY, 0) // never made: a NIC without SR-IOV has none
	if err != nil {
		return fmt.Errorf("setting the number of VFs of %s: %w", address, err)
	}
	defer f.Close()
	if _, err := f.WriteString(strconv.Itoa(n)); err != nil {
		return fmt.Errorf("setting the number of VFs of %s to %d: %w", address, n, err)
	}
	return nil
}
