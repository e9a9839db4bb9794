package vf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// representors finds the representor of a function by the function's whole
// identity: switch id, host, PF and number.
type representors struct {
	ports map[key][]port
	used  map[string]bool   // by netdev
	of    map[string][]port // by device, in the order of sysfs
}

func newRepresentors(ports []port) *representors {
	r := &representors{ports: map[key][]port{}, used: map[string]bool{}, of: map[string][]port{}}
	for _, p := range ports {
		if !p.known || p.function.Flavour == netdev.FlavourPhysical {
			continue
		}
		k := key{p.switchID, p.function}
		r.ports[k] = append(r.ports[k], p)
		r.of[p.device] = append(r.of[p.device], p)
	}
	return r
}

// match gives the PF's own functions their representors. An uncertain match
// is a problem of the PF instead.
func (r *representors) match(pf *PF) {
	if !pf.Switchdev() {
		return
	}
	if pf.Number == nil {
		if len(pf.VFs)+len(pf.SFs) > 0 {
			pf.Problems = append(pf.Problems, "its number in the eswitch is unknown, and so are the representors")
		}
		return
	}
	var missing []string
	find := func(f PortName) *Representor {
		f.PF = *pf.Number
		found := r.ports[key{pf.Eswitch.ID, f}]
		switch len(found) {
		case 0:
			missing = append(missing, f.String())
		case 1:
			r.used[found[0].Name] = true
			return found[0].representor()
		default:
			var names []string
			for _, p := range found {
				names = append(names, p.Name)
			}
			pf.Problems = append(pf.Problems, fmt.Sprintf("%s has several representors: %s", f, strings.Join(names, ", ")))
		}
		return nil
	}
	for i := range pf.VFs {
		pf.VFs[i].Representor = find(PortName{Flavour: netdev.FlavourVF, Number: uint32(pf.VFs[i].Index)})
	}
	for i := range pf.SFs {
		pf.SFs[i].Representor = find(PortName{Flavour: netdev.FlavourSF, Number: pf.SFs[i].Number})
	}
	if len(missing) > 0 {
		pf.Problems = append(pf.Problems, "no representor in this namespace: "+strings.Join(missing, ", "))
	}
}

// unmatched lists the representors of a PF that match no function of this host.
func (r *representors) unmatched(pf *PF) {
	for _, p := range r.of[pf.Name] {
		if !r.used[p.Name] {
			pf.Representors = append(pf.Representors, *p.representor())
		}
	}
	slices.SortFunc(pf.Representors, func(a, b Representor) int {
		return comparePortNames(a.Function, b.Function)
	})
}

func (p port) representor() *Representor {
	r := &Representor{Netdev: p.Netdev, Function: p.function, FunctionMAC: MAC(p.far.MAC)}
	if p.function.Flavour == netdev.FlavourSF {
		switch {
		case p.far.Attached:
			r.State = "attached"
		case p.far.Active:
			r.State = "active"
		default:
			r.State = "inactive"
		}
	}
	return r
}

// bonds gives the bonds their links and says which make one eswitch.
func bonds(found []Bond, links []netdev.Link, pfs []PF) []Bond {
	uplinks := uplinksOf(pfs)
	out := slices.Clone(found)
	for i := range out {
		for _, l := range links {
			if l.Name == out[i].Name {
				out[i].Netdev = fromLink(l, "")
			}
		}
		out[i].Reason = notLAG(out[i], uplinks, Switchdev)
		out[i].LAG = out[i].Reason == ""
	}
	return out
}

func uplinksOf(pfs []PF) map[string]*PF {
	uplinks := map[string]*PF{}
	for i := range pfs {
		if u := pfs[i].Uplink(); u != nil {
			uplinks[u.Name] = &pfs[i]
		}
	}
	return uplinks
}

// NotLAG says why the ports of a bond would not make one eswitch in switchdev mode.
func (i *Inventory) NotLAG(b Bond) string { return notLAG(b, uplinksOf(i.PFs), "") }

// notLAG asks for a mode of the ports unless it is empty.
func notLAG(b Bond, uplinks map[string]*PF, mode Mode) string {
	if len(b.Ports) != 2 {
		return fmt.Sprintf("it has %d ports, not two", len(b.Ports))
	}
	var first *PF
	for _, name := range b.Ports {
		pf := uplinks[name]
		switch {
		case pf == nil:
			return name + " is not an uplink"
		case mode != "" && pf.Eswitch.Mode != mode:
			return name + " is not in " + string(mode) + " mode"
		case first != nil && !sameCard(first, pf):
			return "its ports are of different cards"
		}
		first = pf
	}
	switch b.Mode {
	case "active-backup", "balance-xor", "802.3ad":
		return ""
	}
	return "NICs do not offload mode " + b.Mode
}

// sameCard goes by the id of the switch; most drivers tell none in legacy mode: then by the slot.
func sameCard(a, b *PF) bool {
	if a.Eswitch.ID != "" && b.Eswitch.ID != "" {
		return a.Eswitch.ID == b.Eswitch.ID
	}
	one, other := a.PCI, b.PCI
	one.Function, other.Function = 0, 0
	return one == other
}
