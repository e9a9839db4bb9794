package node

import (
	"fmt"
	"net"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Function is a VF that carries the management port in place of an internal port
// of br-int, so that the node's traffic with pods is the NIC's. With a DPU each
// side has one of its ends.
type Function struct {
	// Device becomes ManagementInterface; "" on a DPU.
	Device string
	// Representor is the port of br-int; "" on a host with a DPU.
	Representor string
	// Claim is what a host's Node says to the DPU (kube.ManagementPortKey).
	Claim string
}

// portName is that of the port of br-int.
func portName(f *Function) string {
	if f == nil {
		return ManagementInterface
	}
	return f.Representor
}

// lentAlias marks a VF's netdev that has the name of the management port, and
// says what it was. It goes where the netdev goes.
const lentAlias = "ovn-offload management port, was "

// lent is what a netdev was before it was the management port.
type lent struct {
	name string
	mac  net.HardwareAddr
	mtu  int
}

func (l lent) String() string { return fmt.Sprintf("%s%s %s %d", lentAlias, l.name, l.mac, l.mtu) }

// parseLent is not ok for a link that is none.
func parseLent(alias string) (l lent, ok bool) {
	rest, ok := strings.CutPrefix(alias, lentAlias)
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

// giveBack gives the steps that make a VF what it was that was the management
// port and is not to be it any more.
func giveBack(s State) []Step {
	link, ok := s.Links[ManagementInterface]
	was, isLent := parseLent(link.Alias)
	if !ok || !isLent || s.Function != nil && s.Function.Device == link.Parent {
		return nil
	}
	var steps []Step
	for _, addr := range s.Addrs[ManagementInterface] {
		steps = append(steps, deleteAddr{ManagementInterface, addr})
	}
	return append(steps,
		setLink{ManagementInterface, netdev.Settings{MTU: was.mtu, MAC: was.mac, State: netdev.Down}},
		rename{link.Index, ManagementInterface, was.name})
}

// takeDevice gives the steps that make the function's netdev the management port.
func takeDevice(s State) ([]Step, error) {
	var device *netdev.Link
	for _, l := range s.Links {
		if l.Parent == s.Function.Device && l.Master == 0 {
			device = &l
		}
	}
	taken, exists := s.Links[ManagementInterface]
	switch {
	case device == nil:
		return nil, notReady("VF %s, which is to be %s, has no netdev here", s.Function.Device, ManagementInterface)
	case device.Name == ManagementInterface:
		return nil, nil
	case exists: // on its way out, or another's
		return nil, notReady("%s is %s still, and is to be VF %s", ManagementInterface, kindOf(taken), s.Function.Device)
	}
	was := lent{device.Name, device.MAC, device.MTU}
	return []Step{
		setLink{device.Name, netdev.Settings{Alias: was.String(), State: netdev.Down}},
		rename{device.Index, device.Name, ManagementInterface},
	}, nil
}

func kindOf(l netdev.Link) string {
	if l.Parent != "" {
		return "device " + l.Parent
	}
	return "a link of type " + l.Type
}

// planRepresentor sets br-int's end up after it has become a port.
func planRepresentor(s State, mtu int) ([]Step, error) {
	name := s.Function.Representor
	if _, ok := s.Links[name]; !ok {
		return nil, notReady("representor %s is absent", name)
	}
	return planRepresentorLink(s, name, mtu), nil
}

func planRepresentorLink(s State, name string, mtu int) []Step {
	link := s.Links[name]
	if link.MTU == mtu && link.Up && link.NoARP {
		return nil
	}
	return []Step{setLink{name, netdev.Settings{MTU: mtu, NoLinkLocal: true, NoARP: true, State: netdev.Up}}}
}
