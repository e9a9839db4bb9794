package service

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Of is the service whose endpoints a slice holds, without a name if none.
func Of(slice *discoveryv1.EndpointSlice) types.NamespacedName {
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
		return !IsReady(e)
	})
	return addressesOf(&discoveryv1.EndpointSlice{Endpoints: ready})
}

func hasHints(slice *discoveryv1.EndpointSlice) bool {
	return slice != nil && slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return e.Hints != nil && len(e.Hints.ForZones)+len(e.Hints.ForNodes) > 0
	})
}

// isLocal says that some traffic of a service stays on the node where it comes in.
func isLocal(service *corev1.Service) bool {
	if service == nil {
		return false
	}
	internal := service.Spec.InternalTrafficPolicy
	return service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal ||
		internal != nil && *internal == corev1.ServiceInternalTrafficPolicyLocal
}

// IsReady says that an endpoint takes new connections.
func IsReady(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// IsDraining says that an endpoint still serves the connections that it has.
func IsDraining(e discoveryv1.Endpoint) bool {
	is := func(condition *bool) bool { return condition != nil && *condition }
	return !IsReady(e) && is(e.Conditions.Serving) && is(e.Conditions.Terminating)
}

// proxyNameLabel names another program that serves a service in our place.
const proxyNameLabel = "service.kubernetes.io/service-proxy-name"

// IsServed says that a service is ours to serve: not one without a cluster address, which is headless or an ExternalName,
// and not one that its author leaves to another program.
func IsServed(service *corev1.Service) bool {
	if service == nil || service.Spec.Type == corev1.ServiceTypeExternalName {
		return false
	}
	if _, isLeft := service.Labels[proxyNameLabel]; isLeft {
		return false
	}
	first := ClusterIPs(service)[0]
	return first != "" && first != corev1.ClusterIPNone
}

// ClusterIPs are the texts of a service's cluster addresses, at least one, which may be empty.
func ClusterIPs(service *corev1.Service) []string {
	if len(service.Spec.ClusterIPs) > 0 {
		return service.Spec.ClusterIPs
	}
	return []string{service.Spec.ClusterIP}
}

// HealthCheckPort is the port at which a node answers a load balancer's health checks of a service, 0 for none.
func HealthCheckPort(service *corev1.Service) uint16 {
	if !IsServed(service) || service.Spec.Type != corev1.ServiceTypeLoadBalancer ||
		service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return 0
	}
	return uint16(service.Spec.HealthCheckNodePort)
}

// IsLocalAtNodes says that a node port of a service leads to a node's own endpoints only.
func IsLocalAtNodes(service *corev1.Service) bool {
	return IsServed(service) && HasLocalPolicy(service) && hasNodePort(service)
}

// HasLocalPolicy says that clients from outside the cluster reach a node's own endpoints of a service only.
func HasLocalPolicy(service *corev1.Service) bool {
	return service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func hasNodePort(service *corev1.Service) bool {
	return slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 })
}

// IsForNodes says that a service answers at a port of nodes or at an address from outside the cluster.
func IsForNodes(service *corev1.Service) bool {
	if !IsServed(service) {
		return false
	}
	return hasNodePort(service) || len(service.Spec.ExternalIPs)+len(service.Status.LoadBalancer.Ingress) > 0 || HealthCheckPort(service) != 0
}
