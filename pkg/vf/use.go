package vf

import (
	"net/netip"
	"path"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Above is what the node has built on a netdev. Links in other namespaces, such as
// the macvlan link of a pod, are not seen.
type Above struct {
	// Master is the bridge or bond that has the netdev as a port.
	Master string
	// Uppers are the other links on top of the netdev, such as VLANs.
	Uppers []string
}

// above reads the directory of a netdev in sysfs.
func above(sys netdev.Sysfs, dir string) (Above, error) {
	var a Above
	master, err := sys.Target(dir + "/master")
	if err != nil {
		return a, err
	}
	if master != "" {
		a.Master = path.Base(master)
	}
	names, err := sys.Names(dir)
	for _, name := range names {
		if upper, ok := strings.CutPrefix(name, "upper_"); ok && upper != a.Master {
			a.Uppers = append(a.Uppers, upper)
		}
	}
	return a, err
}

// use says what the node does with a netdev, "" when nothing is seen. The kernel
// makes link-local addresses by itself.
func use(a Above, addresses []netip.Prefix) string {
	switch {
	case a.Master != "":
		return "is a port of " + a.Master
	case len(a.Uppers) > 0:
		return "carries " + strings.Join(a.Uppers, ", ")
	}
	for _, prefix := range addresses {
		if !prefix.Addr().IsLinkLocalUnicast() {
			return "has address " + prefix.String()
		}
	}
	return ""
}

// Use says what the node does with the netdev of a VF, "" when nothing is seen. It
// asks the kernel, because an inventory may be older than the use.
func (n *Node) Use(device string) (string, error) {
	_, names, err := netdev.PCINetdevs(n.Sysfs, device)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		on, err := above(n.Sysfs, "class/net/"+name)
		if err != nil {
			return "", err
		}
		addresses, err := n.Links.Addrs(name)
		if err != nil {
			return "", err
		}
		if what := use(on, addresses); what != "" {
			return name + " " + what, nil
		}
	}
	return "", nil
}

// Use says what the node does with the VF, "" when nothing is seen.
func (v *VF) Use() string {
	if v.Netdev == nil || v.Netdev.Use == "" {
		return ""
	}
	return v.Netdev.Name + " " + v.Netdev.Use
}

// InUseBy says who uses the VF, "" when no use is seen: a VF with a netdev driver
// and no netdev here has one in another namespace.
func (v *VF) InUseBy() string {
	if v.Netdev == nil && v.Driver != "" && !v.Vfio() {
		return "its netdev is in another namespace"
	}
	return v.Use()
}
