package dpu

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// Serves says which host a DPU works for, in the words of who administers the DPU.
type Serves struct {
	// Host is the name of its Node.
	Host string
	// Controllers are the host's numbers in the NIC's switches, from 1; nil where the
	// DPU has one host with one number. A host with a connection for each socket has
	// several. 0 alone is the machine itself: its functions are the host's, as where
	// host and DPU are namespaces of one machine.
	Controllers []uint32
}

// ParseControllers reads Controllers, such as "1,2"; "" is nil.
func ParseControllers(text string) (controllers []uint32, err error) {
	if text == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		number, err := strconv.ParseUint(strings.TrimSpace(item), 10, 32)
		switch {
		case err != nil:
			return nil, fmt.Errorf("controller %q is no number from 0 to %d", item, uint32(math.MaxUint32))
		case slices.Contains(controllers, uint32(number)):
			return nil, fmt.Errorf("controller %d is there twice", number)
		}
		controllers = append(controllers, uint32(number))
	}
	if len(controllers) > 1 && slices.Contains(controllers, 0) {
		return nil, errors.New("controller 0 is this machine itself, and has no others beside it")
	}
	return controllers, nil
}

// own says that the functions are those of the DPU's machine.
func (s Serves) own() bool { return slices.Equal(s.Controllers, []uint32{0}) }

// port is a representor with the switch that it belongs to.
type port struct {
	vf.Representor
	switchID string
}

// find gives the representor of the function that a host names. What the host
// says selects among its own functions only.
func find(inv vf.Inventory, s Serves, c *contract.DPUConnection) (vf.Representor, error) {
	ports, err := hostPorts(inv, s)
	if err != nil {
		return vf.Representor{}, err
	}
	pf, err := choosePF(ports, c, s)
	if err != nil {
		return vf.Representor{}, err
	}
	want := vf.PortName{Flavour: netdev.FlavourVF, PF: uint32(c.PF)}
	if c.SF != nil {
		want.Flavour, want.Number = netdev.FlavourSF, uint32(*c.SF)
	} else {
		want.Number = uint32(*c.VF)
	}
	ports = slices.DeleteFunc(ports, func(p port) bool {
		return p.Function.Flavour != want.Flavour || p.Function.Number != want.Number || !pf(p)
	})
	switch len(ports) {
	case 1:
		return ports[0].Representor, nil
	case 0:
		return vf.Representor{}, fmt.Errorf("host %s has no function %s: no such representor is here%s", s.Host, want, s.absent(inv))
	}
	return vf.Representor{}, fmt.Errorf("function %s of host %s has several representors (%s): its PF's address would tell them apart",
		want, s.Host, names(ports))
}

// hostPorts are the representors of the host's functions and PFs. Functions of
// other hosts and of the DPU itself are not among them.
func hostPorts(inv vf.Inventory, s Serves) ([]port, error) {
	if s.own() {
		return ownPorts(inv), nil
	}
	var external, old []port
	each(inv, func(pf *vf.PF, r vf.Representor) {
		switch {
		case r.Function.External:
			external = append(external, port{r, pf.Eswitch.ID})
		case r.Function.Flavour != netdev.FlavourSF: // the DPU's own SFs look the same
			old = append(old, port{r, pf.Eswitch.ID})
		}
	})
	switch shown := controllers(inv); {
	case len(external) == 0 && len(s.Controllers) == 0:
		// Drivers too old to tell hosts apart; what is left has no function here.
		return old, nil
	case len(s.Controllers) == 0 && len(shown) > 1:
		return nil, fmt.Errorf("this DPU has functions of the controllers %s, and its settings do not say which of them are host %s", listed(shown), s.Host)
	}
	return slices.DeleteFunc(external, func(p port) bool {
		return len(s.Controllers) > 0 && !slices.Contains(s.Controllers, p.Function.Controller)
	}), nil
}

// controllers are those that the switches have functions of, sorted.
func controllers(inv vf.Inventory) []uint32 {
	shown := map[uint32]bool{}
	each(inv, func(_ *vf.PF, r vf.Representor) {
		if r.Function.External {
			shown[r.Function.Controller] = true
		}
	})
	return slices.Sorted(maps.Keys(shown))
}

// absent names the host's controllers of which the switches have nothing.
func (s Serves) absent(inv vf.Inventory) string {
	shown := controllers(inv)
	absent := slices.DeleteFunc(slices.Clone(s.Controllers), func(n uint32) bool { return n == 0 || slices.Contains(shown, n) })
	if len(absent) == 0 {
		return ""
	}
	return fmt.Sprintf(", and nothing of the host's controllers %s", listed(absent))
}

func listed(numbers []uint32) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ", ")
}

// each goes over the representors of functions that are not on this machine.
func each(inv vf.Inventory, do func(*vf.PF, vf.Representor)) {
	for i := range inv.PFs {
		if pf := &inv.PFs[i]; pf.Switchdev() {
			for _, r := range pf.Representors {
				do(pf, r)
			}
		}
	}
}

// ownPorts are the representors of this machine's functions.
func ownPorts(inv vf.Inventory) []port {
	var ports []port
	for _, pf := range inv.PFs {
		for _, v := range pf.VFs {
			if v.Representor != nil {
				ports = append(ports, port{*v.Representor, pf.Eswitch.ID})
			}
		}
		for _, sf := range pf.SFs {
			if sf.Representor != nil {
				ports = append(ports, port{*sf.Representor, pf.Eswitch.ID})
			}
		}
	}
	return ports
}

// pfKey is a PF of the host on one of the DPU's switches.
type pfKey struct {
	switchID       string
	controller, pf uint32
}

func (p port) pf() pfKey { return pfKey{p.switchID, p.Function.Controller, p.Function.PF} }

// choosePF says which ports are of the PF that the host names: by its address where
// the switch knows that, else by its number. The switch may know the addresses of
// some PFs only, and a PF with another address is never the one. A switch that knows none
// cannot tell the function from that of another NIC of the host with the same numbers: then
// the host has to say that the PF is of its DPU.
func choosePF(ports []port, c *contract.DPUConnection, s Serves) (func(port) bool, error) {
	named, others := isSet(vf.MAC(c.PFMAC)), map[pfKey]bool{}
	for _, p := range ports {
		if !named || p.Function.Flavour != netdev.FlavourPF || !isSet(p.FunctionMAC) {
			continue
		}
		if bytes.Equal(p.FunctionMAC, c.PFMAC) {
			return func(q port) bool { return q.pf() == p.pf() }, nil
		}
		others[p.pf()] = true
	}
	numbered := func(p port) bool { return p.Function.PF == uint32(c.PF) }
	if named && len(others) == 0 && !c.OfDPU && !s.own() && slices.ContainsFunc(ports, numbered) {
		return nil, fmt.Errorf("the switch of this DPU knows no address of a PF, and host %s does not say that the PF with the address %s is of this DPU and of no other NIC",
			s.Host, c.PFMAC)
	}
	chosen := func(p port) bool { return numbered(p) && !others[p.pf()] }
	if slices.ContainsFunc(ports, numbered) && !slices.ContainsFunc(ports, chosen) {
		return nil, fmt.Errorf("no PF of this DPU's host has the address %s", c.PFMAC)
	}
	return chosen, nil
}

// isSet is false for the zeros of a function that has no address of its own.
func isSet(mac vf.MAC) bool {
	return slices.ContainsFunc(mac, func(b byte) bool { return b != 0 })
}

func names(ports []port) string {
	var list []string
	for _, p := range ports {
		list = append(list, p.Name)
	}
	return strings.Join(list, ", ")
}
