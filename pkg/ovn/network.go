package ovn

import (
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// buildNetwork gives the join switch, the cluster router and the groups of load
// balancers, which every node shares. Without a gateway, a secondary network has no services.
func buildNetwork(view View, net scope, owner contract.Owner) ([]ovsdb.Row, error) {
	switch {
	case owner.On("") != contract.NetworkOwner():
		return nil, nil
	case net.HasGateway():
		rows, err := gatewayRows(view, net)
		if err != nil {
			return nil, err
		}
		return append(sharedRows(net), rows...), nil
	case net.Role == contract.RoleSecondary:
		return sharedRows(net), nil
	}
	port := routerToJoin(net.ClusterRouter())
	var networks []netip.Prefix
	var repeated []string // without their subnets, to which one port leads
	for _, subnet := range net.JoinSubnets {
		networks = append(networks, contract.PrefixAt(subnet, contract.RouterOffset))
		addr := contract.RetransmitAddress(subnet)
		repeated = append(repeated, netip.PrefixFrom(addr, addr.BitLen()).String())
	}
	rows := []ovsdb.Row{
		{ID: net.JoinSwitch(), Model: &nb.LogicalSwitch{Name: net.JoinSwitch()}},
		{ID: net.ClusterRouter(), Model: &nb.LogicalRouter{
			Name:        net.ClusterRouter(),
			Options:     map[string]string{"always_learn_from_arp_request": "false"},
			ExternalIDs: map[string]string{"k8s-cluster-router": "yes"},
		}},
		routerPort(net.ClusterRouter(), &nb.LogicalRouterPort{
			Name:     port,
			MAC:      contract.MACFromAddress(networks[0].Addr()).String(),
			Networks: prefixStrings(networks),
		}),
		switchPort(net.JoinSwitch(), routerPeer(joinToRouter(net.ClusterRouter()), port)),
		routerPort(net.ClusterRouter(), &nb.LogicalRouterPort{
			Name:     repeatPrefix + port,
			MAC:      retransmitMAC(net),
			Networks: repeated,
		}),
		switchPort(net.JoinSwitch(), routerPeer(repeatPrefix+joinToRouter(net.ClusterRouter()), repeatPrefix+port)),
	}
	for _, name := range net.groups() {
		rows = append(rows, ovsdb.Row{ID: name, Model: &nb.LoadBalancerGroup{Name: name}})
	}
	rows = append(rows, ovsdb.Row{ID: net.GatewaysGroup(), Model: &nb.PortGroup{Name: net.GatewaysGroup()}})
	rows = append(rows, ovsdb.Row{ID: contract.LocalnetsGroup, Model: &nb.PortGroup{Name: contract.LocalnetsGroup}})
	return slices.Concat(rows, masqueradeRules(net), clusterRules(net), lockedRules(net), namespaceSubnetRows(net)), nil
}

// balancedBy are references of a switch or router to load balancer groups.
func balancedBy(groups ...string) []ovsdb.Reference {
	var refs []ovsdb.Reference
	for _, name := range groups {
		refs = append(refs, ovsdb.Reference{Column: columnLoadBalancerGroup, Table: nb.LoadBalancerGroupTable, Name: name})
	}
	return refs
}

// switchPort places a logical switch port in a switch.
func switchPort(sw string, port *nb.LogicalSwitchPort) ovsdb.Row {
	return ovsdb.Row{ID: port.Name, Model: port, Parents: []ovsdb.Parent{{Table: nb.LogicalSwitchTable, Name: sw, Column: columnPorts}}}
}

// routerPort places a logical router port in a router.
func routerPort(router string, port *nb.LogicalRouterPort) ovsdb.Row {
	return ovsdb.Row{ID: port.Name, Model: port, Parents: []ovsdb.Parent{{Table: nb.LogicalRouterTable, Name: router, Column: columnPorts}}}
}

// routerPeer is the switch port that joins a switch to a router's port.
func routerPeer(name, peer string) *nb.LogicalSwitchPort {
	return &nb.LogicalSwitchPort{
		Name:      name,
		Type:      "router",
		Addresses: []string{"router"},
		Options:   map[string]string{"router-port": peer},
	}
}

// staticRoute places a route in a router. Its id is what makes it unique there.
func staticRoute(router string, route *nb.LogicalRouterStaticRoute) ovsdb.Row {
	id := router + " " + route.IPPrefix + " " + route.Nexthop
	if route.Policy != nil {
		id += " " + *route.Policy
	}
	return ovsdb.Row{ID: id, Model: route, Parents: []ovsdb.Parent{{Table: nb.LogicalRouterTable, Name: router, Column: columnStaticRoutes}}}
}

// routerPolicy places a routing policy in a router.
func routerPolicy(router, id string, policy *nb.LogicalRouterPolicy) ovsdb.Row {
	return ovsdb.Row{ID: id, Model: policy, Parents: []ovsdb.Parent{{Table: nb.LogicalRouterTable, Name: router, Column: columnPolicies}}}
}

// routerNAT places a row of NAT in a router.
func routerNAT(router, id string, nat *nb.NAT) ovsdb.Row {
	return ovsdb.Row{ID: id, Model: nat, Parents: []ovsdb.Parent{{Table: nb.LogicalRouterTable, Name: router, Column: columnNAT}}}
}
