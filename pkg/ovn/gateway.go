package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// nodeGateway gives a node's gateway router, its ports and routes, and the
// switch to the node's wire: nothing until the agent has said which chassis and
// which interface they stand on, and nothing where the gateway is disabled.
func nodeGateway(n node, primaries []contract.Network) ([]ovsdb.Row, error) {
	if has, err := n.hasGateway(); !has || err != nil {
		return nil, err
	}
	var join []netip.Prefix
	for _, subnet := range n.net.JoinSubnets {
		join = append(join, contract.PrefixAt(subnet, uint64(n.id)))
	}
	rows := append(gatewayRouter(n, join), retransmitSNAT(n, join)...)
	for _, e := range externalBridges(n) {
		rows = append(rows, externalSwitch(n, e)...)
		rows = append(rows, gatewayNAT(n, e)...)
	}
	rows = append(append(rows, masqueradeRoutes(n)...), transitRows(n, primaries)...)
	rows = append(rows, leaveNamespaces(n, join)...)
	return append(rows, gatewayRoutes(n, join)...), nil
}

// hasGateway says whether a node has a gateway router; the error, why it is refused.
func (n node) hasGateway() (bool, error) {
	if n.gateway == nil || n.gateway.Mode == "disabled" || n.chassis == "" || n.id == 0 || len(n.subnets) == 0 {
		return false, nil
	}
	return true, validGateway(n)
}

// externalBridge is one external bridge of a node's gateway router.
type externalBridge struct {
	contract.SecondGateway
	// prefix begins its names; network is the name that the agent maps to the bridge.
	prefix, network string
}

func externalBridges(n node) []externalBridge {
	first := contract.SecondGateway{Interface: n.gateway.Interface, MAC: n.gateway.MAC, Addresses: n.gateway.Addresses}
	out := []externalBridge{{first, "", contract.PhysicalNetwork}}
	if n.gateway.SecondGateway.Interface != "" {
		out = append(out, externalBridge{n.gateway.SecondGateway, secondPrefix, contract.SecondPhysicalNetwork})
	}
	return out
}

// routerPort is the gateway router's port on the bridge.
func (e externalBridge) routerPort(n node) string {
	return e.prefix + routerToExternal(n.net.GatewayRouter(n.name))
}

// validGateway refuses what an agent must not say. The names end with the node's,
// so that no node takes the name of another's port or of a pod's.
func validGateway(n node) error {
	for _, e := range externalBridges(n) {
		switch {
		case !strings.HasSuffix(e.Interface, "_"+n.name) || strings.ContainsAny(e.Interface, " \"\\,$\n"):
			return fmt.Errorf("gateway interface %q is not a bridge's name and _%s", e.Interface, n.name)
		case len(e.MAC) == 0 || len(e.Addresses) == 0:
			return fmt.Errorf("gateway interface %q has no MAC or no address", e.Interface)
		}
		for _, address := range e.Addresses {
			if !routable(address.Addr()) {
				return fmt.Errorf("gateway interface %q has the address %s, which is neither IPv4 nor IPv6", e.Interface, address)
			}
		}
	}
	for _, hop := range n.gateway.NextHops {
		if !routable(hop) {
			return fmt.Errorf("gateway interface %q has the next hop %s, which is neither IPv4 nor IPv6", n.gateway.Interface, hop)
		}
	}
	if n.gateway.Interface == n.gateway.SecondGateway.Interface {
		return fmt.Errorf("gateway interface %q is said to be the second one too", n.gateway.Interface)
	}
	return nil
}

// routable says that OVN reads an address as one of its family: not one with a zone
// or an IPv4 address in the form of an IPv6 address.
func routable(addr netip.Addr) bool { return addr.IsValid() && addr.Zone() == "" && !addr.Is4In6() }

func gatewayRouter(n node, join []netip.Prefix) []ovsdb.Row {
	gr := n.net.GatewayRouter(n.name)
	var physical []string
	for _, addr := range n.gateway.Addresses {
		physical = append(physical, addr.Addr().String())
	}
	externalIDs := map[string]string{"physical_ips": strings.Join(physical, ",")}
	if len(physical) > 0 {
		externalIDs["physical_ip"] = physical[0]
	}
	inside := &nb.LogicalRouterPort{
		Name:     routerToJoin(gr),
		MAC:      contract.MACFromAddress(join[0].Addr()).String(),
		Networks: prefixStrings(join),
	}
	if n.mtu > 0 { // external clients get an ICMP error for a packet that is too large for pods
		inside.Options = map[string]string{"gateway_mtu": strconv.Itoa(n.mtu)}
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
		}, References: balancedBy(n.net.ClusterGroup(), n.net.RouterGroup())},
		routerPort(gr, inside),
		switchPort(n.net.JoinSwitch(), routerPeer(joinToRouter(gr), routerToJoin(gr))),
	}
}

