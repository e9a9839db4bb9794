package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// isolation drops what pods send to the default network, to its services but the shared ones, and to other networks.
// Replies to gateway routers and to other networks pass, and so does what is sent to the addresses of shared services:
// gateway routers tell replies from requests, and know the ports.
func isolation(view View, net scope, family contract.Family, targets []lb.Target) ovsdb.Row {
	var but []string
	for _, addr := range addressesOf(targets) {
		but = append(but, addr.String())
	}
	if subnet, ok := family.Pick(net.MasqueradeSubnets); ok {
		but = append(but, contract.Links(subnet).String(), contract.NetworkAddresses(subnet).String())
	}
	address := acl.Destination.Of(family)
	match := fmt.Sprintf("%s == {%s}", address, strings.Join(prefixStrings(forbidden(view, net.Zone, family)), ", "))
	if len(but) > 0 {
		match += fmt.Sprintf(" && !(%s == {%s})", address, strings.Join(but, ", "))
	}
	return routerPolicy(net.ClusterRouter(), "isolation "+acl.MatchFamily(family), &nb.LogicalRouterPolicy{
		Priority: priorityMasquerade, Action: nb.LogicalRouterPolicyActionDrop, Match: match,
	})
}

// forbidden are the subnets that are not for pods of networks.
func forbidden(view View, zone contract.Zone, family contract.Family) (prefixes []netip.Prefix) {
	for _, prefix := range slices.Concat(zone.DefaultSubnets, zone.MasqueradeSubnets, zone.ServiceSubnets, view.ServiceSubnets()) {
		if family.Has(prefix.Addr()) && !slices.Contains(prefixes, prefix.Masked()) {
			prefixes = append(prefixes, prefix.Masked())
		}
	}
	return prefixes
}

// sharedPorts are on the gateway router of a node: of what networks send to the addresses of shared services, the services' ports
// pass, and what load balancers of the gateway router lead there. The routers of networks cannot tell ports: their policies
// choose the node's link, so none of them can let a packet pass and leave it to others, and OVN takes
// `!(ip4.dst == A && udp.dst == 53)` for `ip4.dst != A || udp && udp.dst != 53`, which no packet of TCP to A is.
func sharedPorts(view View, n node) (rows []ovsdb.Row, err error) {
	if has, err := n.hasGateway(); !has || err != nil || len(view.NetworksWithGateway()) == 0 {
		return nil, err
	}
	shared, err := lb.SharedTargets(view)
	if err != nil {
		return nil, err
	}
	gr := n.net.GatewayRouter(n.name)
	for _, link := range n.links() {
		family := contract.FamilyOf(link.Addr())
		all, address := forbidden(view, n.net.Zone, family), acl.Destination.Of(family)
		targets := slices.DeleteFunc(shared[family], func(target lb.Target) bool { // others are external hosts
			return !slices.ContainsFunc(all, func(prefix netip.Prefix) bool { return prefix.Contains(target.Addr()) })
		})
		if len(targets) == 0 {
			continue
		}
		var passes, addrs []string
		for _, target := range targets {
			passes = append(passes, fmt.Sprintf("(%s == %s && %s.dst == %d)", address, target.Addr(), target.Protocol, target.Port()))
		}
		for _, addr := range addressesOf(targets) {
			addrs = append(addrs, addr.String())
		}
		slices.Sort(passes)
		name, from := acl.MatchFamily(family), fmt.Sprintf("inport == %q", gatewayTransitPort(gr))
		rows = append(rows, routerPolicy(gr, "shared ports "+name, &nb.LogicalRouterPolicy{
			Priority: priorityMasquerade + 1, Action: nb.LogicalRouterPolicyActionAllow,
			Match: fmt.Sprintf("%s && (%s)", from, strings.Join(slices.Compact(passes), " || ")),
		}), routerPolicy(gr, "shared "+name, &nb.LogicalRouterPolicy{
			Priority: priorityMasquerade, Action: nb.LogicalRouterPolicyActionDrop,
			Match: fmt.Sprintf("%s && %s == {%s} && !(ct.trk && ct_mark.natted == 1)", from, address, strings.Join(addrs, ", ")),
		}))
	}
	return rows, nil
}

// addressesOf are the addresses of targets, each once.
func addressesOf(targets []lb.Target) (addrs []netip.Addr) {
	for _, target := range targets {
		addrs = append(addrs, target.Addr())
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}
