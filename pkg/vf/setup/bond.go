package setup

import (
	"fmt"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// A bond of both ports of one card stays while the agent changes one port after the other: the port leaves the bond, gets
// the new mode and comes back, and the other port carries the node's traffic. In switchdev mode the card then joins both
// eswitches (VF-LAG).

// bondOf is the bond that has the NIC's uplink as a port, nil if none has.
func bondOf(s State, pf *vf.PF) *vf.Bond {
	for i := range s.Bonds {
		if up := pf.Uplink(); up != nil && up.Master == s.Bonds[i].Name {
			return &s.Bonds[i]
		}
	}
	return nil
}

// notLAG refuses switchdev mode to a NIC in a bond for which no card joins its eswitches: the traffic between nodes would
// be in software for a reason that a restored bond keeps.
func notLAG(s State, pf *vf.PF, t target) string {
	bond := bondOf(s, pf)
	if bond == nil || t.mode != vf.Switchdev || pf.Eswitch.Mode == vf.Switchdev {
		return ""
	}
	inv := vf.Inventory{PFs: s.PFs}
	if why := inv.NotLAG(*bond); why != "" {
		return fmt.Sprintf("%s is a port of %s, which would not be offloaded: %s", pf.Uplink().Name, bond.Name, why)
	}
	return ""
}

// inBond says why the mode of a bond's port cannot change in place, empty if it can.
func (w way) inBond(s State, pf *vf.PF, bond *vf.Bond) string {
	if len(pf.Ports) != 1 {
		return "the NIC has several ports on one function"
	}
	for i := range s.PFs {
		other := &s.PFs[i]
		up := other.Uplink()
		switch {
		case up == nil || up.Name == pf.Uplink().Name || !slices.Contains(bond.Ports, up.Name):
		case !slices.Contains(w.NICs, other.Name):
			return fmt.Sprintf("the policy does not select %s (%s), the other port", up.Name, other.Name)
		case !up.Carrier:
			return fmt.Sprintf("the other port %s has no carrier, and would have to carry the traffic meanwhile", up.Name)
		case pf.Uplink().LACP && !up.LACP:
			return fmt.Sprintf("the other port %s has not negotiated LACP with the switch, and would have to carry the traffic meanwhile", up.Name)
		default:
			return ""
		}
	}
	return "the agent finds no other port"
}
