package node

import (
	"cmp"
	"net"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// planManagement gives the steps towards the node's interface in its own pod
// subnet. The error says for what it waits after these steps.
func planManagement(cfg Config, s State, mtu int) ([]Step, error) {
	if len(s.Subnets) == 0 {
		return nil, notReady("node %s has no annotation %s", cfg.Node, contract.NodeSubnetsKey)
	}
	if steps := giveBack(s); len(steps) > 0 {
		return steps, notReady("%s was a VF's name", ManagementInterface)
	}
	var steps []Step
	if portName(s.Function) != "" { // else br-int is the DPU's
		port, err := planPort(cfg, s, mtu)
		if steps = append(steps, port...); err != nil {
			return steps, err
		}
	}
	switch {
	case s.Function == nil:
	case s.Function.Device == "":
		return steps, nil // the interface is the host's
	default:
		device, err := takeDevice(s)
		if steps = append(steps, device...); err != nil || len(device) > 0 {
			return steps, cmp.Or(err, notReady("%s has just got its name", ManagementInterface))
		}
	}
	return append(steps, planInterface(cfg, s, mtu)...), nil
}

// planPort gives the steps towards the port of br-int.
func planPort(cfg Config, s State, mtu int) ([]Step, error) {
	if _, ok := s.Links[contract.IntegrationBridge]; !ok {
		return nil, notReady("ovn-controller has not made bridge %s", contract.IntegrationBridge)
	}
	var steps []Step
	if !s.Ours[portName(s.Function)] {
		steps = append(steps, managementRows(cfg, s, mtu))
	}
	if s.Function != nil {
		representor, err := planRepresentor(s, mtu)
		return append(steps, representor...), err
	}
	if _, ok := s.Links[ManagementInterface]; !ok {
		return steps, notReady("ovs-vswitchd has not made %s", ManagementInterface)
	}
	return steps, nil
}

// planInterface gives the steps towards the interface's addresses and routes.
func planInterface(cfg Config, s State, mtu int) []Step {
	changes := prepareLink(s, ManagementInterface, netdev.Settings{MAC: managementMAC(s.Subnets), MTU: mtu})
	changes = append(changes, sysctls(s, ManagementInterface, []sysctl{{rpFilter, "2"}, {forwarding, "1"}, {acceptRA, "0"}})...)
	changes = append(changes, managementAddrs(s)...)
	changes = append(changes, managementRoutes(cfg, s)...)
	if len(changes) > 0 {
		changes = append(changes, managementNeighbors(s)...)
	}
	return changes
}

// managementMAC is the one that the controller derives too, from the first
// subnet's address.
func managementMAC(subnets []netip.Prefix) net.HardwareAddr {
	return net.HardwareAddr(contract.MACFromAddress(contract.AddressAt(subnets[0], contract.ManagementOffset)))
}

func managementAddrs(s State) []Step {
	var steps []Step
	var want []netip.Prefix
	for _, subnet := range s.Subnets {
		addr := contract.PrefixAt(subnet, contract.ManagementOffset)
		want = append(want, addr)
		if !slices.Contains(s.Addrs[ManagementInterface], addr) {
			steps = append(steps, addAddr{ManagementInterface, addr})
		}
	}
	for _, addr := range s.Addrs[ManagementInterface] {
		if !slices.Contains(want, addr) {
			steps = append(steps, deleteAddr{ManagementInterface, addr})
		}
	}
	return steps
}

// managementRoutes lead to the pods of the whole cluster, and on a host with a DPU,
// which has the gateway bridge, to services, too.
func managementRoutes(cfg Config, s State) []Step {
	var want []netdev.Route
	through := cfg.Network.Prefixes()
	if portName(s.Function) == "" {
		through = slices.Concat(through, cfg.Zone.ServiceSubnets)
	}
	for _, dest := range through {
		if subnet, ok := contract.FamilyOf(dest.Addr()).Pick(s.Subnets); ok {
			want = append(want, netdev.Route{
				Dest: dest.Masked(), NextHop: contract.AddressAt(subnet, contract.RouterOffset), Link: ManagementInterface,
				Table: tableMain, Protocol: protocolOurs, Metric: metric(dest.Addr()),
			})
		}
	}
	return routes(s, ManagementInterface, want)
}

// metric is what the kernel makes of a route that names none.
func metric(dest netip.Addr) int {
	if contract.IPv6.Has(dest) {
		return 1024
	}
	return 0
}

// managementNeighbors spare the first packet to a pod the wait for an answer.
// They are set whenever something else is: the kernel forgets both together.
func managementNeighbors(s State) []Step {
	mac := net.HardwareAddr(contract.MACFromAddress(contract.AddressAt(s.Subnets[0], contract.RouterOffset)))
	var steps []Step
	for _, subnet := range s.Subnets {
		steps = append(steps, pinNeighbor{netdev.Neighbor{Link: ManagementInterface, Addr: contract.AddressAt(subnet, contract.RouterOffset), MAC: mac}})
	}
	return steps
}
