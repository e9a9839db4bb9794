package netdev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Features are a link's offloads that matter for the eswitch.
type Features struct {
	// HWTC is hw-tc-offload; false also where the NIC cannot.
	HWTC bool
}

// Features asks the link's driver; ErrNotFound when there is no such link.
func (d *Devices) Features(link string) (Features, error) {
	all, err := d.ethtool.Features(link)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return Features{}, nil
	case errors.Is(err, unix.ENODEV):
		err = ErrNotFound
	}
	if err != nil {
		return Features{}, fmt.Errorf("features of link %s: %w", link, err)
	}
	return Features{HWTC: all["hw-tc-offload"]}, nil
}

// RDMADevice is one device as the RDMA subsystem knows it.
type RDMADevice struct {
	Name  string
	Index uint32
	// NodeGUID is eight bytes in hexadecimal with colons.
	NodeGUID, Firmware string
}

// RDMA lists the devices of the namespace, and whether each namespace has its
// own ("exclusive") or sees all ("shared"); "" in a kernel without RDMA.
func (d *Devices) RDMA() (mode string, devices []RDMADevice, err error) {
	if d.rdma == nil {
		return "", nil, nil
	}
	if mode, err = d.rdma.RdmaSystemGetNetnsMode(); err != nil {
		return "", nil, fmt.Errorf("asking for the RDMA namespace mode: %w", err)
	}
	list, err := retryDump(d.rdma.RdmaLinkList)
	if err != nil {
		return "", nil, fmt.Errorf("listing RDMA devices: %w", err)
	}
	for _, l := range list {
		a := l.Attrs
		devices = append(devices, RDMADevice{Name: a.Name, Index: a.Index, NodeGUID: a.NodeGuid, Firmware: a.FirmwareVersion})
	}
	return mode, devices, nil
}
