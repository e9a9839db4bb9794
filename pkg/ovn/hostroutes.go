package ovn

import (
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// hostRoutes lead a node's pods by the host's own routes. A route to networks that are the cluster's is left out, such
// as one of another CNI plugin before.
func hostRoutes(n node) []ovsdb.Row {
	gr := n.net.GatewayRouter(n.name)
	external := routerToExternal(gr)
	taken := slices.Concat(n.net.Prefixes(), n.net.DefaultSubnets, n.net.JoinSubnets, n.net.MasqueradeSubnets, n.net.ServiceSubnets)
	var rows []ovsdb.Row
	seen := map[netip.Prefix]bool{}
	for _, route := range n.gateway.Routes[:min(len(n.gateway.Routes), contract.MaxGatewayRoutes)] {
		dest := route.Dest.Masked()
		if !dest.IsValid() || dest.Bits() == 0 || !routable(route.NextHop) || route.NextHop.Is4() != dest.Addr().Is4() ||
			seen[dest] || slices.ContainsFunc(taken, dest.Overlaps) {
			continue
		}
		seen[dest] = true
		rows = append(rows, staticRoute(gr, &nb.LogicalRouterStaticRoute{
			IPPrefix: dest.String(), Nexthop: route.NextHop.String(), OutputPort: &external,
		}))
	}
	return rows
}
