package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HealthCheckPort is where nodes tell a load balancer whether they have endpoints
// of a service, 0 when nobody asks.
func HealthCheckPort(service *corev1.Service) uint16 {
	if service == nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer ||
		service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return 0
	}
	return uint16(service.Spec.HealthCheckNodePort)
}

// IsLocalAtNodes says that a node port of a service leads to a node's own endpoints only.
func IsLocalAtNodes(service *corev1.Service) bool {
	return service != nil && service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && hasNodePort(service)
}

func hasNodePort(service *corev1.Service) bool {
	return slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 })
}

// forNodes says that a node itself has to do with a service: it answers at a port
// of the node or at an address from outside.
func forNodes(service *corev1.Service) bool {
	if service == nil {
		return false
	}
	return hasNodePort(service) || len(service.Spec.ExternalIPs)+len(service.Status.LoadBalancer.Ingress) > 0 || HealthCheckPort(service) != 0
}

// trimForNode is the transform of a View of one node: of services that are OVN's
// alone, which most are, it keeps the names.
func trimForNode(obj any) (any, error) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return trim(obj)
	}
	kept := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: service.Namespace, Name: service.Name, UID: service.UID, ResourceVersion: service.ResourceVersion,
	}}
	if !forNodes(service) {
		return kept, nil
	}
	kept.Status.LoadBalancer = service.Status.LoadBalancer
	kept.Spec = corev1.ServiceSpec{
		Type: service.Spec.Type, Ports: service.Spec.Ports, ClusterIPs: service.Spec.ClusterIPs, ExternalIPs: service.Spec.ExternalIPs,
		LoadBalancerSourceRanges: service.Spec.LoadBalancerSourceRanges,
		ExternalTrafficPolicy:    service.Spec.ExternalTrafficPolicy, HealthCheckNodePort: service.Spec.HealthCheckNodePort,
	}
	return kept, nil
}
