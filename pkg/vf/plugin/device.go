package plugin

import (
	"fmt"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// Device is a VF as a pool sees it.
type Device struct {
	// ID is what the kubelet and pods call it: the PCI address.
	ID              string
	PF              PF
	Index           int // among the PF's VFs
	Vendor, Product vf.ID
	Driver          string
	// NUMA is negative where the host does not say.
	NUMA int
	// RDMA devices; empty also while they are in a pod's namespace.
	RDMA        []string
	Representor string
	IOMMUGroup  string
	// Problem is why no pod should get it; "" when it is healthy.
	Problem string
}

// PF is what a device is part of.
type PF struct {
	// Name is that of the uplink's netdev; empty where there is none.
	Name string
	// Address is the PCI address.
	Address string
	Eswitch vf.Mode
	// LinkType is ether, infiniband, or "" where there is no netdev.
	LinkType string
	// Card says whether it is on the DPU, on a host that has one.
	Card vf.Card
}

// Uplink says who has the uplink of the VFs.
type Uplink bool

// With a DPU the netdev of a PF is a function of the host and says nothing of the
// uplink; the DPU's Lease does.
const (
	OwnUplink Uplink = false
	DPUUplink Uplink = true
)

// FromInventory gives a node's VFs, in the order of the inventory. SFs are
// not handed out: their devices' names do not outlive them.
func FromInventory(inv vf.Inventory, uplink Uplink) []Device {
	var out []Device
	for i := range inv.PFs {
		pf := &inv.PFs[i]
		of := PF{Address: pf.Name, Eswitch: pf.Eswitch.Mode}
		if up := pf.Uplink(); up != nil {
			of.Name, of.LinkType = up.Name, linkType(up)
		}
		problem := ""
		if uplink == OwnUplink {
			problem = uplinkProblem(pf, inv.Bonds)
		} else {
			of.Card = inv.Card(pf)
		}
		for j := range pf.VFs {
			v := &pf.VFs[j]
			d := Device{
				ID: v.Name, PF: of, Index: v.Index, Vendor: v.Vendor, Product: v.Product, Driver: v.Driver,
				NUMA: v.NUMA, RDMA: v.RDMA, IOMMUGroup: v.IOMMUGroup, Problem: problem,
			}
			if v.Representor != nil {
				d.Representor = v.Representor.Name
			}
			if d.Problem == "" {
				d.Problem = ownProblem(pf, v)
			}
			out = append(out, d)
		}
	}
	return out
}

func linkType(n *vf.Netdev) string {
	const ipoib = 20 // bytes of such a hardware address
	if len(n.MAC) == ipoib {
		return "infiniband"
	}
	return "ether"
}

// uplinkProblem is the reason why a pod on the PF would have no network, "" if none. One link of a bond with a carrier is
// enough. A PF without a netdev here has no problem, such as a PF whose uplink is on a DPU.
func uplinkProblem(pf *vf.PF, bonds []vf.Bond) string {
	up := pf.Uplink()
	if up == nil {
		return ""
	}
	for i := range bonds {
		if b := &bonds[i]; slices.Contains(b.Ports, up.Name) {
			up = &b.Netdev
			break
		}
	}
	if up.Up && up.Carrier {
		return ""
	}
	return fmt.Sprintf("uplink %s is %s", up.Name, up.Link())
}

// ownProblem says nothing of a VF without a netdev: a pod may have it.
func ownProblem(pf *vf.PF, v *vf.VF) string {
	switch {
	case v.Driver == "":
		return "no driver is bound"
	case pf.Switchdev() && v.Representor == nil:
		return "no representor was found"
	case v.Netdev != nil && v.Netdev.NoParent:
		return "the kernel is older than 5.14 and does not say which device a netdev belongs to"
	case v.Use() != "":
		return "the node uses it: " + v.Use()
	}
	return ""
}
