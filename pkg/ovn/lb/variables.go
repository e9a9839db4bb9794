package lb

import (
	"net/netip"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// BuildNode gives a node's values for the templates in load balancers:
// its addresses, and for services whose backends differ from node to node its
// own. Where a node lacks a variable, the frontend does not exist on it: so a
// node without local endpoints needs no row, and the row has as many values as
// the node has such endpoints.
func BuildNode(view View, network contract.Network, owner contract.Owner) ([]ovsdb.Row, error) {
	node := view.Node(owner.Name)
	if node == nil || node.Annotations[contract.NodeChassisIDKey] == "" {
		return nil, nil
	}
	own := view.GatewayAddresses(node)
	values := view.ServiceValues().on(view, scope{network, view.Zone()}, node, own)
	for _, address := range own {
		values[contract.NodeVariable(contract.FamilyOf(address))] = address.String()
	}
	return []ovsdb.Row{{
		ID:    "variables",
		Model: &nb.ChassisTemplateVar{Chassis: node.Annotations[contract.NodeChassisIDKey], Variables: values},
	}}, nil
}

// seenByRouter replaces the node's own addresses, which are the router's too, by
// the masquerade address of the node. With many, they are all that a router needs
// whose node has some.
func seenByRouter(net scope, own []netip.Addr, chosen []endpoint, many bool) []endpoint {
	var out, mine []endpoint
	for _, e := range chosen {
		if !slices.Contains(own, e.address.Addr()) {
			out = append(out, e)
			continue
		}
		if subnet, ok := contract.FamilyOf(e.address.Addr()).Pick(net.MasqueradeSubnets); ok {
			e.address = netip.AddrPortFrom(contract.PrefixAt(subnet, contract.MasqueradeHost).Addr(), e.address.Port())
			mine = append(mine, e)
		}
	}
	if len(mine) > 0 && many {
		return mine
	}
	return append(mine, out...)
}
