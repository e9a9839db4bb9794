package ovn

import (
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// externalIDs name a further network in its rows, as OVN-Kubernetes does; nil for the default network.
func (s scope) externalIDs(more ...string) map[string]string {
	if s.Name == "" {
		return nil
	}
	ids := map[string]string{contract.NetworkLabel: s.Name, contract.TopologyLabel: string(s.Topology)}
	for i := 0; i+1 < len(more); i += 2 {
		ids[more[i]] = more[i+1]
	}
	return ids
}

// prefixesOf are the subnets of the family of an address.
func (s scope) prefixesOf(addr netip.Addr) []netip.Prefix {
	return slices.DeleteFunc(s.Prefixes(), func(p netip.Prefix) bool { return !contract.FamilyOf(p.Addr()).Has(addr) })
}

// sharedRows are those of a further network that exist once: its router, or its switch with the way to the physical
// network.
func sharedRows(net scope) []ovsdb.Row {
	if net.Topology == contract.Layer3 {
		return []ovsdb.Row{clusterRouter(net)}
	}
	sw := net.PodSwitch("")
	rows := []ovsdb.Row{furtherSwitch(net, sw, nil)}
	if net.Topology == contract.Localnet {
		port := &nb.LogicalSwitchPort{
			Name: net.LocalnetPort(), Type: "localnet", Addresses: []string{"unknown"},
			Options: map[string]string{"network_name": net.PhysicalNetwork}, ExternalIDs: net.externalIDs(),
		}
		if net.VLAN != 0 {
			port.TagRequest = &net.VLAN
		}
		outer := switchPort(sw, port)
		outer.Parents = append(outer.Parents, ovsdb.Parent{Table: nb.PortGroupTable, Name: contract.LocalnetsGroup, Column: columnPorts})
		rows = append(rows, outer)
	}
	return rows
}

// clusterRouter is the router of a further network. That of one with a gateway meets many others on a node's transit switch:
// static neighbors would be rows for each pair.
func clusterRouter(net scope) ovsdb.Row {
	router := &nb.LogicalRouter{
		Name: net.ClusterRouter(), Options: map[string]string{"always_learn_from_arp_request": "false"},
		ExternalIDs: net.externalIDs(contract.RoleLabel, string(net.Role), "k8s-cluster-router", "yes"),
	}
	row := ovsdb.Row{ID: router.Name, Model: router}
	if net.HasGateway() {
		router.Options["dynamic_neigh_routers"] = "true"
	}
	return row
}

// furtherSwitch is a switch of a further network. That of a network with a gateway has its services.
func furtherSwitch(net scope, name string, config map[string]string) ovsdb.Row {
	row := ovsdb.Row{ID: name, Model: &nb.LogicalSwitch{
		Name: name, OtherConfig: config, ExternalIDs: net.externalIDs(contract.RoleLabel, string(net.Role)),
	}}
	if net.HasGateway() {
		row.References = balancedBy(net.SwitchGroup())
	}
	return row
}

// nodePart is a node's switch in a further network of topology layer3, with its port on the network's router.
func nodePart(net scope, node, chassis string, subnets []netip.Prefix) []ovsdb.Row {
	sw, config := net.NodeSwitch(node), map[string]string{}
	var routers []netip.Prefix
	for _, subnet := range subnets {
		routers = append(routers, contract.PrefixAt(subnet, contract.RouterOffset))
		if subnet.Addr().Is4() {
			config["subnet"] = subnet.String()
		} else {
			config["ipv6_prefix"] = subnet.Addr().String()
		}
	}
	port := routerToSwitch(sw)
	peer := routerPeer(switchToRouter(sw), port)
	peer.ExternalIDs = net.externalIDs()
	rows := []ovsdb.Row{
		furtherSwitch(net, sw, config),
		routerPort(net.ClusterRouter(), &nb.LogicalRouterPort{
			Name: port, MAC: contract.MACFromAddress(routers[0].Addr()).String(), Networks: prefixStrings(routers), ExternalIDs: net.externalIDs(),
		}),
		switchPort(sw, peer),
	}
	return append(rows, boundToChassis(port, chassis)...)
}

// boundToChassis binds a router's port to its node's chassis, once that is known. It keeps ovn-controller on the other
// nodes from computing this switch's flows: what a node computes does not grow with the pods of the others.
func boundToChassis(port, chassis string) []ovsdb.Row {
	if chassis == "" {
		return nil
	}
	return []ovsdb.Row{{
		ID:      port,
		Model:   &nb.GatewayChassis{Name: gatewayChassis(port, chassis), ChassisName: chassis, Priority: 1},
		Parents: []ovsdb.Parent{{Table: nb.LogicalRouterPortTable, Name: port, Column: columnGatewayChassis}},
	}}
}
