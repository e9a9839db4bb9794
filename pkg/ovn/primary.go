package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// A primary network, and a secondary one with exits, has one router for all nodes, and no gateway routers. On each node a
// link leads from this router to the node's gateway router, which serves the default network and all these networks. The
// gateway router replaces the pods' addresses by the node's address, so the gateway bridge has no flows for networks.
//
// The gateway router has no route to the subnets of a network, which its owner chooses: an external host may have an address
// there. What pods send has the network's own masquerade address when it arrives, so replies need no other route. Only what a
// load balancer has translated is led to the subnets, by a policy. Where subnets of networks overlap, only the oldest network
// has the policy.

// gatewayRows are those of a network with a gateway that exist once, beside those of any further network.
func gatewayRows(view View, net scope) ([]ovsdb.Row, error) {
	for _, subnet := range net.MasqueradeSubnets {
		if !contract.HasPrimaries(subnet) {
			return nil, fmt.Errorf("masquerade subnet %s is too small for networks with a gateway: give a /17, or a /113 of IPv6", subnet)
		}
	}
	if net.ID == 0 {
		return nil, notReady("network %s has no id yet", net.Name)
	}
	rows := []ovsdb.Row{{ID: net.SwitchGroup(), Model: &nb.LoadBalancerGroup{Name: net.SwitchGroup()}}}
	if net.Topology == contract.Layer2 {
		rows = append(rows, layer2Router(net)...)
	}
	var shared []ovsdb.Row
	var targets map[contract.Family][]lb.Target
	if net.IsPrimary() { // pods of other networks have eth0 for these services
		var err error
		if shared, targets, err = lb.BuildShared(view, net.Network); err != nil {
			return nil, err
		}
	}
	for _, family := range net.Families() {
		rows = append(rows, isolation(view, net, family, targets[family]))
	}
	return append(rows, shared...), nil
}

// layer2Router is the router of a network of topology layer2, with its port on the switch.
func layer2Router(net scope) []ovsdb.Row {
	sw := net.PodSwitch("")
	port := routerToSwitch(sw)
	peer := routerPeer(switchToRouter(sw), port)
	peer.ExternalIDs = net.externalIDs()
	rows := []ovsdb.Row{clusterRouter(net), switchPort(sw, peer), routerPort(net.ClusterRouter(), &nb.LogicalRouterPort{
		Name: port, MAC: contract.RouterMAC(net.Network).String(), Networks: prefixStrings(net.Gateways), ExternalIDs: net.externalIDs(),
		Ipv6RaConfigs: advertisements(net),
	})}
	for _, family := range net.Families() {
		masquerade, ok := family.Pick(net.MasqueradeSubnets)
		if !ok {
			continue
		}
		// OVN looks for a route before it looks at the policies, which choose the link of the pod's node. A node without
		// a link drops the packets.
		name := acl.FamilyOf(masquerade.Addr())
		rows = append(rows, staticRoute(net.ClusterRouter(), &nb.LogicalRouterStaticRoute{
			IPPrefix: anywhere(masquerade.Addr()), Nexthop: contract.AddressAt(masquerade.Masked(), contract.MasqueradeNextHop).String(),
			OutputPort: &port, ExternalIDs: net.externalIDs(),
		}), routerPolicy(net.ClusterRouter(), "no link "+name, &nb.LogicalRouterPolicy{
			Priority: priorityLeave - 1, Action: nb.LogicalRouterPolicyActionDrop, Match: leaves(net, name, masquerade),
		}))
	}
	return rows
}

// leaves matches what pods of a network of topology layer2 send to addresses outside.
func leaves(net scope, family string, masquerade netip.Prefix) string {
	inside := append([]string{contract.Links(masquerade).String()}, prefixStrings(net.prefixesOf(masquerade.Addr()))...)
	return fmt.Sprintf("inport == %q && %s && !(%[2]s.dst == {%s})", routerToSwitch(net.PodSwitch("")), family, strings.Join(inside, ", "))
}

// lockedRules are the rules of pods with a primary network on the default network. Their node reaches them, by a rule of
// every node, and others at the ports that a pod opens.
func lockedRules(net scope) []ovsdb.Row {
	group := net.LockedGroup()
	rows := []ovsdb.Row{{ID: group, Model: &nb.PortGroup{Name: group}}}
	for direction, port := range map[string]string{nb.ACLDirectionToLport: "outport", nb.ACLDirectionFromLport: "inport"} {
		add := func(id, action, match string, priority int) {
			rule := &nb.ACL{Action: action, Direction: direction, Match: match, Tier: acl.TierPrimary, Priority: priority}
			if direction == nb.ACLDirectionFromLport {
				rule.Options = map[string]string{"apply-after-lb": "true"}
			}
			rows = append(rows, acl.Row("locked/"+direction+"/"+id, rule, nb.PortGroupTable, group))
		}
		match := port + " == @" + group
		add("nd", nb.ACLActionAllow, match+" && nd", acl.PriorityFirst)
		add("rest", nb.ACLActionDrop, match, acl.PriorityFirst-1)
	}
	return rows
}

