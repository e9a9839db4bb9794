package nexthop

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// Routes are those of the host's main table by a router at the link, without the default routes and the agent's own. Of
// a destination with several it is the one that the kernel uses; of several next hops, the first. Beyond the limit,
// routes that an administrator or a DHCP server gave come before those of routing daemons.
func (u Uplink) Routes(routes []netdev.Route) []contract.GatewayRoute {
	all := u.routes(routes)
	return all[:min(len(all), contract.MaxGatewayRoutes)]
}

func (u Uplink) routes(routes []netdev.Route) []contract.GatewayRoute {
	best := map[netip.Prefix]netdev.Route{}
	for _, r := range routes {
		if r.Table != node.TableMain || r.Dest.Bits() == 0 || r.Dest.Addr().IsMulticast() || r.Dest.Addr().IsLinkLocalUnicast() {
			continue
		}
		if was, ok := best[r.Dest]; !ok || r.Metric < was.Metric {
			best[r.Dest] = r
		}
	}
	var chosen []netdev.Route
	for _, r := range best {
		if r.Link == u.Link && r.NextHop.IsValid() && r.NextHop.Is4() == r.Dest.Addr().Is4() && r.Protocol != node.ProtocolOurs && u.hasFamily(r.NextHop) {
			chosen = append(chosen, r)
		}
	}
	slices.SortFunc(chosen, func(a, b netdev.Route) int {
		return cmp.Or(cmp.Compare(daemons(a), daemons(b)), a.Dest.Compare(b.Dest))
	})
	out := make([]contract.GatewayRoute, len(chosen))
	for i, r := range chosen {
		out[i] = contract.GatewayRoute{Dest: r.Dest, NextHop: r.NextHop}
	}
	return out
}

// hasFamily reports whether the node has an address of the family, which the gateway router needs, too.
func (u Uplink) hasFamily(addr netip.Addr) bool {
	return slices.ContainsFunc(u.Addrs, func(own netip.Prefix) bool { return own.Addr().Is4() == addr.Is4() })
}

// daemons is 1 for a route of a routing daemon.
func daemons(r netdev.Route) int {
	switch r.Protocol {
	case unix.RTPROT_BOOT, unix.RTPROT_STATIC, unix.RTPROT_DHCP:
		return 0
	}
	return 1
}

// tooMany says that pods do not use all routes of the host.
func (u Uplink) tooMany(routes []netdev.Route) error {
	if n := len(u.routes(routes)); n > contract.MaxGatewayRoutes {
		return fmt.Errorf("the host has %d routes on %s, of which pods use %d: summarize the routes", n, u.Name, contract.MaxGatewayRoutes)
	}
	return nil
}