// externalSwitch is the switch to an external bridge, with the router's port on it.
func externalSwitch(n node, e externalBridge) []ovsdb.Row {
	gr, ext := n.net.GatewayRouter(n.name), e.prefix+n.net.ExternalSwitch(n.name)
	peer := routerPeer(e.prefix+externalToRouter(gr), e.routerPort(n))
	peer.Addresses = []string{e.MAC.String()}
	if e.prefix == "" { // they tell of all addresses of the router, wherever those are
		peer.Options["nat-addresses"] = "router"
		peer.Options["exclude-lb-vips-from-garp"] = "true"
	}
	leave := switchPort(ext, peer)
	leave.Parents = append(leave.Parents, ovsdb.Parent{Table: nb.PortGroupTable, Name: n.net.GatewaysGroup(), Column: columnPorts})
	return []ovsdb.Row{
		routerPort(gr, &nb.LogicalRouterPort{
			Name:        e.routerPort(n),
			MAC:         e.MAC.String(),
			Networks:    prefixStrings(e.Addresses),
			ExternalIDs: map[string]string{"gateway-physical-ip": "yes"},
		}),
		{ID: ext, Model: &nb.LogicalSwitch{Name: ext}},
		leave,
		switchPort(ext, &nb.LogicalSwitchPort{
			Name:      e.Interface,
			Type:      "localnet",
			Addresses: []string{"unknown"},
			Options:   map[string]string{"network_name": e.network},
		}),
	}
}

// gatewayRoutes send what leaves the cluster from a node's pods to the node's
// own gateway router and on to the node's next hops, and replies back.
func gatewayRoutes(n node, join []netip.Prefix) []ovsdb.Row {
	gr := n.net.GatewayRouter(n.name)
	srcIP, external := nb.LogicalRouterStaticRoutePolicySrcIP, routerToExternal(gr)
	var rows []ovsdb.Row
	for _, subnet := range n.subnets {
		if hop, ok := contract.FamilyOf(subnet.Addr()).Pick(join); ok {
			rows = append(rows, staticRoute(n.net.ClusterRouter(), &nb.LogicalRouterStaticRoute{
				IPPrefix: subnet.String(), Policy: &srcIP, Nexthop: hop.Addr().String(),
			}))
		}
	}
	// Replies to a gateway router's SNAT address return to this router, from pods of every node. This route comes before
	// the route by the pod's address.
	for _, own := range join {
		rows = append(rows, staticRoute(n.net.ClusterRouter(), &nb.LogicalRouterStaticRoute{
			IPPrefix: netip.PrefixFrom(own.Addr(), own.Addr().BitLen()).String(), Nexthop: own.Addr().String(),
		}))
	}
	for _, subnet := range n.net.Prefixes() {
		if joinSubnet, ok := contract.FamilyOf(subnet.Addr()).Pick(n.net.JoinSubnets); ok {
			rows = append(rows, staticRoute(gr, &nb.LogicalRouterStaticRoute{
				IPPrefix: subnet.String(), Nexthop: contract.PrefixAt(joinSubnet, contract.RouterOffset).Addr().String(),
			}))
		}
	}
	for i, hop := range n.gateway.NextHops {
		if slices.Contains(n.gateway.NextHops[:i], hop) { // the host's route may have one twice
			continue
		}
		rows = append(rows, staticRoute(gr, &nb.LogicalRouterStaticRoute{
			IPPrefix: anywhere(hop), Nexthop: hop.String(), OutputPort: &external,
		}))
	}
	return append(rows, hostRoutes(n)...)
}

// gatewayNAT is the SNAT to the node's address for traffic to external addresses: one row for each cluster subnet, never
// for a pod. ICMP errors of the router need a row for its own address in the join subnet. Traffic through the egress
// gateway bridge gets the node's address of that network.
func gatewayNAT(n node, e externalBridge) []ovsdb.Row {
	var rows []ovsdb.Row
	routed := contract.PrefixesOf(contract.RoutedOf(n.net.NamespaceSubnets, true))
	for _, inside := range n.net.Prefixes() {
		if slices.Contains(routed, inside) {
			continue
		}
		rows = append(rows, sourceNAT(n, e, inside.Masked().String(), inside.Addr())...)
	}
	for _, subnet := range n.net.JoinSubnets {
		own := contract.PrefixAt(subnet, uint64(n.id)).Addr()
		rows = append(rows, sourceNAT(n, e, own.String(), own)...)
	}
	return rows
}

