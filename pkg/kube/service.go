package kube

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// The indexes of EndpointSlices: by service (namespace/name), by the nodes and
// the addresses of their endpoints, and those whose endpoints name nodes or zones
// (one key).
const (
	byService      = "service"
	byEndpointNode = "endpointNode"
	byEndpoint     = "endpoint"
	byHint         = "hint"
	hinted         = "hinted"
)

func sliceIndexers() cache.Indexers {
	return cache.Indexers{
		byService: func(obj any) ([]string, error) {
			if name := serviceOf(obj); name.Name != "" {
				return []string{name.String()}, nil
			}
			return nil, nil
		},
		byEndpointNode: func(obj any) ([]string, error) {
			slice, _ := obj.(*discoveryv1.EndpointSlice)
			return nodesOf(slice), nil
		},
		byEndpoint: func(obj any) ([]string, error) {
			slice, _ := obj.(*discoveryv1.EndpointSlice)
			return addressesOf(slice), nil
		},
		byHint: func(obj any) ([]string, error) {
			if slice, _ := obj.(*discoveryv1.EndpointSlice); hasHints(slice) {
				return []string{hinted}, nil
			}
			return nil, nil
		},
	}
}

// The indexes of nodes: by each address of their gateways, and by such an address
// with its place among those of its family. They are parsed once, not for each service.
const (
	byAddress    = "address"
	byNthAddress = "nthAddress"
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
	}
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
	gateway, err := ParseGatewayConfig(node.Annotations[GatewayConfigKey], DefaultNetwork)
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

// IsNodeAddress says that an endpoint there is on a node's own network.
func (v *View) IsNodeAddress(addr netip.Addr) bool {
	// The only error is an index that does not exist.
	found, _ := v.nodes.GetIndexer().IndexKeys(byAddress, addr.String())
	return len(found) > 0
}

// serviceOf is the service whose endpoints a slice holds, without a name if none.
func serviceOf(obj any) types.NamespacedName {
	slice, _ := obj.(*discoveryv1.EndpointSlice)
	if slice == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

// nodesOf lists, once each, the nodes on which a slice has endpoints.
func nodesOf(slice *discoveryv1.EndpointSlice) []string {
	if slice == nil {
		return nil
	}
	nodes := map[string]bool{}
	for _, endpoint := range slice.Endpoints {
		if endpoint.NodeName != nil {
			nodes[*endpoint.NodeName] = true
		}
	}
	return slices.Collect(maps.Keys(nodes))
}

// addressesOf lists the addresses of a slice's endpoints.
func addressesOf(slice *discoveryv1.EndpointSlice) []string {
	var out []string
	if slice == nil {
		return nil
	}
	for _, endpoint := range slice.Endpoints {
		out = append(out, endpoint.Addresses...)
	}
	return out
}

func hasHints(slice *discoveryv1.EndpointSlice) bool {
	return slice != nil && slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return e.Hints != nil && len(e.Hints.ForZones)+len(e.Hints.ForNodes) > 0
	})
}

// Service is nil when there is none of that name.
func (v *View) Service(namespace, name string) *corev1.Service {
	return get[corev1.Service](v.services, namespace+"/"+name)
}

// Services is every service, in no order.
func (v *View) Services() []*corev1.Service {
	return objects[corev1.Service](v.services.GetIndexer().List())
}

// EndpointSlices are those of a service, in no order.
func (v *View) EndpointSlices(namespace, service string) []*discoveryv1.EndpointSlice {
	return v.slicesBy(byService, namespace+"/"+service)
}

