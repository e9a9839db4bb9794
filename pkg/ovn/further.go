package ovn

import (
	"net/netip"

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

// sharedRows are those of a further network that exist once: its router, or its switch with the way to the physical
// network.
func sharedRows(net scope) []ovsdb.Row {
	ids := net.externalIDs(contract.RoleLabel, string(net.Role))
	if net.Topology == contract.Layer3 {
		ids["k8s-cluster-router"] = "yes"
		return []ovsdb.Row{{ID: net.ClusterRouter(), Model: &nb.LogicalRouter{
			Name: net.ClusterRouter(), Options: map[string]string{"always_learn_from_arp_request": "false"}, ExternalIDs: ids,
		}}}
	}
	sw := net.PodSwitch("")
	rows := []ovsdb.Row{{ID: sw, Model: &nb.LogicalSwitch{Name: sw, ExternalIDs: ids}}}
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
		{ID: sw, Model: &nb.LogicalSwitch{Name: sw, OtherConfig: config, ExternalIDs: net.externalIDs(contract.RoleLabel, string(net.Role))}},
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
