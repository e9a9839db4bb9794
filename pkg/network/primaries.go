package network

import (
	"maps"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
)

// Primary is what the pods of a namespace get on its primary network; nil if the namespace has none.
func (x *Definitions) Primary(namespace string) *ipam.Request {
	x.mu.RLock()
	defer x.mu.RUnlock()
	d := x.primaries.oldest(namespace)
	if d == nil {
		return nil
	}
	return &ipam.Request{
		Attachment: contract.Attachment{NAD: d.Key, Interface: contract.PrimaryInterface},
		Network:    x.networks[d.network.Name], Resource: d.Annotations[contract.ResourceNameKey],
	}
}

// PrimaryNADs are the keys of the NADs of a namespace that define primary networks, in no order. The namespace has the network
// of one.
func PrimaryNADs(x *Definitions, namespace string) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.primaries[namespace]))
}

// NetworksWithGateway are those that have an id, in no order.
func (x *Definitions) NetworksWithGateway() (all []contract.Network) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, network := range x.networks {
		if network.HasGateway() && network.ID != 0 {
			all = append(all, network)
		}
	}
	return all
}

// IsRouted says that load balancers of gateway routers lead to the subnets of a primary network. Of networks with overlapping
// subnets, the oldest is routed. One that overlaps what others have is not.
func (x *Definitions) IsRouted(name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return !x.unrouted[name] && x.reserved[name] == nil
}

// isLinked says that a network may have frontends at nodes.
func isLinked(network contract.Network) bool { return network.IsPrimary() && network.ID != 0 }

// reroute decides again which networks are routed, after those of before have changed. It returns the names for which this
// is different now. It looks at each of the others once: the number of networks can be large.
func reroute(x *Definitions, before map[string]contract.Network) (flipped []string) {
	for name, network := range x.networks {
		was := x.unrouted[name]
		is := was
		if _, changed := before[name]; changed || !isLinked(network) {
			is = isLinked(network) && hasOlder(x, network)
		} else if now, once := shadows(x, network, before); now || once {
			is = now || was && hasOlder(x, network)
		}
		if is != was {
			flipped = append(flipped, name)
		}
		if x.unrouted[name] = is; !is {
			delete(x.unrouted, name)
		}
	}
	for name := range before {
		if _, exists := x.networks[name]; !exists {
			delete(x.unrouted, name)
		}
	}
	flipped = append(flipped, reserve(x, slices.Collect(maps.Keys(before))...)...)
	x.holders = holdersOf(x)
	return flipped
}

// shadows says whether one of the networks that have changed is older than another one and has an address of it, and
// whether this may have been so before.
func shadows(x *Definitions, network contract.Network, before map[string]contract.Network) (now, once bool) {
	for name, was := range before {
		now = now || isOlder(x, x.networks[name], network)
		once = once || isLinked(was) && contract.Overlap(was, network)
	}
	return now, once
}

// hasOlder says that a network is not routed.
func hasOlder(x *Definitions, network contract.Network) bool {
	for _, other := range x.networks {
		if isOlder(x, other, network) {
			return true
		}
	}
	return false
}

// isOlder says that a network is older than another one and has an address of it.
func isOlder(x *Definitions, a, b contract.Network) bool {
	return a.Name != b.Name && isLinked(a) && older(x.firsts[a.Name], x.firsts[b.Name]) < 0 && contract.Overlap(a, b)
}
