package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// geneve is the UDP port of the tunnels between nodes.
const geneve = 6081

// masqueradeRules keep pods away from their node's processes at the masquerade
// address. Load balancers of gateway routers put the address in behind the cluster
// router, so nothing legitimate for the masquerade subnets crosses the cluster router.
// A service can still lead Geneve there, with the source of another node.
func masqueradeRules(net scope) []ovsdb.Row {
	var rows []ovsdb.Row
	for _, subnet := range net.MasqueradeSubnets {
		family, masked := acl.FamilyOf(subnet.Addr()), subnet.Masked().String()
		rows = append(rows,
			routerPolicy(net.ClusterRouter(), "masquerade "+family, &nb.LogicalRouterPolicy{
				Priority: priorityMasquerade, Action: nb.LogicalRouterPolicyActionDrop,
				Match: fmt.Sprintf("%s.dst == %s", family, masked),
			}),
			net.dropGeneve("masquerade", contract.FamilyOf(subnet.Addr()), masked),
		)
	}
	return rows
}

// tunnelRules drop Geneve that leaves a gateway router for a node: the node would take
// the packet for one from the tunnel of the sender's node, because SNAT has given the
// packet the address of that node. The kernel accepts tunnels at every address of a
// node, so the rules name all of them. The rules are behind the load balancers, on the
// switches to the external bridges, and need no conntrack. A pod on a localnet without subnets can use the address of a
// node as its source, so there are rules on the switches of localnets, too.
func tunnelRules(n node) []ovsdb.Row {
	addrs := slices.Clone(n.encaps)
	prefixes := slices.Clone(n.hosts)
	if n.gateway != nil {
		prefixes = slices.Concat(prefixes, n.gateway.Addresses, n.gateway.SecondGateway.Addresses)
	}
	for _, prefix := range prefixes {
		addrs = append(addrs, prefix.Addr())
	}
	addrs = slices.DeleteFunc(addrs, func(addr netip.Addr) bool { return !routable(addr) })
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	var rows []ovsdb.Row
	for _, family := range acl.Families() {
		var own []string
		for _, addr := range addrs {
			if family.Has(addr) {
				own = append(own, addr.String())
			}
		}
		if len(own) > 0 {
			rows = append(rows, n.net.dropGeneve("geneve", family, "{"+strings.Join(own, ", ")+"}"), dropOnLocalnets(family, own))
		}
	}
	return rows
}

// dropOnLocalnets drops UDP in fragments, too: OVS does not show the port of a fragment. Without the first fragment the
// node makes no packet of the others.
func dropOnLocalnets(family contract.Family, nodes []string) ovsdb.Row {
	return acl.Row("localnets/"+acl.MatchFamily(family), &nb.ACL{
		Action: nb.ACLActionDrop, Direction: nb.ACLDirectionFromLport, Tier: acl.TierPrimary, Priority: acl.PriorityDeny,
		Match: fmt.Sprintf("%s == {%s} && (udp.dst == %d || (udp && ip.first_frag))", acl.Destination.Of(family), strings.Join(nodes, ", "), geneve),
	}, nb.PortGroupTable, contract.LocalnetsGroup)
}

// dropGeneve does not see the port of a fragment; the flows of the gateway bridge do.
func (s scope) dropGeneve(id string, family contract.Family, destination string) ovsdb.Row {
	return acl.Row(id+"/"+acl.MatchFamily(family), &nb.ACL{
		Action: nb.ACLActionDrop, Direction: nb.ACLDirectionFromLport, Tier: acl.TierPrimary, Priority: acl.PriorityDeny,
		Match: fmt.Sprintf("%s == %s && udp.dst == %d", acl.Destination.Of(family), destination, geneve),
	}, nb.PortGroupTable, s.GatewaysGroup())
}
