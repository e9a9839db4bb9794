package management

import (
	"cmp"
	"net"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// plan gives the steps towards the node's interface in its own pod
// subnet. The error says for what it waits after these steps.
func plan(cfg node.Config, s state, mtu int) ([]node.Step, error) {
	if len(s.Subnets) == 0 {
		return nil, node.NotReady("node %s has no annotation %s", cfg.Node, contract.NodeSubnetsKey)
	}
	if steps := planRestore(s); len(steps) > 0 {
		return steps, node.NotReady("%s was a VF's name", node.ManagementInterface)
	}
	var steps []node.Step
	if portName(s.VF) != "" { // else br-int is the DPU's
		port, err := planPort(cfg, s, mtu)
		if steps = append(steps, port...); err != nil {
			return steps, err
		}
	}
	switch {
	case s.VF == nil:
	case s.VF.Device == "":
		return steps, nil // the interface is the host's
	default:
		device, err := takeDevice(s)
		if steps = append(steps, device...); err != nil || len(device) > 0 {
			return steps, cmp.Or(err, node.NotReady("%s has just got its name", node.ManagementInterface))
		}
	}
	return append(steps, planInterface(cfg, s, mtu)...), nil
}

// planPort gives the steps towards the port of br-int.
func planPort(cfg node.Config, s state, mtu int) ([]node.Step, error) {
	if _, ok := s.Links[contract.IntegrationBridge]; !ok {
		return nil, node.NotReady("ovn-controller has not made bridge %s", contract.IntegrationBridge)
	}
	var steps []node.Step
	if !s.Ours[portName(s.VF)] {
		steps = append(steps, managementRows(cfg, s, mtu))
	}
	if s.VF != nil {
		representor, err := planRepresentor(s, mtu)
		return append(steps, representor...), err
	}
	if _, ok := s.Links[node.ManagementInterface]; !ok {
		return steps, node.NotReady("ovs-vswitchd has not made %s", node.ManagementInterface)
	}
	return steps, nil
}

// planInterface gives the steps towards the interface's addresses and routes.
func planInterface(cfg node.Config, s state, mtu int) []node.Step {
	changes := node.PrepareLink(s.State, node.ManagementInterface, netdev.Settings{MAC: managementMAC(s.Subnets), MTU: mtu})
	changes = append(changes, node.Sysctls(s.State, node.ManagementInterface, [][2]string{{node.RPFilter, "2"}, {node.Forwarding, "1"}, {node.AcceptRA, "0"}})...)
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

func managementAddrs(s state) []node.Step {
	var steps []node.Step
	var want []netip.Prefix
	for _, subnet := range s.Subnets {
		addr := contract.PrefixAt(subnet, contract.ManagementOffset)
		want = append(want, addr)
		if !slices.Contains(s.Addrs[node.ManagementInterface], addr) {
			steps = append(steps, node.AddAddr{Link: node.ManagementInterface, Addr: addr})
		}
	}
	for _, addr := range s.Addrs[node.ManagementInterface] {
		if !slices.Contains(want, addr) {
			steps = append(steps, node.DeleteAddr{Link: node.ManagementInterface, Addr: addr})
		}
	}
	return steps
}

// managementRoutes lead to the pods of the whole cluster, and on a host with a DPU,
// which has the gateway bridge, to services, too.
func managementRoutes(cfg node.Config, s state) []node.Step {
	var want []netdev.Route
	through := s.PodSubnets(cfg.Network)
	if portName(s.VF) == "" {
		through = slices.Concat(through, cfg.Zone.ServiceSubnets)
	}
	for _, dest := range through {
		if subnet, ok := contract.FamilyOf(dest.Addr()).Pick(s.Subnets); ok {
			want = append(want, netdev.Route{
				Dest: dest.Masked(), NextHop: contract.AddressAt(subnet, contract.RouterOffset), Link: node.ManagementInterface,
				Table: node.TableMain, Protocol: node.ProtocolOurs, Metric: node.Metric(dest.Addr()),
			})
		}
	}
	return node.PlanRoutes(s.State, node.ManagementInterface, want)
}

// managementNeighbors spare the first packet to a pod the wait for an answer.
// They are set whenever something else is: the kernel forgets both together.
func managementNeighbors(s state) []node.Step {
	mac := net.HardwareAddr(contract.MACFromAddress(contract.AddressAt(s.Subnets[0], contract.RouterOffset)))
	var steps []node.Step
	for _, subnet := range s.Subnets {
		steps = append(steps, node.PinNeighbor{Neighbor: netdev.Neighbor{Link: node.ManagementInterface, Addr: contract.AddressAt(subnet, contract.RouterOffset), MAC: mac}})
	}
	return steps
}

func managementRows(cfg node.Config, s state, mtu int) node.Commit {
	iface := &vswitch.Interface{
		Name: portName(s.VF), ExternalIDs: map[string]string{"iface-id": cfg.Network.ManagementPort(cfg.Node)},
	}
	if s.VF == nil {
		mac := managementMAC(s.Subnets).String()
		iface.Type, iface.MAC, iface.MTURequest = "internal", &mac, &mtu
	}
	return node.Commit{Owner: node.ManagementOwner(cfg.Node), Rows: node.PortRows(contract.IntegrationBridge, iface)}
}
