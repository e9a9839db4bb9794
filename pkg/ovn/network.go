package ovn

import (
	"net/netip"

	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// buildNetwork gives the join switch, the cluster router and the groups of load
// balancers, which every node shares.
func buildNetwork(cfg Config) []ovsdb.Row {
	port := routerToJoin(ClusterRouter)
	var networks []netip.Prefix
	var repeated []string // without their subnets, to which one port leads
	for _, subnet := range cfg.JoinSubnets {
		networks = append(networks, hostPrefix(subnet, routerOffset))
		addr := ipam.RepeatAddress(subnet)
		repeated = append(repeated, netip.PrefixFrom(addr, addr.BitLen()).String())
	}
	rows := []ovsdb.Row{
		{ID: JoinSwitch, Model: &nb.LogicalSwitch{Name: JoinSwitch}},
		{ID: ClusterRouter, Model: &nb.LogicalRouter{
			Name:        ClusterRouter,
			Options:     map[string]string{"always_learn_from_arp_request": "false"},
			ExternalIDs: map[string]string{"k8s-cluster-router": "yes"},
		}},
		routerPort(ClusterRouter, &nb.LogicalRouterPort{
			Name:     port,
			MAC:      kube.MACFromAddress(networks[0].Addr()).String(),
			Networks: prefixStrings(networks),
		}),
		switchPort(JoinSwitch, routerPeer(joinToRouter(ClusterRouter), port)),
		routerPort(ClusterRouter, &nb.LogicalRouterPort{
			Name:     repeatPrefix + port,
			MAC:      repeatMAC(cfg),
			Networks: repeated,
		}),
		switchPort(JoinSwitch, routerPeer(repeatPrefix+joinToRouter(ClusterRouter), repeatPrefix+port)),
	}
	for _, name := range groups() {
		rows = append(rows, ovsdb.Row{ID: name, Model: &nb.LoadBalancerGroup{Name: name}})
	}
	rows = append(rows, ovsdb.Row{ID: GatewaysGroup, Model: &nb.PortGroup{Name: GatewaysGroup}})
	return append(append(rows, masqueradeRules(cfg)...), clusterRules(cfg)...)
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
