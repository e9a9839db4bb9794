package service

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// The indexes of nodes: by the addresses that their gateways claim, and by those of their status. They are parsed
// once, not for each service.
const (
	byClaim  = "claim"
	byStatus = "status"
)

// The indexes of services: by the addresses that their authors have chosen, and by these keys those that answer at
// ports of nodes, and of these the ones that may have a frontend for each address of a node.
const (
	byExternal = "external"
	byNodePort = "nodePort"
	atNodes    = "nodes"
	atEachNode = "eachNode"
)

// The indexes of EndpointSlices: by service (namespace/name), and by the addresses and the nodes of their endpoints.
const (
	byService  = "service"
	byEndpoint = "endpoint"
	byNode     = "node"
)

// Objects are the current objects of one kind, shared and never changed. Nothing has an order.
type Objects[T any] interface {
	// Get is nil for an unknown key, which is "name" or "namespace/name".
	Get(key string) *T
	All() []*T
	// Find looks in one of the indexes below; Keys are the keys of what it finds.
	Find(index, value string) []*T
	Keys(index, value string) []string
	// Values are all values of an index.
	Values(index string) []string
}

// NodeIndexes are what Facts finds nodes by.
func NodeIndexes() map[string]func(*corev1.Node) []string {
	return map[string]func(*corev1.Node) []string{
		byClaim:  func(node *corev1.Node) []string { return keysOf(claimedAddresses(node)) },
		byStatus: func(node *corev1.Node) []string { return keysOf(StatusAddresses(node)) },
	}
}

// ServiceIndexes are what Facts finds services by.
func ServiceIndexes() map[string]func(*corev1.Service) []string {
	return map[string]func(*corev1.Service) []string{
		byExternal: func(service *corev1.Service) []string { return keysOf(parseAll(service.Spec.ExternalIPs)) },
		byNodePort: func(service *corev1.Service) []string {
			switch {
			case !hasNodePort(service):
				return nil
			case service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP:
				return []string{atNodes, atEachNode}
			}
			return []string{atNodes}
		},
	}
}

// SliceIndexes are what Facts finds EndpointSlices by.
func SliceIndexes() map[string]func(*discoveryv1.EndpointSlice) []string {
	return map[string]func(*discoveryv1.EndpointSlice) []string{
		byNode:     nodesOf,
		byEndpoint: func(slice *discoveryv1.EndpointSlice) []string { return keysOf(parseAll(addressesOf(slice))) },
		byService: func(slice *discoveryv1.EndpointSlice) []string {
			if name := Of(slice); name.Name != "" {
				return []string{name.String()}
			}
			return nil
		},
	}
}

// Facts are the services of the cluster with their endpoints. Methods named after an event take in a change and return
// the owners whose rows it may change; old or new is nil for an object that came or went.
type Facts struct {
	gateways
	services Objects[corev1.Service]
	podsOn   func(node string) []contract.Owner
}

// NewFacts makes Facts of objects that have the indexes of this package; podsOn are the pods scheduled to a node.
func NewFacts(nodes Objects[corev1.Node], services Objects[corev1.Service], endpoints Objects[discoveryv1.EndpointSlice],
	podsOn func(node string) []contract.Owner) *Facts {
	return &Facts{services: services, podsOn: podsOn, gateways: gateways{
		addresses: addresses{nodes}, endpoints: endpoints,
		crowded: map[contract.Family]bool{}, slices: map[types.NamespacedName]map[string]located{},
	}}
}

