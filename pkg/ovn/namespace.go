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

// A pod with an address of its namespace's subnet is on its node's switch. Its only address is in no network of the switch's
// router, so that all its packets pass the router. The cluster router has a route and a neighbor for each such pod. A route by
// the source would come before the routes of nodes, because its prefix is longer: so policies lead packets of the subnets out of
// the cluster, by the gateway router of the pod's node. What stays in the cluster passes by an earlier policy: a negated set of
// subnets in a match would be many flows.

// routesToPod lead to the addresses of a pod that are not in its node's subnets.
func routesToPod(net scope, node string, pod *contract.PodNetwork) (rows []ovsdb.Row) {
	port := routerToSwitch(net.NodeSwitch(node))
	for _, address := range pod.Addresses {
		if !contract.IsRouted(address) {
			continue
		}
		own := address.Addr().String()
		rows = append(rows, staticRoute(net.ClusterRouter(), &nb.LogicalRouterStaticRoute{IPPrefix: address.String(), Nexthop: own, OutputPort: &port}))
	}
	return rows
}

// buildNeighbor gives the cluster router the MAC of an address of a namespace's subnet, if a pod on the node has the address.
func buildNeighbor(view View, net scope, owner contract.Owner) ([]ovsdb.Row, error) {
	addr, _ := netip.ParseAddr(owner.Name) // no pod has what is no address
	pod := view.PodWith(addr)
	if pod == nil || !contract.WantsNetwork(pod) || pod.Spec.NodeName != owner.Namespace {
		return nil, nil
	}
	network := view.Allocated(pod, net.Name)
	if network == nil {
		return nil, notReady("pod %s/%s has no recorded address", pod.Namespace, pod.Name)
	}
	if !slices.Contains(network.Addresses, netip.PrefixFrom(addr, addr.BitLen())) {
		return nil, nil
	}
	return []ovsdb.Row{neighbor(routerToSwitch(net.NodeSwitch(owner.Namespace)), owner.Name, network.MAC.String())}, nil
}

// namespaceSubnetRows are those of the cluster router that exist once for each family. OVN looks for a route before it looks at
// the policies, which choose the gateway router. What a node without one sends is dropped, and so is what is for an address of
// no pod.
func namespaceSubnetRows(net scope) (rows []ovsdb.Row) {
	router := net.ClusterRouter()
	port := routerToJoin(router)
	for _, family := range acl.Families() {
		own := net.ofNamespaces(family)
		masquerade, ok := family.Pick(net.MasqueradeSubnets)
		if len(own) == 0 || !ok {
			continue
		}
		name := acl.MatchFamily(family)
		add := func(id string, priority int, action nb.LogicalRouterPolicyAction, match string) {
			rows = append(rows, routerPolicy(router, id+" "+name, &nb.LogicalRouterPolicy{Priority: priority, Action: action, Match: match}))
		}
		from, to := fmt.Sprintf("%s == {%s}", acl.Source.Of(family), strings.Join(own, ", ")), acl.Destination.Of(family)
		inside := slices.DeleteFunc(slices.Concat(net.Prefixes(), net.JoinSubnets), func(p netip.Prefix) bool { return !family.Has(p.Addr()) })
		rows = append(rows, staticRoute(router, &nb.LogicalRouterStaticRoute{
			IPPrefix: anywhere(masquerade.Addr()), Nexthop: contract.AddressAt(masquerade.Masked(), contract.MasqueradeNextHop).String(), OutputPort: &port,
		}))
		add("namespaces no pod", priorityLeave+2, nb.LogicalRouterPolicyActionDrop, fmt.Sprintf("outport == %q && %s == {%s}", port, to, strings.Join(own, ", ")))
		add("namespaces inside", priorityLeave+1, nb.LogicalRouterPolicyActionAllow, fmt.Sprintf("%s && %s == {%s}", from, to, strings.Join(prefixStrings(inside), ", ")))
		add("namespaces no gateway", priorityLeave-1, nb.LogicalRouterPolicyActionDrop, from)
	}
	return rows
}

// leaveNamespaces lead what pods on a node send from subnets of namespaces to addresses outside to the node's gateway router.
func leaveNamespaces(n node, join []netip.Prefix) (rows []ovsdb.Row) {
	for _, hop := range join {
		family := contract.FamilyOf(hop.Addr())
		own := n.net.ofNamespaces(family)
		if len(own) == 0 {
			continue
		}
		rows = append(rows, routerPolicy(n.net.ClusterRouter(), "namespaces "+acl.MatchFamily(family), &nb.LogicalRouterPolicy{
			Priority: priorityLeave, Action: nb.LogicalRouterPolicyActionReroute, Nexthops: []string{hop.Addr().String()},
			Match: fmt.Sprintf("inport == %q && %s == {%s}", routerToSwitch(n.net.NodeSwitch(n.name)), acl.Source.Of(family), strings.Join(own, ", ")),
		}))
	}
	return rows
}

// ofNamespaces are the subnets of namespaces of a family.
func (s scope) ofNamespaces(family contract.Family) (subnets []string) {
	for _, prefix := range contract.PrefixesOf(s.NamespaceSubnets) {
		if family.Has(prefix.Addr()) {
			subnets = append(subnets, prefix.String())
		}
	}
	return subnets
}