// retransmitSNAT is the SNAT for packets of unreplied connections to load balancers: a retransmitted SYN, or UDP of
// several packets. lb_force_snat_ip matches only the VIP as destination. After the first packet conntrack has already
// applied DNAT (lr_in_dnat, OVN 25.03), so later packets would leave without SNAT and get no reply. The conntrack state
// is available to router policies, and not in the SNAT stage. So a policy sends these packets to the cluster router's
// second address, and the SNAT matches the MAC of this address.
func retransmitSNAT(n node, join []netip.Prefix) []ovsdb.Row {
	gr := n.net.GatewayRouter(n.name)
	port := routerToJoin(gr)
	var rows []ovsdb.Row
	for i, subnet := range n.net.JoinSubnets {
		hop, family := contract.RetransmitAddress(subnet).String(), acl.FamilyOf(subnet.Addr())
		rows = append(rows,
			routerPolicy(gr, "repeat "+family, &nb.LogicalRouterPolicy{
				Priority: priorityRetransmit, Action: nb.LogicalRouterPolicyActionReroute, Nexthops: []string{hop},
				Match: fmt.Sprintf("%s && ct.new && ct_mark.natted == 1 && ct_mark.force_snat == 1 && outport == %q", family, port),
			}),
			routerNAT(gr, "repeat snat "+family, &nb.NAT{
				Type: nb.NATTypeSNAT, ExternalIP: join[i].Addr().String(), LogicalIP: anywhere(subnet.Addr()),
				Match: "eth.dst == " + retransmitMAC(n.net),
			}),
			neighbor(port, hop, retransmitMAC(n.net)),
		)
	}
	return rows
}

func retransmitMAC(net scope) string {
	return contract.MACFromAddress(contract.RetransmitAddress(net.JoinSubnets[0])).String()
}

// neighbor gives a router the MAC of an address, so that it sends no ARP request.
func neighbor(port, address, mac string) ovsdb.Row {
	return ovsdb.Row{ID: port + " " + address, Model: &nb.StaticMACBinding{LogicalPort: port, IP: address, MAC: mac, OverrideDynamicMAC: true}}
}

// anywhere is every address of a family.
func anywhere(family netip.Addr) string {
	if family.Is6() {
		return "::/0"
	}
	return "0.0.0.0/0"
}

// sourceNAT has no rows if the node has no address of the family. Only rows for the egress gateway bridge have a match,
// which gives them precedence.
func sourceNAT(n node, e externalBridge, inside string, family netip.Addr) []ovsdb.Row {
	address, ok := contract.FamilyOf(family).Pick(e.Addresses)
	if !ok {
		return nil
	}
	nat := &nb.NAT{Type: nb.NATTypeSNAT, ExternalIP: address.Addr().String(), LogicalIP: inside}
	if e.prefix != "" {
		nat.Match = fmt.Sprintf("outport == %q", e.routerPort(n))
	}
	return []ovsdb.Row{routerNAT(n.net.GatewayRouter(n.name), e.prefix+"snat "+inside, nat)}
}

// masqueradeRoutes lead back to the node's own processes, which have masquerade addresses at the gateway router. No host
// has the address of the next hop: the node's bridge forwards such packets with any MAC, so no ARP is needed.
func masqueradeRoutes(n node) []ovsdb.Row {
	gr := n.net.GatewayRouter(n.name)
	external := routerToExternal(gr)
	var rows []ovsdb.Row
	for _, subnet := range n.net.MasqueradeSubnets {
		own, ok := contract.FamilyOf(subnet.Addr()).Pick(n.gateway.Addresses)
		if !ok {
			continue
		}
		hop := contract.AddressAt(subnet.Masked(), contract.MasqueradeNextHop)
		rows = append(rows,
			staticRoute(gr, &nb.LogicalRouterStaticRoute{
				IPPrefix: subnet.Masked().String(), Nexthop: hop.String(), OutputPort: &external,
			}),
			neighbor(external, hop.String(), contract.MACFromAddress(hop).String()),
		)
		// Packets of the processes to node ports of other nodes get the node's address, also retransmissions before the
		// first reply, to which lb_force_snat_ip does not apply.
		client := contract.AddressAt(subnet.Masked(), contract.MasqueradeClient).String()
		rows = append(rows, routerNAT(gr, "snat "+client, &nb.NAT{
			Type: nb.NATTypeSNAT, ExternalIP: own.Addr().String(), LogicalIP: client, Match: fmt.Sprintf("outport == %q", external),
		}))
	}
	return rows
}