// EndpointSlices are those of a service, by their names: of an endpoint that two of
// them have, all readers take the same.
func (f *Facts) EndpointSlices(namespace, service string) []*discoveryv1.EndpointSlice {
	found := f.endpoints.Find(byService, namespace+"/"+service)
	slices.SortFunc(found, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// ServiceChanged returns the service and the nodes on which it has backends of their own.
func (f *Facts) ServiceChanged(old, new *corev1.Service) []contract.Owner {
	service := new
	if service == nil {
		service = old
	}
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	owners := []contract.Owner{contract.ServiceOwner(name.Namespace, name.Name)}
	if on, _ := f.has(name); on {
		return append(owners, f.nodeServices()...)
	}
	return append(owners, f.backendOwners(name, isLocal(old) || isLocal(new), f.EndpointSlices(name.Namespace, name.Name)...)...)
}

// SliceChanged returns the services of an EndpointSlice, and the nodes that have other backends by it. When the
// service is deleted already, its traffic policy is unknown.
func (f *Facts) SliceChanged(old, new *discoveryv1.EndpointSlice) []contract.Owner {
	var owners []contract.Owner
	for _, slice := range []*discoveryv1.EndpointSlice{old, new} {
		name := Of(slice)
		if name.Name == "" {
			continue
		}
		owners = append(owners, contract.ServiceOwner(name.Namespace, name.Name))
		if f.locate(slice) {
			owners = append(owners, f.nodeServices()...)
		}
		service := f.services.Get(name.String())
		owners = append(owners, f.backendOwners(name, service == nil || isLocal(service), old, new)...)
	}
	return contract.Unique(owners)
}

// RangesChanged returns the services with addresses that their authors have chosen, which may not be in a range of the
// cluster's own addresses.
func (f *Facts) RangesChanged() []contract.Owner { return f.chosen(f.services.Values(byExternal)...) }

// ServicesAt returns the services with an endpoint at one of the addresses that is wanted, with the nodes' parts in them.
func (f *Facts) ServicesAt(wanted func(netip.Addr) bool) []contract.Owner {
	var owners []contract.Owner
	for _, text := range f.endpoints.Values(byEndpoint) {
		if addr, err := netip.ParseAddr(text); err != nil || !wanted(addr) {
			continue
		}
		for _, slice := range f.endpoints.Find(byEndpoint, text) {
			name := Of(slice)
			if service := f.services.Get(name.String()); service != nil {
				owners = append(owners, f.ServiceChanged(nil, service)...)
			}
		}
	}
	return contract.Unique(owners)
}

// chosen are the services whose authors have chosen one of these addresses, with the nodes' parts in them.
func (f *Facts) chosen(addresses ...string) []contract.Owner {
	var owners []contract.Owner
	for _, address := range addresses {
		for _, service := range f.services.Find(byExternal, address) {
			owners = append(owners, f.ServiceChanged(nil, service)...)
		}
	}
	return contract.Unique(owners)
}

// NodeChanged returns what a change of a node's addresses concerns beside the node's own rows, and whether there is
// such a change.
func (f *Facts) NodeChanged(name string, old, new *corev1.Node) (owners []contract.Owner, isOther bool) {
	owners = f.chosen(keysOf(differing(HostAddresses(old), HostAddresses(new)))...)
	changed := f.changedAddresses(old, new)
	return append(owners, f.gatewayOwners(name, changed)...), len(changed) > 0
}

// backendOwners are the nodes that have backends of their own of a service whose
// endpoints were or are in slices that changed. Hints, and endpoints on the network
// of nodes, give other backends to all nodes, also of its other slices.
func (f *Facts) backendOwners(service types.NamespacedName, local bool, changed ...*discoveryv1.EndpointSlice) []contract.Owner {
	on, many := f.has(service)
	hints := slices.ContainsFunc(append(f.EndpointSlices(service.Namespace, service.Name), changed...), hasHints)
	var owners []contract.Owner
	switch {
	case hints || on && !many:
		return f.nodeServices()
	case on:
		owners = f.manyOnNodesOwners(service, changed...)
	}
	for _, slice := range changed {
		for _, node := range nodesOf(slice) {
			if local {
				owners = append(owners, contract.NodeServicesOwner(node))
			}
		}
	}
	return owners
}

// nodeServices are the parts of all nodes in services.
func (f *Facts) nodeServices() []contract.Owner {
	var owners []contract.Owner
	for _, node := range f.nodes.All() {
		owners = append(owners, contract.NodeServicesOwner(node.Name))
	}
	return owners
}

// manyOnNodesOwners are the owners that a change of slices concerns if the service has many host-network endpoints:
// nodes with an endpoint of their own in the slices, and nodes without one, which use all endpoints.
func (f *Facts) manyOnNodesOwners(service types.NamespacedName, changed ...*discoveryv1.EndpointSlice) []contract.Owner {
	var owners []contract.Owner
	for _, slice := range changed {
		if slice == nil {
			continue
		}
		own := map[string]bool{}
		for _, other := range f.EndpointSlices(service.Namespace, service.Name) {
			if kindOf(other) != kindOf(slice) {
				continue
			}
			for _, address := range readyOf(other) {
				for _, node := range f.nodesAt(address) {
					own[node] = true
				}
			}
		}
		for _, address := range addressesOf(slice) {
			for _, node := range f.nodesAt(address) {
				own[node] = false
			}
		}
		for _, node := range f.nodes.All() {
			if !own[node.Name] {
				owners = append(owners, contract.NodeServicesOwner(node.Name))
			}
		}
	}
	return owners
}

// gatewayOwners are those that a change of the addresses of a node's gateway concerns:
// services that lead to the node's ports; services with a frontend for each address, where the number of addresses
// allows it; services with endpoints at such an address; and other nodes that claim one.
func (f *Facts) gatewayOwners(name string, changed []netip.Addr) []contract.Owner {
	if len(changed) == 0 {
		return nil
	}
	var owners []contract.Owner
	if f.recount(changed) {
		for _, service := range f.services.Find(byNodePort, atEachNode) {
			owners = append(owners, contract.ServiceOwner(service.Namespace, service.Name))
		}
	}
	owners = append(owners, f.ledTo(name)...)
	for _, address := range changed {
		for _, slice := range f.endpoints.Find(byEndpoint, address.String()) {
			if service := Of(slice); service.Name != "" && f.locate(slice) {
				owners = append(append(owners, contract.ServiceOwner(service.Namespace, service.Name)), f.nodeServices()...)
			}
		}
		for _, other := range f.claimants(address) {
			if other != name {
				owners = append(append(owners, contract.NodeServicesOwner(other)), f.ledTo(other)...)
				owners = append(owners, f.podsOn(other)...)
			}
		}
	}
	return owners
}

// ledTo are the services that other nodes find at a node's ports: with policy Local and
// an endpoint there.
func (f *Facts) ledTo(node string) []contract.Owner {
	var owners []contract.Owner
	for _, slice := range f.endpoints.Find(byNode, node) {
		if name := Of(slice); IsLocalAtNodes(f.services.Get(name.String())) {
			owners = append(owners, contract.ServiceOwner(name.Namespace, name.Name))
		}
	}
	return owners
}
