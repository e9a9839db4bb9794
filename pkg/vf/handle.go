package vf

import (
	"errors"
	"fmt"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Handle is a VF on its way into a pod: what the inventory says of the VF at one moment.
type Handle struct {
	Device string // its PCI address
	Driver string
	VFIO   bool
	// PF is the uplink's name, "" where the uplink is not in this namespace.
	PF string
	// PFMAC is the PF's permanent address; nil where none is known. In a bond all PFs have
	// the same current address.
	PFMAC MAC
	// Function has the numbers of the eswitch. Where this side does not see the PF's, it is
	// that of the PCI function, which is the same on cards that serve one host.
	Function PortName
	// Mode is that of the PF's eswitch.
	Mode Mode
	// Card is for hosts with a DPU.
	Card Card
	// Representor is "" where the VF has none here, and Problem says why.
	Representor string
	Problem     error
}

// Handle finds a VF by its device's name.
func (i *Inventory) Handle(device string) (Handle, bool) {
	pf, v, ok := i.VF(device)
	if !ok {
		return Handle{}, false
	}
	h := Handle{
		Device: v.Name, Driver: v.Driver, VFIO: v.Vfio(), Mode: pf.Eswitch.Mode, Card: i.Card(pf),
		Function: PortName{Flavour: netdev.FlavourVF, PF: uint32(pf.PCI.Function), Number: uint32(v.Index)},
	}
	if pf.Number != nil {
		h.Function.PF = *pf.Number
	}
	if up := pf.Uplink(); up != nil {
		h.PF = up.Name
		if len(up.PermanentMAC) == 6 {
			h.PFMAC = up.PermanentMAC
		}
	}
	switch {
	case !pf.Switchdev():
		h.Problem = fmt.Errorf("VF %s: the eswitch of its PF %s is in mode %s, not switchdev", v.Name, pf.Name, pf.Eswitch.Mode)
	case v.Representor == nil:
		var problems []error
		for _, problem := range pf.Problems {
			problems = append(problems, errors.New(problem))
		}
		h.Problem = fmt.Errorf("VF %s has no representor: %w", v.Name, errors.Join(problems...))
	default:
		h.Representor = v.Representor.Name
	}
	return h, true
}
