package management

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// portName is that of the port of br-int.
func portName(f *node.VF) string {
	if f == nil {
		return node.ManagementInterface
	}
	return f.Representor
}

// borrowedAlias marks a VF's netdev that has the name of the management port, and
// says what it was. It goes where the netdev goes.
const borrowedAlias = netdev.AliasPrefix + "management port, was "

// borrowed is what a netdev was before it was the management port.
type borrowed struct {
	name string
	mac  net.HardwareAddr
	mtu  int
}

func (l borrowed) String() string {
	return fmt.Sprintf("%s%s %s %d", borrowedAlias, l.name, l.mac, l.mtu)
}

// parseBorrowed is not ok for a link that is none.
func parseBorrowed(alias string) (l borrowed, ok bool) {
	rest, ok := strings.CutPrefix(alias, borrowedAlias)
	if !ok {
		return l, false
	}
	var mac string
	if n, err := fmt.Sscanf(rest, "%s %s %d", &l.name, &mac, &l.mtu); err != nil || n != 3 {
		return l, false
	}
	l.mac, _ = net.ParseMAC(mac)
	return l, l.mac != nil
}

// planRestore gives the steps that restore the original settings of a VF that is the management port no longer. If another
// link has the former name by now, the VF gets the name that the kernel would give it.
func planRestore(s state) []node.Step {
	link, ok := s.Links[node.ManagementInterface]
	was, isBorrowed := parseBorrowed(link.Alias)
	if !ok || !isBorrowed || s.VF != nil && s.VF.Device == link.Parent {
		return nil
	}
	var steps []node.Step
	for _, addr := range s.Addrs[node.ManagementInterface] {
		steps = append(steps, node.DeleteAddr{Link: node.ManagementInterface, Addr: addr})
	}
	if isNamed(s.Links, was.name) {
		was.name = fmt.Sprintf("dev%d", link.Index)
	}
	return append(steps,
		node.SetLink{Name: node.ManagementInterface, Settings: netdev.Settings{MTU: was.mtu, MAC: was.mac, State: netdev.Down}},
		node.Rename{Index: link.Index, Of: node.ManagementInterface, To: was.name},
		node.SetLink{Name: was.name, Settings: netdev.Settings{NoAlias: true}})
}

// isNamed says that a link has a name, or has it as a further one.
func isNamed(links map[string]netdev.Link, name string) bool {
	_, has := links[name]
	for _, link := range links {
		has = has || slices.Contains(link.AltNames, name)
	}
	return has
}

// takeDevice gives the steps that make the function's netdev the management port.
func takeDevice(s state) ([]node.Step, error) {
	var device *netdev.Link
	for _, l := range s.Links {
		if l.Parent == s.VF.Device && l.Master == 0 {
			device = &l
		}
	}
	taken, exists := s.Links[node.ManagementInterface]
	switch {
	case device == nil:
		return nil, node.NotReady("VF %s, which is to be %s, has no netdev here", s.VF.Device, node.ManagementInterface)
	case device.Name == node.ManagementInterface:
		return nil, nil
	case exists: // on its way out, or another's
		return nil, node.NotReady("%s is %s still, and is to be VF %s", node.ManagementInterface, kindOf(taken), s.VF.Device)
	}
	was := borrowed{device.Name, device.MAC, device.MTU}
	return []node.Step{
		node.SetLink{Name: device.Name, Settings: netdev.Settings{Alias: was.String(), State: netdev.Down}},
		node.Rename{Index: device.Index, Of: device.Name, To: node.ManagementInterface},
	}, nil
}

func kindOf(l netdev.Link) string {
	if l.Parent != "" {
		return "device " + l.Parent
	}
	return "a link of type " + l.Type
}

// planRepresentor sets br-int's end up after it has become a port.
func planRepresentor(s state, mtu int) ([]node.Step, error) {
	name := s.VF.Representor
	if _, ok := s.Links[name]; !ok {
		return nil, node.NotReady("representor %s is absent", name)
	}
	return node.PrepareRepresentor(s.State, name, mtu), nil
}
