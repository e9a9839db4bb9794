package kube

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// The indexes of nodes: by the addresses that their gateways claim, which are parsed
// once, not for each service, by those of their status, and by their chassis.
const (
	byClaim   = "claim"
	byStatus  = "status"
	byChassis = "chassis"
)

// The index of services and its keys: those that answer at ports of nodes, and of
// these the ones that may have a frontend for each address of a node. No service has
// the last one.
const (
	byNodePort = "nodePort"
	byExternal = "external" // by the addresses that their authors have chosen
	atNodes    = "nodes"
	atEachNode = "eachNode"
	atNoNode   = ""
)

func nodeIndexers() cache.Indexers {
	return cache.Indexers{byClaim: func(obj any) ([]string, error) {
		node, _ := obj.(*corev1.Node)
		return keysOf(claimedAddresses(node)), nil
	}, byStatus: func(obj any) ([]string, error) {
		node, _ := obj.(*corev1.Node)
		return keysOf(StatusAddresses(node)), nil
	}, byChassis: func(obj any) ([]string, error) {
		if node, ok := obj.(*corev1.Node); ok && node.Annotations[contract.NodeChassisIDKey] != "" {
			return []string{node.Annotations[contract.NodeChassisIDKey]}, nil
		}
		return nil, nil
	}}
}

func serviceIndexers() cache.Indexers {
	return cache.Indexers{byExternal: func(obj any) ([]string, error) {
		service, ok := obj.(*corev1.Service)
		if !ok {
			return nil, nil
		}
		return keysOf(parseAll(service.Spec.ExternalIPs)), nil
	}, byNodePort: func(obj any) ([]string, error) {
		service, ok := obj.(*corev1.Service)
		switch {
		case !ok || !hasNodePort(service):
			return nil, nil
		case service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP:
			return []string{atNodes, atEachNode}, nil
		}
		return []string{atNodes}, nil
	}}
}

// gateways is what services depend on of the gateways of all nodes together. It
// follows the events, and builders read it in place of the objects: so whatever
// they have seen, each change of it is told to those whom it concerns, and no other
// change of a node has to be told to all services or all nodes.
type gateways struct {
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
func (v *View) OnNodes(slice *discoveryv1.EndpointSlice) (on, many bool) {
	v.gateways.mu.RLock()
	defer v.gateways.mu.RUnlock()
	found, on := v.gateways.slices[serviceOf(slice)][sliceKey(slice)]
	return on, on && v.gateways.kinds(serviceOf(slice))[found.kind]
}

func sliceKey(slice *discoveryv1.EndpointSlice) string { return slice.Namespace + "/" + slice.Name }

// recount looks at the number of addresses again when some come or go. It reports
// whether services with a frontend for each address of their families have, or had, these.
func (v *View) recount(changed []netip.Addr) bool {
	v.gateways.mu.Lock()
	defer v.gateways.mu.Unlock()
	concerned := false
	for _, addr := range changed {
		family := contract.FamilyOf(addr)
		before := v.gateways.crowded[family]
		_, few := v.addressesOfFew(family)
		v.gateways.crowded[family] = !few
		concerned = concerned || !before || !v.gateways.crowded[family]
	}
	return concerned
}

// locate looks again where the endpoints of a slice are that its service has or had.
// It reports whether a port of the service came onto the network of nodes or left
// it, or has become one with many endpoints there or with few.
func (v *View) locate(slice *discoveryv1.EndpointSlice) bool {
	service, key := serviceOf(slice), sliceKey(slice)
	g := &v.gateways
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.kinds(service)
	now := get[discoveryv1.EndpointSlice](v.endpoints, key)
	switch {
	case serviceOf(now) != service || !slices.ContainsFunc(addressesOf(now), v.isNodeAddress):
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

func newLocated(slice *discoveryv1.EndpointSlice) located {
	return located{kind: kindOf(slice), ready: len(readyOf(slice))}
}

func kindOf(slice *discoveryv1.EndpointSlice) string {
	ports, _ := json.Marshal(slice.Ports) // they have a JSON form
	return string(slice.AddressType) + string(ports)
}

// crowdOwners are the nodes that changes of slices concern where a service has many
// endpoints on nodes: those that have one of their own in them, and those that have
// none at these ports, which use all.
func (v *View) crowdOwners(service types.NamespacedName, changed ...*discoveryv1.EndpointSlice) []contract.Owner {
	var owners []contract.Owner
	for _, slice := range changed {
		if slice == nil {
			continue
		}
		own := map[string]bool{}
		for _, other := range v.EndpointSlices(service.Namespace, service.Name) {
			if kindOf(other) != kindOf(slice) {
				continue
			}
			for _, address := range readyOf(other) {
				for _, node := range v.nodesAt(address) {
					own[node] = true
				}
			}
		}
		for _, address := range addressesOf(slice) {
			for _, node := range v.nodesAt(address) {
				own[node] = false
			}
		}
		for _, node := range v.Nodes() {
			if !own[node.Name] {
				owners = append(owners, contract.NodeServicesOwner(node.Name))
			}
		}
	}
	return owners
}

// gatewayOwners are those that a change of a node's gateway concerns beside the
// node: services with a frontend for each address, those that lead to the node's
// ports, and, where the addresses that changed make the difference, those that answer
// at the ports of nodes or have endpoints there; and other nodes that claim such an address.
func (v *View) gatewayOwners(name string, changed []netip.Addr) []contract.Owner {
	which := atEachNode
	switch {
	case v.endpoints == nil: // a node's own View
		which = atNodes
	case len(changed) == 0:
		return nil
	case !v.recount(changed):
		which = atNoNode
	}
	var owners []contract.Owner
	// The only error is an index that does not exist.
	found, _ := v.services.GetIndexer().ByIndex(byNodePort, which)
	for _, service := range objects[corev1.Service](found) {
		owners = append(owners, contract.ServiceOwner(service.Namespace, service.Name))
	}
	if len(changed) > 0 {
		owners = append(owners, v.ledTo(name)...)
	}
	for _, address := range changed {
		for _, slice := range v.slicesBy(byEndpoint, address.String()) {
			if service := serviceOf(slice); service.Name != "" && v.locate(slice) {
				owners = append(append(owners, contract.ServiceOwner(service.Namespace, service.Name)), v.nodeServices()...)
			}
		}
		for _, other := range v.claimants(address) {
			if other == name {
				continue
			}
			owners = append(append(owners, contract.NodeServicesOwner(other)), v.ledTo(other)...)
			for _, pod := range v.PodsOnNode(other) {
				owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
			}
		}
	}
	return owners
}

// ledTo are the services that other nodes find at a node's ports: with policy Local and
// an endpoint there.
func (v *View) ledTo(node string) []contract.Owner {
	var owners []contract.Owner
	for _, slice := range v.slicesBy(byNode, node) {
		if name := serviceOf(slice); IsLocalAtNodes(v.Service(name.Namespace, name.Name)) {
			owners = append(owners, contract.ServiceOwner(name.Namespace, name.Name))
		}
	}
	return owners
}
