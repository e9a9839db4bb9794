package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// The indexes of nodes: by each address of their gateways, by such an address with
// its place among those of its family, and by the place. They are parsed once, not
// for each service.
const (
	byAddress    = "address"
	byNthAddress = "nthAddress"
	byNth        = "nth"
)

// The index of services and its keys: those that answer at ports of nodes, and of
// these the ones that may have a frontend for each address of a node.
const (
	byNodePort = "nodePort"
	atNodes    = "nodes"
	atEachNode = "eachNode"
)

func nodeIndexers() cache.Indexers {
	keys := func(key func(NodeAddress) string) cache.IndexFunc {
		return func(obj any) ([]string, error) {
			var out []string
			if node, ok := obj.(*corev1.Node); ok {
				for _, a := range GatewayAddresses(node) {
					out = append(out, key(a))
				}
			}
			return out, nil
		}
	}
	return cache.Indexers{
		byAddress:    keys(func(a NodeAddress) string { return a.Addr.String() }),
		byNthAddress: keys(func(a NodeAddress) string { return fmt.Sprintf("%d %s", a.Nth, a.Addr) }),
		byNth:        keys(func(a NodeAddress) string { return place(a.Addr.Is6(), a.Nth) }),
	}
}

func place(v6 bool, nth int) string { return fmt.Sprint(v6, nth) }

func serviceIndexers() cache.Indexers {
	return cache.Indexers{byNodePort: func(obj any) ([]string, error) {
		service, ok := obj.(*corev1.Service)
		switch {
		case !ok || !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 }):
			return nil, nil
		case service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP:
			return []string{atNodes, atEachNode}, nil
		}
		return []string{atNodes}, nil
	}}
}

// NodeAddress is an address at which services answer on a node: the Nth, from
// 0, of its family there.
type NodeAddress struct {
	Addr netip.Addr
	Nth  int
}

// GatewayAddresses are those of a node's GatewayConfigKey: none while it is not
// there or cannot be read, which is its reader's to report.
func GatewayAddresses(node *corev1.Node) []NodeAddress {
	gateway, err := ParseGatewayConfig(nodeFact(node, GatewayConfigKey), DefaultNetwork)
	if err != nil || gateway == nil {
		return nil
	}
	var out []NodeAddress
	nth := map[bool]int{}
	for _, prefix := range gateway.Addresses {
		v6 := prefix.Addr().Is6()
		out = append(out, NodeAddress{Addr: prefix.Addr(), Nth: nth[v6]})
		nth[v6]++
	}
	return out
}

// NodeAddresses are those of every node, in no order.
func (v *View) NodeAddresses() []NodeAddress {
	var out []NodeAddress
	for _, key := range v.nodes.GetIndexer().ListIndexFuncValues(byNthAddress) {
		nth, text, _ := strings.Cut(key, " ")
		addr, err := netip.ParseAddr(text)
		if n, atoi := strconv.Atoi(nth); err == nil && atoi == nil {
			out = append(out, NodeAddress{Addr: addr, Nth: n})
		}
	}
	return out
}

// gateways is what services depend on of the gateways of all nodes together. It
// follows the events, and builders read it in place of the objects: so whatever
// they have seen, each change of it is told to those whom it concerns, and no other
// change of a node has to be told to all services or all nodes.
type gateways struct {
	mu sync.RWMutex
	// most is how many addresses of a family, by whether that is IPv6, the gateway
	// with most of them has; at least 1.
	most map[bool]int
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

// MostNodeAddresses is how many addresses of a family the node with most of them
// has, at least 1.
func (v *View) MostNodeAddresses(v6 bool) int {
	v.gateways.mu.RLock()
	defer v.gateways.mu.RUnlock()
	return v.gateways.most[v6]
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

// recount looks at the numbers of addresses again and reports whether most is another.
func (v *View) recount() bool {
	v.gateways.mu.Lock()
	defer v.gateways.mu.Unlock()
	changed := false
	places := v.nodes.GetIndexer().ListIndexFuncValues(byNth)
	for _, v6 := range []bool{false, true} {
		n := 1
		for slices.Contains(places, place(v6, n)) {
			n++
		}
		changed = changed || n != v.gateways.most[v6]
		v.gateways.most[v6] = n
	}
	return changed
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

func (v *View) isNodeAddress(text string) bool { return len(v.nodesAt(text)) > 0 }

// nodesAt are the nodes whose gateways have an address, by its text.
func (v *View) nodesAt(text string) []string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	// The only error is an index that does not exist.
	found, _ := v.nodes.GetIndexer().IndexKeys(byAddress, addr.String())
	return found
}

// crowdOwners are the nodes that changes of slices concern where a service has many
// endpoints on nodes: those that have one of their own in them, and those that have
// none at these ports, which use all.
func (v *View) crowdOwners(service types.NamespacedName, changed ...*discoveryv1.EndpointSlice) []Owner {
	var owners []Owner
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
				owners = append(owners, NodeServicesOwner(node.Name))
			}
		}
	}
	return owners
}

// gatewayOwners are those that a change of a node's gateway concerns beside the
// node: services with a frontend for each address, and, where the node's addresses
// make the difference, those that answer at the ports of nodes or have endpoints there.
func (v *View) gatewayOwners(old, new *corev1.Node) []Owner {
	had, has := GatewayAddresses(old), GatewayAddresses(new)
	which := atEachNode
	switch {
	case v.endpoints == nil: // a node's own View
		which = atNodes
	case slices.Equal(had, has):
		return nil
	case v.recount():
		which = atNodes
	}
	var owners []Owner
	// The only error is an index that does not exist.
	found, _ := v.services.GetIndexer().ByIndex(byNodePort, which)
	for _, service := range objects[corev1.Service](found) {
		owners = append(owners, ServiceOwner(service.Namespace, service.Name))
	}
	for _, address := range append(had, has...) {
		for _, slice := range v.slicesBy(byEndpoint, address.Addr.String()) {
			if name := serviceOf(slice); name.Name != "" && v.locate(slice) {
				owners = append(append(owners, ServiceOwner(name.Namespace, name.Name)), v.nodeServices()...)
			}
		}
	}
	return owners
}
