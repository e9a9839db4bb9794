package cni

import (
	"bytes"
	"errors"
	"net"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// planMAC puts the MAC that the function has now into the rows, and gives what sets
// the pod's. A representor that is up was given its MAC before it came up.
func (o *OVS) planMAC(p Port, want ovsdb.Want) (set func() error, err error) {
	nothing := func() error { return nil }
	if o.Functions == nil || p.Device == nil {
		return nothing, nil
	}
	link, err := o.Host.Link(p.Link)
	if err != nil {
		return nil, err
	}
	former := ""
	if now, ok := find(o.DB, p.Pod); ok && now.Link == p.Link {
		former = now.formerMAC
	}
	if former == "" && !link.Up {
		mac, err := o.Functions.FunctionMAC(p.Link)
		if err != nil {
			return nil, err
		}
		if former = orZeros(mac).String(); bytes.Equal(mac, p.MAC) { // of an earlier port whose rows are lost
			former = orZeros(nil).String()
		}
	}
	for _, row := range want.Rows {
		if i, ok := row.Model.(*vswitch.Interface); ok && former != "" {
			i.ExternalIDs[formerMACKey] = former
		}
	}
	if link.Up {
		return nothing, nil
	}
	return func() error {
		err := o.Functions.SetFunctionMAC(p.Link, p.MAC)
		if err != nil && p.Device.VFIO { // a netdev takes the MAC by itself
			return err
		}
		return nil
	}, nil
}

// restoreMAC gives a function the MAC that it had before its pod. A driver that has
// refused the pod's may refuse this one, too.
func (o *OVS) restoreMAC(was ovsPort) error {
	former, err := net.ParseMAC(was.formerMAC)
	if err != nil || o.Functions == nil { // it was not changed
		return nil
	}
	now, err := o.Functions.FunctionMAC(was.Link)
	if err == nil && !bytes.Equal(orZeros(now), former) {
		err = o.Functions.SetFunctionMAC(was.Link, former)
	}
	if errors.Is(err, netdev.ErrNotFound) {
		return nil
	}
	return err
}

// orZeros writes the MAC of a function that has none as the kernel does.
func orZeros(mac net.HardwareAddr) net.HardwareAddr {
	if len(mac) == 0 {
		return make(net.HardwareAddr, 6)
	}
	return mac
}
