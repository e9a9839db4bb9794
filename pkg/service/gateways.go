package service

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// gateways is what services depend on of the gateways of all nodes together. Events update it, and builders read it in
// place of the objects. So each change of it marks the owners that it concerns, and no other change of a node marks
// all services or all nodes.
type gateways struct {
	addresses
	endpoints Objects[discoveryv1.EndpointSlice]

	mu sync.RWMutex
	// crowded says of a family that more than fewNodes have
	// an address of it.
	crowded map[contract.Family]bool
	// slices has, for each service and by their keys, the EndpointSlices with an
	// endpoint at an address of a gateway.
	slices map[types.NamespacedName]map[string]located
}

// located is a slice on the network of nodes. Slices of one kind have the same ports.
type located struct {
	kind  string
	ready int // endpoints
}

// manyOnNodes is the number of ready endpoints from which on a gateway router uses
// its own node's alone, when that has any: an agent with an endpoint on every node
// would else be a list of all nodes for every node, and a change of one for all.
const manyOnNodes = 32

// has says whether a service has endpoints on the network of nodes, and whether
// they are many at each of its ports.
func (g *gateways) has(service types.NamespacedName) (on, many bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	kinds := g.kinds(service)
	return len(kinds) > 0, !slices.Contains(slices.Collect(maps.Values(kinds)), false)
}

// kinds of a service's slices, and whether the endpoints in them are many; the
// caller holds the lock.
func (g *gateways) kinds(service types.NamespacedName) map[string]bool {
	ready, kinds := map[string]int{}, map[string]bool{}
	for _, slice := range g.slices[service] {
		ready[slice.kind] += slice.ready
		kinds[slice.kind] = ready[slice.kind] > manyOnNodes
	}
	return kinds
}

// OnNodes says that a slice has an endpoint on the network of nodes, and whether
// those of its kind have many.
func (g *gateways) OnNodes(slice *discoveryv1.EndpointSlice) (on, many bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	found, on := g.slices[Of(slice)][sliceKey(slice)]
	return on, on && g.kinds(Of(slice))[found.kind]
}

func sliceKey(slice *discoveryv1.EndpointSlice) string { return slice.Namespace + "/" + slice.Name }

// recount looks at the number of addresses again when some come or go. It reports
// whether services with a frontend for each address of their families have, or had, these.
func (g *gateways) recount(changed []netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	affected := false
	for _, addr := range changed {
		family := contract.FamilyOf(addr)
		before := g.crowded[family]
		_, few := g.addressesOfFew(family)
		g.crowded[family] = !few
		affected = affected || !before || !g.crowded[family]
	}
	return affected
}

// locate looks again where the endpoints of a slice are that its service has or had.
// It reports whether a port of the service came onto the network of nodes or left
// it, or has become one with many endpoints there or with few.
func (g *gateways) locate(slice *discoveryv1.EndpointSlice) bool {
	service, key := Of(slice), sliceKey(slice)
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.kinds(service)
	now := g.endpoints.Get(key)
	switch {
	case Of(now) != service || !slices.ContainsFunc(addressesOf(now), g.isNodeAddress):
		if delete(g.slices[service], key); len(g.slices[service]) == 0 {
			delete(g.slices, service)
		}
	case g.slices[service] == nil:
		g.slices[service] = map[string]located{key: newLocated(now)}
	default:
		g.slices[service][key] = newLocated(now)
	}
	return !maps.Equal(before, g.kinds(service))
}

// NodeAddresses are those of all nodes in a family, in no order; none, and false,
// where they are too many to be frontends of one service.
func (g *gateways) NodeAddresses(family contract.Family) ([]netip.Addr, bool) {
	g.mu.RLock()
	crowded := g.crowded[family]
	g.mu.RUnlock()
	if crowded {
		return nil, false
	}
	out, _ := g.addressesOfFew(family) // an event follows for each node that has come meanwhile
	return out, true
}

func newLocated(slice *discoveryv1.EndpointSlice) located {
	return located{kind: kindOf(slice), ready: len(readyOf(slice))}
}

func kindOf(slice *discoveryv1.EndpointSlice) string {
	ports, _ := json.Marshal(slice.Ports) // they have a JSON form
	return string(slice.AddressType) + string(ports)
}
