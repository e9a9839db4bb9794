// Package masquerade leads a node's own processes to services, by addresses of no physical network. It is pure.
//
// Place in the data flow:
//
//	ranges of services (flags, API), addresses of the node -> pkg/node/gateway's pass -> Subnets, Plan
//	  -> masquerade addresses, routes and neighbours of the interface with the node's addresses
//
// The gateway bridge turns these addresses into those of the gateway router: docs/north-south.md.
package masquerade

import (
	"net"
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/flows"
)

// Subnets are the configured ranges of services and those of the API. Until the API is synced, they are those for
// which the node has a route of an earlier agent. A range with the node's or the pods' own addresses is left out.
func Subnets(cfg node.Config, s node.State, link string, said []netip.Prefix, synced bool) (subnets, refused []netip.Prefix) {
	if !synced {
		for _, r := range s.Routes {
			if r.Link == link && r.Protocol == node.ProtocolOurs && cfg.IsMasquerade(r.NextHop) && !cfg.IsMasquerade(r.Dest.Addr()) {
				said = append(said, r.Dest)
			}
		}
	}
	taken := slices.Concat(s.PodSubnets(cfg.Network), cfg.Zone.MasqueradeSubnets, s.Addrs[link])
	subnets = slices.Clone(cfg.Zone.ServiceSubnets)
	for _, prefix := range said {
		switch {
		case slices.Contains(subnets, prefix):
		case slices.ContainsFunc(taken, prefix.Overlaps):
			refused = append(refused, prefix)
		default:
			subnets = append(subnets, prefix)
		}
	}
	return subnets, refused
}

// Want is what a node is to have.
type Want struct {
	// Link has the node's addresses, and Bridge is its gateway bridge, mostly the same.
	Link, Bridge string
	All          []flows.Masquerade
	// MTU is that of pods.
	MTU int
}

// Plan gives the steps that lead the node's own processes to services
// by the gateway bridge, with packets that fit into those of pods.
func Plan(s node.State, w Want) []node.Step {
	steps := addresses(s, w.Link, w.All)
	if w.Link != w.Bridge {
		steps = append(steps, addresses(s, w.Bridge, nil)...)
	}
	var want []netdev.Route
	for _, m := range w.All {
		for _, services := range append(slices.Clone(m.Services), flows.Single(m.Elsewhere)) {
			want = append(want, netdev.Route{
				Dest: services, NextHop: m.NextHop, Link: w.Link, Source: m.Host,
				Table: node.TableMain, Protocol: node.ProtocolOurs, Metric: node.Metric(services.Addr()), MTU: w.MTU,
			})
		}
	}
	for _, m := range w.All {
		// Else an answer to the router would come from the host's masquerade address.
		want = append(want, netdev.Route{
			Dest: flows.Single(m.Router), Link: w.Link, Source: m.Address,
			Table: node.TableMain, Protocol: node.ProtocolOurs, Metric: node.Metric(m.Address),
		})
	}
	steps = append(steps, node.PlanRoutes(s, w.Link, want)...)
	if len(steps) > 0 {
		for _, m := range w.All {
			for _, addr := range []netip.Addr{m.Router, m.NextHop} {
				mac := net.HardwareAddr(contract.MACFromAddress(addr))
				steps = append(steps, node.PinNeighbor{Neighbor: netdev.Neighbor{Link: w.Link, Addr: addr, MAC: mac}})
			}
		}
	}
	return steps
}

// addresses gives the host its masquerade address, as one that the kernel does not
// choose for anything else.
func addresses(s node.State, link string, all []flows.Masquerade) []node.Step {
	var steps []node.Step
	var want []netip.Prefix
	for _, m := range all {
		addr := netip.PrefixFrom(m.Host, m.Subnet.Bits())
		want = append(want, addr)
		if !slices.Contains(s.Masquerade[link], addr) {
			steps = append(steps, node.AddMasquerade{Link: link, Addr: addr})
		}
	}
	for _, addr := range slices.Concat(s.Masquerade[link], former(s, link)) {
		if !slices.Contains(want, addr) {
			steps = append(steps, node.DeleteAddr{Link: link, Addr: addr})
		}
	}
	return steps
}

// former are the agent's masquerade addresses of other subnets than the present ones: sources of routes of the agent.
func former(s node.State, link string) []netip.Prefix {
	var found []netip.Prefix
	for _, addr := range slices.Concat(s.LinkLocal[link], s.Addrs[link]) {
		nextHop := contract.AddressAt(addr.Masked(), contract.MasqueradeNextHop)
		if slices.ContainsFunc(s.Routes, func(r netdev.Route) bool {
			return r.Link == link && r.Protocol == node.ProtocolOurs && r.Source == addr.Addr() && r.NextHop == nextHop
		}) {
			found = append(found, addr)
		}
	}
	return found
}
