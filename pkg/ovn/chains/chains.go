// Package chains builds the routers of NetworkChainings: a router has a port on each network of its chain, and policies
// lead packets to the next function.
//
// Place in the data flow: pkg/network/chain and ready pods (facts) -> Build (the kind table of pkg/ovn calls it) -> rows.
//
//	chains.go   the router with its ports and routes
//	policies.go where packets go from each port
//	slots.go    which replica of a function gets which packets
//
// docs/decisions/network-chaining.md says why it is so.
package chains

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network/chain"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// Facts are what Build reads.
type Facts interface {
	// Chain is the chain of a NetworkChaining, nil when there is none, or why there can be none.
	Chain(owner contract.Owner) (*chain.Chain, error)
	// Replicas are the ready pods of a function, in an order that stays.
	Replicas(c *chain.Chain, function int) []*corev1.Pod
	// Attached are the values of a pod's attachments to a network, as the allocator decided them.
	Attached(pod *corev1.Pod, network string) []*contract.PodNetwork
}

// Build gives the router of a chain.
func Build(facts Facts, owner contract.Owner) ([]ovsdb.Row, error) {
	c, err := facts.Chain(owner)
	if c == nil || err != nil {
		return nil, err
	}
	b := builder{facts, c, contract.ChainRouter(owner.Namespace, owner.Name)}
	rows := []ovsdb.Row{{ID: b.router, Model: &nb.LogicalRouter{
		Name: b.router, Options: map[string]string{"always_learn_from_arp_request": "false"},
	}}}
	for i, stage := range c.Stages {
		for _, place := range stage {
			rows = append(rows, b.port(place)...)
			rows = append(rows, b.beyond(place)...)
			for _, family := range c.Families() {
				rows = append(rows, b.fromPort(family, i, place)...)
			}
		}
	}
	rest := &nb.LogicalRouterPolicy{Priority: priorityRest, Match: "ip", Action: nb.LogicalRouterPolicyActionDrop}
	return append(rows, b.policy("rest", rest)), nil
}

// builder is what the rows of one chain have in common.
type builder struct {
	facts  Facts
	chain  *chain.Chain
	router string
}

// portOn is the router's port on a network.
func (b builder) portOn(place chain.Place) string {
	return b.router + "_to_" + place.Network.PodSwitch("")
}

// port joins the router to a network.
func (b builder) port(place chain.Place) []ovsdb.Row {
	name, sw := b.portOn(place), place.Network.PodSwitch("")
	port := &nb.LogicalRouterPort{Name: name, MAC: contract.RouterMAC(place.Network).String()}
	for _, gateway := range place.Network.Gateways {
		port.Networks = append(port.Networks, gateway.String())
	}
	peer := &nb.LogicalSwitchPort{
		Name: sw + "_to_" + b.router, Type: "router", Addresses: []string{"router"}, Options: map[string]string{"router-port": name},
		ExternalIDs: map[string]string{contract.NetworkLabel: place.Network.Name},
	}
	return []ovsdb.Row{
		{ID: name, Model: port, Parents: []ovsdb.Parent{{Table: nb.LogicalRouterTable, Name: b.router, Column: "ports"}}},
		{ID: peer.Name, Model: peer, Parents: []ovsdb.Parent{{Table: nb.LogicalSwitchTable, Name: sw, Column: "ports"}}},
	}
}

// beyond are the routes to the subnets behind a network. OVN drops what no route leads to, before it looks at policies.
func (b builder) beyond(place chain.Place) (rows []ovsdb.Row) {
	for _, subnet := range place.Subnets {
		if place.IsOwn(subnet) {
			continue
		}
		rows = append(rows, ovsdb.Row{
			ID:      "route " + subnet.String(),
			Model:   &nb.LogicalRouterStaticRoute{IPPrefix: subnet.String(), Nexthop: place.Gateway.String()},
			Parents: []ovsdb.Parent{{Table: nb.LogicalRouterTable, Name: b.router, Column: "static_routes"}},
		})
	}
	return rows
}

func (b builder) policy(id string, policy *nb.LogicalRouterPolicy) ovsdb.Row {
	return ovsdb.Row{ID: id, Model: policy, Parents: []ovsdb.Parent{{Table: nb.LogicalRouterTable, Name: b.router, Column: "policies"}}}
}

// addressOn is a pod's address in a family on a network, in the subnet of one of the router's addresses.
func (b builder) addressOn(pod *corev1.Pod, place chain.Place, family contract.Family) (netip.Addr, bool) {
	for _, attached := range b.facts.Attached(pod, place.Network.Name) {
		for _, address := range attached.Addresses {
			for _, router := range place.Network.Gateways {
				if family.Has(address.Addr()) && router.Contains(address.Addr()) {
					return address.Addr(), true
				}
			}
		}
	}
	return netip.Addr{}, false
}