// ServicesOn lists the services whose backends may be others on one node than on
// the next: those with an endpoint on it, those whose endpoints name nodes or
// zones, and those with endpoints on the network of nodes. Sorted.
func (v *View) ServicesOn(node string) []types.NamespacedName {
	var names []types.NamespacedName
	some := append(v.slicesBy(byEndpointNode, node), v.slicesBy(byHint, hinted)...)
	for _, key := range v.nodes.GetIndexer().ListIndexFuncValues(byAddress) {
		some = append(some, v.slicesBy(byEndpoint, key)...)
	}
	for _, slice := range some {
		if name := serviceOf(slice); name.Name != "" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compareNames)
	return slices.Compact(names)
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (v *View) slicesBy(index, key string) []*discoveryv1.EndpointSlice {
	if v.endpoints == nil {
		return nil
	}
	// The only error is an index that does not exist.
	found, _ := v.endpoints.GetIndexer().ByIndex(index, key)
	return objects[discoveryv1.EndpointSlice](found)
}

// serviceOwners adds the nodes on which the service has backends of their own. In
// a View of one node it leaves out services that are no business of nodes.
func (v *View) serviceOwners(old, new *corev1.Service) []Owner {
	if sameObject(old, new) || v.endpoints == nil && !forNodes(old) && !forNodes(new) {
		return nil
	}
	service := new
	if service == nil {
		service = old
	}
	owners := []Owner{ServiceOwner(service.Namespace, service.Name)}
	for _, slice := range v.EndpointSlices(service.Namespace, service.Name) {
		owners = append(owners, v.backendOwners(local(old) || local(new), nil, slice)...)
	}
	return owners
}

// endpointOwners are those of a change of endpoints. When the service is gone
// already, how it was is not known.
func (v *View) endpointOwners(old, new *discoveryv1.EndpointSlice) []Owner {
	if sameObject(old, new) {
		return nil
	}
	var owners []Owner
	for _, slice := range []*discoveryv1.EndpointSlice{old, new} {
		name := serviceOf(slice)
		if slice == nil || name.Name == "" {
			continue
		}
		service := v.Service(name.Namespace, name.Name)
		owners = append(owners, ServiceOwner(name.Namespace, name.Name))
		owners = append(owners, v.backendOwners(service == nil || local(service), old, new)...)
	}
	return owners
}

// backendOwners are the nodes whose own backends are among those of slices.
func (v *View) backendOwners(local bool, some ...*discoveryv1.EndpointSlice) []Owner {
	var owners []Owner
	for _, slice := range some {
		if hasHints(slice) || v.onNodes(slice) {
			for _, node := range v.Nodes() {
				owners = append(owners, NodeServicesOwner(node.Name))
			}
		} else if local {
			for _, node := range nodesOf(slice) {
				owners = append(owners, NodeServicesOwner(node))
			}
		}
	}
	return owners
}

// onNodes says that an endpoint is on the network of a node.
func (v *View) onNodes(slice *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(addressesOf(slice), func(text string) bool {
		addr, err := netip.ParseAddr(text)
		return err == nil && v.IsNodeAddress(addr)
	})
}

// local says that some traffic of a service stays on the node where it comes in.
func local(service *corev1.Service) bool {
	if service == nil {
		return false
	}
	internal := service.Spec.InternalTrafficPolicy
	return service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal ||
		internal != nil && *internal == corev1.ServiceInternalTrafficPolicyLocal
}

// gatewayOwners are the services that answer at the addresses of nodes, or have
// endpoints at those that a node had or has.
func (v *View) gatewayOwners(old, new *corev1.Node) []Owner {
	if v.services == nil {
		return nil
	}
	var owners []Owner
	for _, service := range v.Services() {
		if slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 }) {
			owners = append(owners, ServiceOwner(service.Namespace, service.Name))
		}
	}
	for _, node := range []*corev1.Node{old, new} {
		if node == nil {
			continue
		}
		for _, address := range GatewayAddresses(node) {
			for _, slice := range v.slicesBy(byEndpoint, address.Addr.String()) {
				owners = append(owners, v.endpointOwners(nil, slice)...)
				for _, every := range v.Nodes() {
					owners = append(owners, NodeServicesOwner(every.Name))
				}
			}
		}
	}
	return owners
}

func trimService(service *corev1.Service) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: trimMeta(service.ObjectMeta), Spec: service.Spec,
		Status: corev1.ServiceStatus{LoadBalancer: service.Status.LoadBalancer},
	}
}

// trimSlice keeps of each endpoint what decides where packets go.
func trimSlice(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	kept := &discoveryv1.EndpointSlice{ObjectMeta: trimMeta(slice.ObjectMeta), AddressType: slice.AddressType, Ports: slice.Ports}
	for _, e := range slice.Endpoints {
		kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{
			Addresses: e.Addresses, Conditions: e.Conditions, NodeName: e.NodeName, Hints: e.Hints,
		})
	}
	return kept
}