// openPorts are the ports that a locked pod opens on the default network. A list that cannot be read opens none.
func openPorts(net scope, pod *corev1.Pod, sw string) (rows []ovsdb.Row, err error) {
	ports, err := contract.ParseOpenPorts(pod.Annotations[contract.OpenPortsKey])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", reconcile.ErrInvalid, err)
	}
	open := map[string][]string{}
	for _, p := range ports {
		open[p.Protocol] = append(open[p.Protocol], strconv.Itoa(p.Port))
	}
	for protocol, numbers := range open {
		what := "(icmp4 || icmp6)"
		if protocol != "icmp" {
			what = fmt.Sprintf("%s.dst == {%s}", protocol, strings.Join(numbers, ", "))
		}
		rows = append(rows, acl.Row("open/"+protocol, &nb.ACL{
			Action: nb.ACLActionAllowRelated, Direction: nb.ACLDirectionToLport, Tier: acl.TierPrimary, Priority: acl.PriorityFirst,
			Match: fmt.Sprintf("outport == %q && %s", net.PodPort(pod.Namespace, pod.Name), what),
		}, nb.LogicalSwitchTable, sw))
	}
	return rows, nil
}

// transitPort is the port of a network's router on the transit switch of a node. Its name has the exact name of the
// network, because it says the owner of neighbors.
func transitPort(network, node string) string { return "rtot-" + network + "/" + node }

// gatewayTransitPort is the port of a gateway router there.
func gatewayTransitPort(gr string) string { return "rtot-" + gr }

// transitRows are a node's transit switch, and what its gateway router has for primary networks.
func transitRows(n node, networks []contract.Network) []ovsdb.Row {
	links := n.links()
	if len(links) == 0 || len(networks) == 0 {
		return nil
	}
	gr, transit := n.net.GatewayRouter(n.name), contract.TransitSwitch(n.name)
	port := gatewayTransitPort(gr)
	rows := []ovsdb.Row{
		{ID: transit, Model: &nb.LogicalSwitch{Name: transit}},
		routerPort(gr, &nb.LogicalRouterPort{Name: port, MAC: transitMAC(links), Networks: prefixStrings(transitAddresses(links))}),
		switchPort(transit, routerPeer("ttor-"+gr, port)),
	}
	for _, network := range networks {
		net := scope{network, n.net.Zone}
		for _, own := range networkAddresses(net, links) {
			rows = append(rows, neighbor(port, own.String(), primaryMAC(net)))
		}
	}
	for _, link := range links {
		rows = append(append(rows, transitRoutes(n, link)...), transitNAT(n, contract.FamilyOf(link.Addr()))...)
	}
	return append(rows, toProcesses(n, links))
}

func transitAddresses(links []netip.Prefix) (all []netip.Prefix) {
	for _, link := range links {
		all = append(all, contract.TransitAddress(link))
	}
	return all
}

// transitRoutes lead to the node in spite of the subnet of the transit port. OVN looks for a route before it looks at the
// policies, so a gateway router without a next hop has a default route of which another policy drops all packets.
func transitRoutes(n node, link netip.Prefix) []ovsdb.Row {
	family := contract.FamilyOf(link.Addr())
	masquerade, _ := family.Pick(n.net.MasqueradeSubnets)
	gr := n.net.GatewayRouter(n.name)
	external, transit := routerToExternal(gr), gatewayTransitPort(gr)
	rows := []ovsdb.Row{staticRoute(gr, &nb.LogicalRouterStaticRoute{
		IPPrefix: contract.MasqueradeHosts(masquerade).String(), OutputPort: &external,
		Nexthop: contract.AddressAt(masquerade.Masked(), contract.MasqueradeNextHop).String(),
	})}
	if slices.ContainsFunc(n.gateway.NextHops, family.Has) {
		return rows
	}
	return append(rows, staticRoute(gr, &nb.LogicalRouterStaticRoute{
		IPPrefix: anywhere(link.Addr()), Nexthop: contract.PrefixAt(link, 1).Addr().String(), OutputPort: &transit,
	}))
}

