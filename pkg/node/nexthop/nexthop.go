// Package nexthop says by which routers the pods of a node reach other networks. It is pure.
//
// Place in the data flow:
//
//	routes of the host, the setting -> pkg/node/gateway's pass -> Uplink.Of -> annotation of the Node -> gateway router
//	  -> Uplink.Problem -> NodeOffload and Event of the Node;  pkg/node/preflight -> warning
//
// A host may have its default route at another interface than the gateway bridge, such as a NIC for administration.
// Then only the setting leads pods beyond the networks of the node's addresses.
package nexthop

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// Uplink is the way of a node to other networks.
type Uplink struct {
	// Name is that of the interface for people, and Link has the addresses. Routes of Links are those of the uplink.
	Name, Link string
	Links      []string
	// Addrs are the node's, one of each family.
	Addrs []netip.Prefix
	// Configured are the routers of the setting.
	Configured []netip.Addr
}

// Of gives the next hops of each family: the configured ones, else those of the link's default route of lowest metric.
func (u Uplink) Of(routes []netdev.Route) []netip.Addr {
	var out []netip.Addr
	for _, addr := range u.Addrs {
		out = append(out, u.ofFamily(contract.FamilyOf(addr.Addr()), routes)...)
	}
	return out
}

func (u Uplink) ofFamily(family contract.Family, routes []netdev.Route) []netip.Addr {
	configured := slices.DeleteFunc(slices.Clone(u.Configured), func(hop netip.Addr) bool { return !family.Has(hop) })
	if len(configured) > 0 {
		return configured
	}
	var best netdev.Route
	for _, r := range defaults(routes, family) {
		if r.Link == u.Link && r.NextHop.IsValid() && (!best.NextHop.IsValid() || r.Metric < best.Metric) {
			best = r
		}
	}
	if !best.NextHop.IsValid() {
		return nil
	}
	return append([]netip.Addr{best.NextHop}, best.Others...)
}

// defaults are the default routes of the main table.
func defaults(routes []netdev.Route, family contract.Family) []netdev.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(r netdev.Route) bool {
		return r.Dest.Bits() != 0 || r.Table != node.TableMain || !family.Has(r.Dest.Addr())
	})
}

// Problem says why pods have no way beyond the networks of the addresses: the host's default route is on another
// interface, or there is none. More routes than pods use are a problem, too. A host that has one in the other family only has no way there itself, which is no
// problem.
func (u Uplink) Problem(routes []netdev.Route) error {
	for _, addr := range u.Addrs {
		family := contract.FamilyOf(addr.Addr())
		elsewhere := slices.DeleteFunc(defaults(routes, family), func(r netdev.Route) bool {
			return r.Link == "" || r.Link == u.Link || slices.Contains(u.Links, r.Link)
		})
		if len(u.ofFamily(family, routes)) == 0 && len(elsewhere) > 0 {
			return fmt.Errorf("the %s default route is on %s, and not on gateway interface %s: pods reach no %s address beyond %s; "+
				"set gateway_next_hop", family, elsewhere[0].Link, u.Name, family, addr.Masked())
		}
	}
	if len(u.Addrs) == 0 || len(u.Of(routes)) > 0 {
		return u.tooMany(routes)
	}
	networks := make([]string, len(u.Addrs))
	for i, addr := range u.Addrs {
		networks[i] = addr.Masked().String()
	}
	return fmt.Errorf("the host has no default route: pods reach no address beyond %s; set gateway_next_hop", strings.Join(networks, " and "))
}
