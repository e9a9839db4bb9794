package plug

import (
	"bytes"
	"errors"
	"net"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// recordMAC puts the MAC that the function has now into the rows. It gives the representor.
func (o *OVS) recordMAC(p Port, want ovsdb.Want) (netdev.Link, error) {
	if o.Functions == nil || p.VF == nil {
		return netdev.Link{}, nil
	}
	link, err := o.Host.Link(p.Link)
	if err != nil {
		return link, err
	}
	former, err := o.formerMAC(p, link)
	for _, row := range want.Rows {
		if i, ok := row.Model.(*vswitch.Interface); ok && former != "" {
			i.ExternalIDs[formerMACKey] = former
		}
	}
	return link, err
}

// formerMAC is what the function is to have after its pod: recorded, or its MAC of now.
// It is "" for a representor that is up and has no record.
func (o *OVS) formerMAC(p Port, link netdev.Link) (string, error) {
	if now, ok := find(o.DB, p.Pod); ok && now.Link == p.Link && now.formerMAC != "" {
		return now.formerMAC, nil
	}
	if link.Up {
		return "", nil
	}
	mac, err := o.Functions.FunctionMAC(p.Link)
	if bytes.Equal(mac, p.MAC) { // of an earlier port whose rows are lost
		mac = nil
	}
	return orZeros(mac).String(), err
}

// restoreMAC gives a function the MAC that it had before its pod. A driver that has
// refused the pod's may refuse this one, too.
func (o *OVS) restoreMAC(was ovsPort) error {
	former, _ := net.ParseMAC(was.formerMAC)
	if former == nil || o.Functions == nil { // it was not changed
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