// toProcesses leads pods of the networks to the processes of their own node: its addresses are those of the gateway router,
// too. Frontends with a port, such as node ports, come first. DNAT would come before them, also for packets of connections
// that they have.
func toProcesses(n node, links []netip.Prefix) ovsdb.Row {
	vips := map[string]string{}
	for _, own := range n.gateway.Addresses {
		family := contract.FamilyOf(own.Addr())
		if _, linked := family.Pick(links); linked {
			masquerade, _ := family.Pick(n.net.MasqueradeSubnets)
			vips[own.Addr().String()] = contract.PrefixAt(masquerade, contract.MasqueradeHost).Addr().String()
		}
	}
	return ovsdb.Row{ID: "transit", Model: &nb.LoadBalancer{
		Name: "Node_" + n.name, Vips: vips, Options: map[string]string{"neighbor_responder": "none"},
	}, Parents: []ovsdb.Parent{{Table: nb.LogicalRouterTable, Name: n.net.GatewayRouter(n.name), Column: columnLoadBalancer}}}
}

// toNetwork leads what a load balancer of a gateway router has translated to an endpoint on a primary network, by the
// network's own address. Replies, and packets that are not translated, are routed as if the network did not exist.
func toNetwork(n node, net scope, own netip.Addr) ovsdb.Row {
	family := contract.FamilyOf(own)
	return routerPolicy(n.net.GatewayRouter(n.name), "frontends "+acl.FamilyOf(own), &nb.LogicalRouterPolicy{
		Priority: priorityMasquerade + 1, Action: nb.LogicalRouterPolicyActionReroute, Nexthops: []string{own.String()},
		Match: fmt.Sprintf("%s == {%s} && ct.trk && !ct.rpl && ct_mark.natted == 1",
			acl.Destination.Of(family), strings.Join(prefixStrings(net.prefixesOf(own)), ", ")),
	})
}

// transitNAT is a gateway router's SNAT for primary networks, and the rule by which routes lead only replies to them.
func transitNAT(n node, family contract.Family) (rows []ovsdb.Row) {
	gr := n.net.GatewayRouter(n.name)
	masquerade, _ := family.Pick(n.net.MasqueradeSubnets)
	all, transit := contract.NetworkAddresses(masquerade), gatewayTransitPort(gr)
	leave := func(port string, as netip.Prefix) {
		rows = append(rows, routerNAT(gr, "transit snat "+acl.FamilyOf(all.Addr())+" "+port, &nb.NAT{
			Type: nb.NATTypeSNAT, ExternalIP: as.Addr().String(), LogicalIP: anywhere(all.Addr()),
			Match: fmt.Sprintf("inport == %q && outport == %q", transit, port),
		}))
	}
	for _, e := range externalBridges(n) {
		if address, ok := family.Pick(e.Addresses); ok {
			leave(e.routerPort(n), address)
		}
	}
	if join, ok := family.Pick(n.net.JoinSubnets); ok { // to shared services
		leave(routerToJoin(gr), contract.PrefixAt(join, uint64(n.id)))
	}
	// Replies of pods of the default network that see the address of a network, which the cluster router's guard would drop.
	rows = append(rows, routerPolicy(n.net.ClusterRouter(), "networks "+acl.FamilyOf(all.Addr()), &nb.LogicalRouterPolicy{
		Priority: priorityMasquerade + 1, Action: nb.LogicalRouterPolicyActionAllow,
		Match: fmt.Sprintf("inport == %q && %s == %s", routerToSwitch(n.net.NodeSwitch(n.name)), acl.Destination.Of(family), all),
	}))
	return append(rows, routerPolicy(gr, "transit "+acl.FamilyOf(all.Addr()), &nb.LogicalRouterPolicy{
		Priority: priorityMasquerade, Action: nb.LogicalRouterPolicyActionDrop,
		Match: fmt.Sprintf("outport == %q && %s && !(%s == %s && ct.trk && ct.rpl)",
			transit, acl.FamilyOf(all.Addr()), acl.Destination.Of(family), all),
	}))
}

// links are the node's part of its links to primary networks, one for each family that the node has outside.
func (n node) links() (links []netip.Prefix) {
	for _, subnet := range n.net.MasqueradeSubnets {
		if _, ok := contract.FamilyOf(subnet.Addr()).Pick(n.gateway.Addresses); ok && contract.HasPrimaries(subnet) && n.id <= contract.MaxLinkID {
			links = append(links, contract.Link(subnet, n.id))
		}
	}
	return links
}

func transitMAC(links []netip.Prefix) string {
	return contract.MACFromAddress(links[0].Addr()).String()
}

