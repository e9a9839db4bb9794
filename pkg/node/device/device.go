// Package device finds a link of the host whose name changes: at a boot, or with the mode of a NIC's eswitch. A record
// has the devices under the link, such as PCI addresses, and the link is found by them.
//
// Place in the data flow:
//
//	links of the host (pkg/node) -> Identity, in the checkpoint of pkg/node/gateway -> the name that the link has now
//
// The package is pure: the caller observes and stores.
package device

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// Identity is the record of a link.
type Identity struct {
	Interface string `json:"interface"`
	// Former are names that the link had before.
	Former []string `json:"formerNames,omitempty"`
	// Devices are Of the link; none with kernels before 5.14.
	Devices []string `json:"devices,omitempty"`
	// Kind is the type of the link, VLAN its id.
	Kind string `json:"kind,omitempty"`
	VLAN int    `json:"vlan,omitempty"`
}

// Equal compares what Record sets, and the name.
func (i Identity) Equal(o Identity) bool {
	return i.Interface == o.Interface && slices.Equal(i.Devices, o.Devices) && i.Kind == o.Kind && i.VLAN == o.VLAN
}

// String is the name with its devices.
func (i Identity) String() string {
	if len(i.Devices) == 0 {
		return i.Interface
	}
	return i.Interface + " (" + strings.Join(i.Devices, ", ") + ")"
}

// Of gives the devices that a link stands on: its own, that under a VLAN, those of a bond's ports. Links of software, and
// all links of kernels before 5.14, have none.
func Of(s node.State, name string) []string {
	link := s.Links[name]
	if link.Parent != "" {
		return []string{link.Parent}
	}
	var devices []string
	for lower, l := range s.Links {
		if link.Lower != 0 && l.Index == link.Lower || link.Type == "bond" && l.Master == link.Index {
			devices = append(devices, Of(s, lower)...)
		}
	}
	slices.Sort(devices)
	return slices.Compact(devices)
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(device string) bool { return slices.Contains(b, device) })
}

// Record notes what the link stands on. A bond that has lost a port keeps the record of the port.
func (i *Identity) Record(s node.State) {
	devices := Of(s, i.Interface)
	if len(devices) > 0 && !overlap(devices, i.Devices) {
		i.Devices = devices
	}
	link := s.Links[i.Interface]
	i.Kind, i.VLAN = link.Type, link.VLAN
}

// Renamed is the record under another name.
func (i Identity) Renamed(name string) Identity {
	former := slices.DeleteFunc(slices.Clone(i.Former), func(f string) bool { return f == name })
	i.Former, i.Interface = append(former, i.Interface), name
	return i
}

// Traits of a link decide between several links of one device, and recognize a device that has another address.
type Traits struct {
	MAC       contract.MAC
	Addresses []netip.Prefix
	// Others are links with the same device that are not meant: representors have the device of their NIC.
	Others []string
}

// Find gives the name that the link has now. An absent link keeps its name. The error is reconcile.ErrNotReady.
func (i Identity) Find(s node.State, was Traits) (string, error) {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(s.Links)) {
		link := s.Links[name]
		same := link.Type == i.Kind && link.VLAN == i.VLAN && overlap(Of(s, name), i.Devices)
		if same && !slices.Contains(was.Others, name) {
			found = append(found, name)
		}
	}
	if slices.Contains(found, i.Interface) {
		return i.Interface, nil
	}
	byMAC := slices.DeleteFunc(slices.Clone(found), func(name string) bool { return !bytes.Equal(s.Links[name].MAC, was.MAC) })
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(byMAC) == 1:
		return byMAC[0], nil
	case len(found) > 1:
		return "", node.NotReady("interface %s has another name: one of %s", i, strings.Join(found, ", "))
	}
	return i.sameName(s, was)
}

// sameName is for a device with another address, as when a card was added to the host. The link with the name is
// the one if it has the MAC or an address of the record.
func (i Identity) sameName(s node.State, was Traits) (string, error) {
	link, exists := s.Links[i.Interface]
	now := Of(s, i.Interface)
	addressed := slices.ContainsFunc(was.Addresses, func(addr netip.Prefix) bool { return slices.Contains(s.Addrs[i.Interface], addr) })
	if !exists || len(now) == 0 || len(i.Devices) == 0 || bytes.Equal(link.MAC, was.MAC) || addressed {
		return i.Interface, nil
	}
	return "", node.NotReady("interface %s is another NIC than before (%s, was %s)", i.Interface, strings.Join(now, ", "), strings.Join(i.Devices, ", "))
}
