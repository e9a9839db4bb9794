package kube

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// The indexes of EndpointSlices, beside byNode: by service (namespace/name), and by the
// addresses of their endpoints.
const (
	byService  = "service"
	byEndpoint = "endpoint"
)

// proxied selects the EndpointSlices that load balancers use: those with the label
// are for DNS only.
const proxied = "!" + corev1.IsHeadlessService

func sliceIndexers() cache.Indexers {
	return cache.Indexers{
		byService: func(obj any) ([]string, error) {
			if name := serviceOf(obj); name.Name != "" {
				return []string{name.String()}, nil
			}
			return nil, nil
		},
		byEndpoint: func(obj any) ([]string, error) {
			slice, _ := obj.(*discoveryv1.EndpointSlice)
			var out []string
			for _, text := range addressesOf(slice) {
				// As text, an IPv6 address has several forms.
				if addr, err := netip.ParseAddr(text); err == nil {
					out = append(out, addr.String())
				}
			}
			return out, nil
		},
		byNode: func(obj any) ([]string, error) {
			slice, _ := obj.(*discoveryv1.EndpointSlice)
			return nodesOf(slice), nil
		},
	}
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

// addressesOf lists the address of each of a slice's endpoints: all but the first
// of one mean the same.
func addressesOf(slice *discoveryv1.EndpointSlice) []string {
	var out []string
	if slice == nil {
		return nil
	}
	for _, endpoint := range slice.Endpoints {
		if len(endpoint.Addresses) > 0 {
			out = append(out, endpoint.Addresses[0])
		}
	}
	return out
}

// readyOf lists the addresses of a slice's endpoints that take new connections.
func readyOf(slice *discoveryv1.EndpointSlice) []string {
	if slice == nil {
		return nil
	}
	ready := slices.DeleteFunc(slices.Clone(slice.Endpoints), func(e discoveryv1.Endpoint) bool {
		return !isReady(e)
	})
	return addressesOf(&discoveryv1.EndpointSlice{Endpoints: ready})
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

// EndpointSlices are those of a service, by their names: of an endpoint that two of
// them have, everybody takes the same.
func (v *View) EndpointSlices(namespace, service string) []*discoveryv1.EndpointSlice {
	found := v.slicesBy(byService, namespace+"/"+service)
	slices.SortFunc(found, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return found
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
func (v *View) serviceOwners(old, new *corev1.Service) []contract.Owner {
	if sameObject(old, new) || v.endpoints == nil && !forNodes(old) && !forNodes(new) {
		return nil
	}
	service := new
	if service == nil {
		service = old
	}
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	owners := []contract.Owner{contract.ServiceOwner(name.Namespace, name.Name)}
	if on, _ := v.gateways.has(name); on {
		return append(owners, v.nodeServices()...)
	}
	return append(owners, v.backendOwners(name, local(old) || local(new), v.EndpointSlices(name.Namespace, name.Name)...)...)
}

// endpointOwners are those of a change of endpoints. When the service is gone
// already, how it was is not known.
func (v *View) endpointOwners(old, new *discoveryv1.EndpointSlice) []contract.Owner {
	if sameObject(old, new) {
		return nil
	}
	var owners []contract.Owner
	for _, slice := range []*discoveryv1.EndpointSlice{old, new} {
		name := serviceOf(slice)
		if name.Name == "" {
			continue
		}
		owners = append(owners, contract.ServiceOwner(name.Namespace, name.Name))
		if v.locate(slice) {
			owners = append(owners, v.nodeServices()...)
		}
		service := v.Service(name.Namespace, name.Name)
		owners = append(owners, v.backendOwners(name, service == nil || local(service), old, new)...)
	}
	return unique(owners)
}

// backendOwners are the nodes that have backends of their own of a service whose
// endpoints were or are in slices that changed. Hints, and endpoints on the network
// of nodes, give other backends to all nodes, also of its other slices.
func (v *View) backendOwners(service types.NamespacedName, local bool, changed ...*discoveryv1.EndpointSlice) []contract.Owner {
	on, many := v.gateways.has(service)
	hints := slices.ContainsFunc(append(v.EndpointSlices(service.Namespace, service.Name), changed...), hasHints)
	var owners []contract.Owner
	switch {
	case hints || on && !many:
		return v.nodeServices()
	case on:
		owners = v.crowdOwners(service, changed...)
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
func (v *View) nodeServices() []contract.Owner {
	var owners []contract.Owner
	for _, node := range v.Nodes() {
		owners = append(owners, contract.NodeServicesOwner(node.Name))
	}
	return owners
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
