package vf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Facts are what the kernel and the tables say of what was found.
type Facts struct {
	answers
	Links []netdev.Link
	// Addresses are by the index of their link.
	Addresses map[int][]netip.Prefix
	// HWTC is hw-tc-offload by link, of the links that are ports of an eswitch.
	HWTC map[string]bool
	// Names by vendor, and by vendor and product.
	Names map[[2]ID]netdev.PCIName
	// Problems are what could not be had.
	Problems []string
}

// port is a netdev of a NIC with what it leads to.
type port struct {
	Netdev
	device   string
	switchID string
	function PortName
	far      netdev.PortFunction
	known    bool // function is
}

// key is what makes a function unique on a node.
type key struct {
	switchID string
	function PortName
}

// Enrich joins what was found with the facts. It is pure and leaves its
// arguments alone.
func Enrich(found Found, facts Facts) Inventory {
	inv := Inventory{
		PFs: append([]PF{}, found.PFs...), RDMA: facts.RDMA,
		Problems: slices.Concat(found.Problems, facts.Problems),
	}
	ports := joinPorts(found.Netdevs, facts)
	byDevice := map[string][]int{} // ports by the netdev's device
	for i := range ports {
		byDevice[ports[i].device] = append(byDevice[ports[i].device], i)
	}
	of := func(device string) []port {
		var out []port
		for _, i := range byDevice[device] {
			out = append(out, ports[i])
		}
		return out
	}
	index := newRepresentors(ports)
	for i := range inv.PFs {
		pf := &inv.PFs[i]
		pf.VFs, pf.SFs, pf.Problems = slices.Clone(pf.VFs), slices.Clone(pf.SFs), slices.Clone(pf.Problems)
		enrichPF(pf, of(pf.Name), facts)
		for j := range pf.VFs {
			v := &pf.VFs[j]
			name(&v.Device, facts.Names)
			v.Netdev = first(of(v.Name))
		}
		for j := range pf.SFs {
			pf.SFs[j].Netdev = first(of(pf.SFs[j].Device))
		}
		index.match(pf)
	}
	for i := range inv.PFs {
		index.unmatched(&inv.PFs[i])
	}
	inv.Bonds = bonds(found.Bonds, facts.Links, inv.PFs)
	return inv
}

// joinPorts gives each netdev its link, its features and its function. A link
// that was removed since is left out.
func joinPorts(netdevs []FoundNetdev, facts Facts) []port {
	links := map[string]netdev.Link{}
	names := map[int]string{}
	for _, l := range facts.Links {
		links[l.Name], names[l.Index] = l, l.Name
	}
	devlink := map[string]netdev.DevlinkPort{}
	for _, p := range facts.Ports {
		if p.Netdev != "" {
			devlink[p.Netdev] = p
		}
	}
	var out []port
	for _, n := range netdevs {
		l, ok := links[n.Name]
		if !ok {
			continue
		}
		p := port{device: n.Device, switchID: n.SwitchID, Netdev: fromLink(l, names[l.Master])}
		p.NoParent = l.Parent == ""
		if on, ok := facts.HWTC[n.Name]; ok {
			p.HWTC = &on
		}
		if d, ok := devlink[n.Name]; ok {
			p.far = d.Function
			p.function, p.known = portNameOf(d, n.PortName)
		} else {
			p.function, p.known = ParsePortName(n.PortName)
		}
		if !p.known || p.function.Flavour == netdev.FlavourPhysical {
			p.Use = use(n.Above, facts.Addresses[l.Index])
		}
		out = append(out, p)
	}
	return out
}

func fromLink(l netdev.Link, master string) Netdev {
	return Netdev{
		Name: l.Name, Index: l.Index, MAC: MAC(l.MAC), PermanentMAC: MAC(l.PermanentMAC), MTU: l.MTU,
		Up: l.Up, Carrier: l.Carrier, Master: master, LACP: l.LACP != nil && l.LACP.Negotiated,
	}
}