// linkedNode is the link of a network's router to a node's gateway router; nothing while the node has none.
func linkedNode(view View, net scope, object *corev1.Node) ([]ovsdb.Row, error) {
	n, err := parseNode(scope{Zone: net.Zone}, object.Name, object.Annotations)
	if err != nil {
		return nil, err
	}
	if has, err := n.hasGateway(); !has || err != nil {
		return nil, err
	}
	var rows []ovsdb.Row
	var ours []netip.Prefix
	links, port := n.links(), transitPort(net.Name, n.name)
	for _, own := range networkAddresses(net, links) {
		link, _ := contract.FamilyOf(own).Pick(links)
		ours = append(ours, contract.PrefixAt(link, 1))
		rows = append(append(rows, neighbor(port, link.Addr().String(), transitMAC(links))), toLink(net, n, link, own)...)
		rows = append(rows, linkNAT(net, n, own)...)
		if isRouted(view, net) {
			rows = append(rows, toNetwork(n, net, own))
		}
	}
	if len(ours) == 0 {
		return nil, nil
	}
	peer := routerPeer("ttor-"+net.NodeSwitch(n.name), port)
	peer.ExternalIDs = net.externalIDs()
	rows = append(rows, routerPort(net.ClusterRouter(), &nb.LogicalRouterPort{
		Name: port, MAC: primaryMAC(net), Networks: prefixStrings(ours), ExternalIDs: net.externalIDs(),
	}), switchPort(contract.TransitSwitch(n.name), peer))
	rows = append(rows, leaveRoutes(net, n.name, links, view.NodeSubnets(object, net.Name))...)
	return append(rows, boundToChassis(port, n.chassis)...), nil
}

// primaryMAC is that of a network's router on all transit switches.
func primaryMAC(net scope) string {
	return contract.LinkMAC(net.MasqueradeSubnets, net.ID).String()
}

// networkAddresses are a network's own masquerade addresses in the families of links.
func networkAddresses(net scope, links []netip.Prefix) (own []netip.Addr) {
	for _, family := range net.Families() {
		masquerade, ok := family.Pick(net.MasqueradeSubnets)
		if _, linked := family.Pick(links); ok && linked && net.ID != 0 {
			own = append(own, contract.NetworkAddress(masquerade, net.ID))
		}
	}
	return own
}

// isRouted says that load balancers of gateway routers lead to the pods of a network.
func isRouted(view View, net scope) bool { return net.IsPrimary() && view.IsRouted(net.Name) }

// linkNAT is the SNAT of a network on a link, for the connections that its pods open. Connections from a gateway router's
// address on a link are left out: their replies return to it. OVN tracks all others that come in by the link, and so leaves
// the replies of pods that see the client's own address as they are.
func linkNAT(net scope, n node, own netip.Addr) (rows []ovsdb.Row) {
	family := contract.FamilyOf(own)
	masquerade, _ := family.Pick(net.MasqueradeSubnets)
	links := contract.Links(masquerade)
	for _, subnet := range net.prefixesOf(own) {
		nat := routerNAT(net.ClusterRouter(), "snat "+subnet.String()+" "+n.name, &nb.NAT{
			Type: nb.NATTypeSNAT, ExternalIP: own.String(), LogicalIP: subnet.String(), ExternalIDs: net.externalIDs(),
			Match: fmt.Sprintf("!(%s == %s) && !(%s == %[2]s)", acl.Destination.Of(family), links, acl.Source.Of(family)),
		})
		nat.References = []ovsdb.Reference{{Column: "gateway_port", Table: nb.LogicalRouterPortTable, Name: transitPort(net.Name, n.name)}}
		rows = append(rows, nat)
	}
	return rows
}

// toLink is the way to a link with topology layer2: a pod that moves to another node takes the other link.
func toLink(net scope, n node, link netip.Prefix, own netip.Addr) []ovsdb.Row {
	if net.Topology != contract.Layer2 {
		return nil
	}
	family := acl.FamilyOf(own)
	masquerade, _ := contract.FamilyOf(own).Pick(net.MasqueradeSubnets)
	return []ovsdb.Row{routerPolicy(net.ClusterRouter(), "leave "+n.name+" "+family, &nb.LogicalRouterPolicy{
		Priority: priorityLeave, Action: nb.LogicalRouterPolicyActionReroute, Nexthops: []string{link.Addr().String()},
		Match: fmt.Sprintf("%s && is_chassis_resident(%q)", leaves(net, family, masquerade), "cr-"+transitPort(net.Name, n.name)),
	})}
}

// leaveRoutes lead what pods of a node's subnets send away to the node's link.
func leaveRoutes(net scope, node string, links, subnets []netip.Prefix) (rows []ovsdb.Row) {
	port, source := transitPort(net.Name, node), nb.LogicalRouterStaticRoutePolicySrcIP
	for _, subnet := range subnets {
		if link, ok := contract.FamilyOf(subnet.Addr()).Pick(links); ok {
			rows = append(rows, staticRoute(net.ClusterRouter(), &nb.LogicalRouterStaticRoute{
				IPPrefix: subnet.String(), Policy: &source, Nexthop: link.Addr().String(), OutputPort: &port, ExternalIDs: net.externalIDs(),
			}))
		}
	}
	return rows
}
