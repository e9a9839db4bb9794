package vf

import "github.com/ovn-offload/ovn-offload/pkg/netdev"

// answers are the kernel's to questions that a driver may be too busy for. A question that fails has no other answer:
// the last one holds, so that pods keep their devices while a NIC makes VFs or its firmware starts.
type answers struct {
	// Eswitches are by PCI address. A NIC without an answer, now or before, is not there.
	Eswitches map[string]netdev.Eswitch
	Ports     []netdev.DevlinkPort
	// Multiport is esw_multiport by PCI address.
	Multiport map[string]bool
	// RDMA is the namespace mode, or rdmaUnknown.
	RDMA string
}

// rdmaUnknown is the namespace mode of a kernel that has not answered.
const rdmaUnknown = "unknown"

// ask asks for the PFs only, each by itself. Each VF is an instance of devlink as well, with a lock of its own that its
// driver holds while the VF starts.
func (last answers) ask(kernel Kernel, found Found, problem func(error) bool) answers {
	now := answers{Eswitches: map[string]netdev.Eswitch{}, Multiport: map[string]bool{}}
	var pfs []string
	for i := range found.PFs {
		pf := &found.PFs[i]
		if !pf.PCI.IsValid() {
			continue
		}
		pfs = append(pfs, pf.Name)
		eswitch, err := kernel.Eswitch(pf.Name)
		answered := !problem(err)
		if !answered {
			eswitch, answered = last.Eswitches[pf.Name]
		}
		if answered {
			now.Eswitches[pf.Name] = eswitch
		}
		if eswitch.Mode != string(Switchdev) {
			continue
		}
		value, err := kernel.DevlinkParam("pci", pf.Name, "esw_multiport")
		now.Multiport[pf.Name] = value == "true"
		if problem(err) {
			now.Multiport[pf.Name] = last.Multiport[pf.Name]
		}
	}
	var err error
	if len(pfs) > 0 {
		if now.Ports, err = kernel.DevlinkPorts(pfs...); problem(err) {
			now.Ports = last.Ports
		}
	}
	if now.RDMA, _, err = kernel.RDMA(); problem(err) {
		now.RDMA = last.RDMA
		if last.Eswitches == nil { // nothing was asked before
			now.RDMA = rdmaUnknown
		}
	}
	return now
}
