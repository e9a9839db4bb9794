package kube

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

// takenSubnets are those that networks must not overlap beside the plan's, by what has them. The lock orders the changes of
// networks.
type takenSubnets struct {
	v  *ClusterView
	mu sync.Mutex
	by map[string][]network.Taken
}

// replace notes what one has from now on, and returns what is different.
func (t *takenSubnets) replace(name string, now []network.Taken) (gone, come []network.Taken) {
	if t.by == nil {
		t.by = map[string][]network.Taken{}
	}
	slices.SortFunc(now, func(a, b network.Taken) int { return cmp.Or(a.Compare(b.Prefix), cmp.Compare(a.By, b.By)) })
	now = slices.Compact(now)
	without := func(some, others []network.Taken) (left []network.Taken) {
		for _, t := range some {
			if !slices.Contains(others, t) {
				left = append(left, t)
			}
		}
		return left
	}
	was := t.by[name]
	if t.by[name] = now; len(now) == 0 {
		delete(t.by, name)
	}
	return without(was, now), without(now, was)
}

// take notes which subnets something has, and marks what depends on them.
func (t *takenSubnets) take(by string, now []network.Taken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gone, come := t.replace(by, now)
	if len(gone)+len(come) == 0 {
		return
	}
	nads, flipped := network.TakenChanged(t.v.Definitions, gone, come)
	for _, key := range nads {
		if object := t.v.nads.Get(key); object != nil {
			notifyOfNAD(t.v, object, object)
		}
	}
	if len(flipped) > 0 {
		t.v.notify(routedChanged(t.v, flipped)...)
	}
}

// routedChanged are the owners that change with the networks to which load balancers of gateway routers lead.
func routedChanged(v *ClusterView, networks []string) (owners []contract.Owner) {
	var nads []string
	for _, name := range networks {
		nads = append(nads, v.NADsOf(name)...)
		for _, node := range v.allNodes.All() {
			owners = append(owners, contract.NodeOwner(node.Name).On(name))
		}
	}
	for _, nad := range nads {
		owners = append(owners, nadOwner(nad))
	}
	return contract.Unique(append(append(owners, primaryChanged(v, v.labelledAmong(nads))...), ledOutside(v)...))
}

// ledOutside are the services with endpoints that are neither pods of the default network nor nodes: networks may have them.
func ledOutside(v *ClusterView) []contract.Owner {
	pods := v.plan["cluster"]
	return v.ServicesAt(func(addr netip.Addr) bool {
		return !slices.ContainsFunc(pods, func(p netip.Prefix) bool { return p.Contains(addr) }) && !v.IsHostAddress(addr)
	})
}

// takenByNode are the addresses of a node, and the networks that its gateway is in. A node's own word counts: whoever
// writes it can lead away what is the node's anyway.
func takenByNode(node *corev1.Node) (taken []network.Taken) {
	if node == nil {
		return nil
	}
	by := "of node " + node.Name
	single := func(addr netip.Addr) {
		taken = append(taken, network.Taken{Prefix: netip.PrefixFrom(addr, addr.BitLen()), By: "an address " + by})
	}
	for _, addr := range service.HostAddresses(node) {
		single(addr)
	}
	hosts, _ := contract.ParseHostCIDRs(node.Annotations[contract.HostCIDRsKey]) // the node's own rows report an error
	for _, host := range hosts {
		single(host.Addr())
	}
	gateway, err := contract.ParseGatewayConfig(node.Annotations[contract.GatewayConfigKey], contract.DefaultNetwork)
	if err != nil || gateway == nil {
		return taken
	}
	for _, prefix := range slices.Concat(gateway.Addresses, gateway.SecondGateway.Addresses) {
		taken = append(taken, network.Taken{Prefix: prefix.Masked(), By: "the network of nodes' gateways"})
	}
	for _, hop := range gateway.NextHops {
		single(hop)
	}
	return taken
}

// takeRanges notes the ranges of services, beside the plan's.
func (t *takenSubnets) takeRanges() {
	var taken []network.Taken
	for _, subnet := range t.v.ServiceSubnets() {
		taken = append(taken, network.Taken{Prefix: subnet, By: "a range of services"})
	}
	t.take("services", taken)
}

// takeNamespaces notes the subnets of NamespaceSubnets.
func (t *takenSubnets) takeNamespaces() {
	var taken []network.Taken
	for _, subnet := range t.v.NamespaceSubnets() {
		for _, prefix := range subnet.Prefixes {
			taken = append(taken, network.Taken{Prefix: prefix, By: "of NamespaceSubnet " + subnet.Name})
		}
	}
	t.take("namespaces", taken)
}

// takeEndpoints notes the endpoints of a service that all networks reach, as the API servers are: they may be external hosts. Those
// of other services are not taken.
func (t *takenSubnets) takeEndpoints(namespace, name string) {
	key := namespace + "/" + name
	var taken []network.Taken
	var found []*discoveryv1.EndpointSlice
	if t.v.isShared(namespace, name) {
		found = t.v.EndpointSlices(namespace, name)
	}
	for _, slice := range found {
		for _, e := range slice.Endpoints {
			if addr, err := netip.ParseAddr(slices.Concat(e.Addresses, []string{""})[0]); err == nil {
				taken = append(taken, network.Taken{Prefix: netip.PrefixFrom(addr, addr.BitLen()), By: "an endpoint of service " + key})
			}
		}
	}
	t.take("service "+key, taken)
}