// enrichPF gives a PF its names, its class, its ports and its eswitch.
func enrichPF(pf *PF, ports []port, facts Facts) {
	name(&pf.Device, facts.Names)
	pf.Class = classOf(pf.Vendor, pf.Product, pf.Driver)
	if pf.ProductName == "" {
		pf.ProductName = pf.Class.Family
	}
	pf.Ports = uplinkPorts(ports)
	pf.Eswitch = eswitch(pf, facts)
	for _, p := range ports {
		// Every port has it; the uplink's is the one to believe.
		if u := pf.Uplink(); pf.Eswitch.ID == "" || (u != nil && u.Name == p.Name) {
			pf.Eswitch.ID = p.switchID
		}
	}
	var err error
	if pf.Number, err = pfNumber(ports); err != nil {
		pf.Problems = append(pf.Problems, err.Error())
	}
}

// uplinkPorts gives the physical ports, in the order of their numbers. Where no netdev
// says what it is, they are all netdevs that are no representors.
func uplinkPorts(ports []port) []Netdev {
	var uplinks []port
	for _, p := range ports {
		if p.known && p.function.Flavour == netdev.FlavourPhysical {
			uplinks = append(uplinks, p)
		}
	}
	if len(uplinks) == 0 {
		for _, p := range ports {
			if !p.known {
				uplinks = append(uplinks, p)
			}
		}
	}
	slices.SortFunc(uplinks, func(a, b port) int {
		if c := int64(a.function.Number) - int64(b.function.Number); c != 0 {
			return int(c)
		}
		return strings.Compare(a.Name, b.Name)
	})
	out := make([]Netdev, len(uplinks))
	for i := range uplinks {
		out[i] = uplinks[i].Netdev
	}
	return out
}

func eswitch(pf *PF, facts Facts) Eswitch {
	out := Eswitch{Mode: NoSwitch}
	if pf.TotalVFs > 0 {
		out.Mode = Legacy
	}
	if !pf.PCI.IsValid() {
		return out
	}
	answer, answered := facts.Eswitches[pf.Name]
	switch answer.Mode {
	case "":
		if !answered {
			out.Mode = Unknown
		}
		return out
	case string(Legacy), string(Switchdev):
		out.Mode = Mode(answer.Mode)
	default:
		out.Mode = Unknown
		pf.Problems = append(pf.Problems, fmt.Sprintf("devlink answers an unknown eswitch mode: %s", answer.Mode))
	}
	out.InlineMode, out.EncapMode = answer.InlineMode, answer.EncapMode
	out.Multiport = facts.Multiport[pf.Name]
	return out
}

// pfNumber takes the PF's number from the representors of this host's functions: it
// need be neither the PCI function nor the port.
func pfNumber(ports []port) (*uint32, error) {
	numbers := map[uint32]bool{}
	physical := map[uint32]bool{}
	for _, p := range ports {
		switch f := p.function; {
		case !p.known || f.External:
		case f.Flavour == netdev.FlavourPhysical:
			physical[f.Number] = true
		default:
			numbers[f.PF] = true
		}
	}
	if len(numbers) == 0 && len(physical) == 1 {
		numbers = physical
	}
	if len(numbers) > 1 { // an eswitch with the functions of several PFs
		for n := range numbers {
			if len(physical) == 1 && physical[n] {
				return &n, nil
			}
		}
		return nil, errors.New("its number in the eswitch is not certain: representors and ports name several")
	}
	for n := range numbers {
		return &n, nil
	}
	return nil, nil
}

func first(ports []port) *Netdev {
	if len(ports) == 0 {
		return nil
	}
	return &ports[0].Netdev
}

func name(d *Device, names map[[2]ID]netdev.PCIName) {
	n := names[[2]ID{d.Vendor, d.Product}]
	d.VendorName, d.ProductName = n.Vendor, n.Product
}
