package vf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Purpose is what a VF of a node is for.
type Purpose string

// The purposes of VFs that pods do not get by asking for one.
const (
	// ForPods is every VF that has no other purpose.
	ForPods Purpose = ""
	// ForManagement is the VF of the management port.
	ForManagement Purpose = "management"
	// ForGateway is the VF that has the node's address.
	ForGateway Purpose = "gateway"
	// ForDefaultPods is for the default network of pods that ask for no VF.
	ForDefaultPods Purpose = "default-pod"
	// Reserved VFs are those that an OffloadPolicy leaves to the node's administrator.
	Reserved Purpose = "reserved"
)

// ErrNoVF is wrapped by the error of a setting that selects no VF of the node.
var ErrNoVF = errors.New("there is no VF")

// ErrNoInventory is the error of each setting before the first inventory.
var ErrNoInventory = errors.New("the node's devices are not known yet")

// Settings select VFs that are not for pods that ask for one. Management and Gateway are
// to select one VF.
type Settings struct {
	Management, Gateway, DefaultPods Selector
}

// Purposes are those of a node's VFs.
type Purposes struct {
	of       map[string]Purpose // by PCI address
	problems map[Purpose]error
}

// Purposes computes the purpose of each VF. Reserved counts VFs of each PF, from the
// lowest number. Holder gives the pod that has a VF, or "": no pod loses its VF to a
// setting. The inventory is nil before the first.
func (s Settings) Purposes(inv *Inventory, reserved map[string]int, holder func(device string) string) Purposes {
	p := Purposes{of: map[string]Purpose{}, problems: map[Purpose]error{}}
	p.assignOwn(inv, ForManagement, s.Management, holder)
	p.assignOwn(inv, ForGateway, s.Gateway, holder)
	if inv == nil {
		return p
	}
	for i := range inv.PFs {
		pf := &inv.PFs[i]
		for _, v := range pf.VFs {
			switch {
			case p.of[v.Name] != ForPods:
			case s.DefaultPods.selects(pf, v.Index):
				p.of[v.Name] = ForDefaultPods
			case v.Index < reserved[pf.Name]:
				p.of[v.Name] = Reserved
			}
		}
	}
	return p
}

// assignOwn gives one VF to the node itself.
func (p Purposes) assignOwn(inv *Inventory, purpose Purpose, s Selector, holder func(device string) string) {
	if len(s) == 0 {
		return
	}
	if inv == nil {
		p.problems[purpose] = ErrNoInventory
		return
	}
	var selected []string
	for i := range inv.PFs {
		for _, v := range inv.PFs[i].VFs {
			if s.selects(&inv.PFs[i], v.Index) {
				selected = append(selected, v.Name)
			}
		}
	}
	name := strings.Join(s, " ")
	switch {
	case len(selected) == 0:
		p.problems[purpose] = fmt.Errorf("%w %s", ErrNoVF, name)
	case len(selected) > 1:
		p.problems[purpose] = fmt.Errorf("%s is %d VFs, and has to be one", name, len(selected))
	case p.of[selected[0]] != ForPods:
		p.problems[purpose] = fmt.Errorf("VF %s is the %s port", selected[0], p.of[selected[0]])
	case holder(selected[0]) != "":
		p.problems[purpose] = fmt.Errorf("VF %s is held by pod %s", selected[0], holder(selected[0]))
	default:
		p.of[selected[0]] = purpose
	}
}

// Of gives the purpose of a VF by its PCI address.
func (p Purposes) Of(device string) Purpose { return p.of[device] }

// Own gives the VF that the node itself has for a purpose, "" when no VF is to have it.
func (p Purposes) Own(purpose Purpose) (device string, err error) {
	if err := p.problems[purpose]; err != nil {
		return "", err
	}
	for device, of := range p.of {
		if of == purpose {
			return device, nil
		}
	}
	return "", nil
}

// Missing is the error of a setting that selects no VF, on a node that has some: its NIC may have got another name. A
// node without VFs may have the setting of the others.
func (p Purposes) Missing(purpose Purpose, inv Inventory) error {
	err := p.problems[purpose]
	if !errors.Is(err, ErrNoVF) || !slices.ContainsFunc(inv.PFs, func(pf PF) bool { return len(pf.VFs) > 0 }) {
		return nil
	}
	return fmt.Errorf("%s port: %w, so its traffic stays in software", purpose, err)
}

// NotForPods are the VFs that pods do not get by asking for one, by PCI address.
func (p Purposes) NotForPods() map[string]bool {
	out := map[string]bool{}
	for device := range p.of {
		out[device] = true
	}
	return out
}
