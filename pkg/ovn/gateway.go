package ovn

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// nodeGateway gives a node's gateway router, its ports and routes, and the
// switch to the node's wire: nothing until the agent has said which chassis and
// which interface they stand on, and nothing where the gateway is disabled.
func nodeGateway(cfg Config, n node) ([]ovsdb.Row, error) {
	if n.gateway == nil || n.gateway.Mode == "disabled" || n.chassis == "" || n.id == 0 {
		return nil, nil
	}
	if err := validGateway(n); err != nil {
		return nil, err
	}
	var join []netip.Prefix
	for _, subnet := range cfg.JoinSubnets {
		join = append(join, hostPrefix(subnet, uint64(n.id)))
	}
	rows := gatewayRouter(n, join)
	rows = append(rows, externalSwitch(n)...)
	return append(rows, gatewayRoutes(cfg, n, join)...), nil
}

// validGateway refuses what an agent must not say. The name ends with the node's,
// so that no node takes the name of another's port or of a pod's.
func validGateway(n node) error {
	name := n.gateway.Interface
	switch {
	case !strings.HasSuffix(name, "_"+n.name) || strings.ContainsAny(name, " \"\\,$\n"):
		return fmt.Errorf("gateway interface %q is not a bridge's name and _%s", name, n.name)
	case len(n.gateway.MAC) == 0 || len(n.gateway.Addresses) == 0:
		return fmt.Errorf("gateway interface %q has no MAC or no address", name)
	}
	return nil
}

func gatewayRouter(n node, join []netip.Prefix) []ovsdb.Row {
	gr := GatewayRouter(n.name)
	var physical []string
	for _, addr := range n.gateway.Addresses {
		physical = append(physical, addr.Addr().String())
	}
	externalIDs := map[string]string{"physical_ips": strings.Join(physical, ",")}
	if len(physical) > 0 {
		externalIDs["physical_ip"] = physical[0]
	}
	return []ovsdb.Row{
		{ID: gr, Model: &nb.LogicalRouter{
			Name: gr,
			Options: map[string]string{
				"chassis":                       n.chassis,
				"always_learn_from_arp_request": "false",
				// All gateway routers meet on one switch: static neighbours
				// would be rows for each pair of nodes.
				"dynamic_neigh_routers":     "true",
				"lb_force_snat_ip":          "router_ip",
				"mac_binding_age_threshold": "300",
				"snat-ct-zone":              "0",
			},
			ExternalIDs: externalIDs,
		}, References: balancedBy(ClusterGroup, ClusterRouterGroup)},
		routerPort(gr, &nb.LogicalRouterPort{
			Name:     routerToJoin(gr),
			MAC:      kube.MACFromAddress(join[0].Addr()).String(),
			Networks: prefixStrings(join),
		}),
		switchPort(JoinSwitch, routerPeer(joinToRouter(gr), routerToJoin(gr))),
		routerPort(gr, &nb.LogicalRouterPort{
			Name:        routerToExternal(gr),
			MAC:         n.gateway.MAC.String(),
			Networks:    prefixStrings(n.gateway.Addresses),
			ExternalIDs: map[string]string{"gateway-physical-ip": "yes"},
		}),
	}
}

func externalSwitch(n node) []ovsdb.Row {
	gr, ext := GatewayRouter(n.name), ExternalSwitch(n.name)
	peer := routerPeer(externalToRouter(gr), routerToExternal(gr))
	peer.Addresses = []string{n.gateway.MAC.String()}
	peer.Options["nat-addresses"] = "router"
	peer.Options["exclude-lb-vips-from-garp"] = "true"
	return []ovsdb.Row{
		{ID: ext, Model: &nb.LogicalSwitch{Name: ext}},
		switchPort(ext, peer),
		switchPort(ext, &nb.LogicalSwitchPort{
			Name:      n.gateway.Interface,
			Type:      "localnet",
			Addresses: []string{"unknown"},
			Options:   map[string]string{"network_name": PhysicalNetwork},
		}),
	}
}

// gatewayRoutes send what leaves the cluster from a node's pods to the node's
// own gateway router and on to the node's next hops, and replies back.
func gatewayRoutes(cfg Config, n node, join []netip.Prefix) []ovsdb.Row {
	gr := GatewayRouter(n.name)
	srcIP, external := nb.LogicalRouterStaticRoutePolicySrcIP, routerToExternal(gr)
	var rows []ovsdb.Row
	for _, subnet := range n.subnets {
		if hop, ok := sameFamily(join, subnet.Addr()); ok {
			rows = append(rows, staticRoute(ClusterRouter, &nb.LogicalRouterStaticRoute{
				IPPrefix: subnet.String(), Policy: &srcIP, Nexthop: hop.Addr().String(),
			}))
		}
	}
	for _, subnet := range cfg.ClusterSubnets {
		if joinSubnet, ok := sameFamily(cfg.JoinSubnets, subnet.Addr()); ok {
			rows = append(rows, staticRoute(gr, &nb.LogicalRouterStaticRoute{
				IPPrefix: subnet.String(), Nexthop: hostPrefix(joinSubnet, routerOffset).Addr().String(),
			}))
		}
	}
	for _, hop := range n.gateway.NextHops {
		anywhere := "0.0.0.0/0"
		if hop.Is6() {
			anywhere = "::/0"
		}
		rows = append(rows, staticRoute(gr, &nb.LogicalRouterStaticRoute{
			IPPrefix: anywhere, Nexthop: hop.String(), OutputPort: &external,
		}))
	}
	return rows
}
