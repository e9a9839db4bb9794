package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/contract/served"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

// trim is the informers' transform: it keeps what our readers read and drops the
// rest, which is most of an object. What it drops also makes no event.
func trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return trimPod(o), nil
	case *corev1.Node:
		return trimNode(o), nil
	case *networkingv1.NetworkPolicy:
		return &networkingv1.NetworkPolicy{ObjectMeta: trimMeta(o.ObjectMeta), Spec: o.Spec}, nil
	case *corev1.Namespace:
		return &corev1.Namespace{ObjectMeta: trimMeta(o.ObjectMeta)}, nil
	case *corev1.Service:
		return trimService(o), nil
	case *discoveryv1.EndpointSlice:
		return trimSlice(o), nil
	}
	return obj, nil
}

func trimPod(pod *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{
		ObjectMeta: trimMeta(pod.ObjectMeta),
		Spec: corev1.PodSpec{
			NodeName:       pod.Spec.NodeName,
			HostNetwork:    pod.Spec.HostNetwork,
			Containers:     trimContainers(pod.Spec.Containers),
			InitContainers: trimContainers(pod.Spec.InitContainers),
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs},
	}
	if isReady(pod) && contract.AsksForNetworks(pod) { // which functions of chains do; of others, it would only make events
		kept.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return kept
}

// trimContainers keeps the named ports, to which policies refer, those of the
// host, and the limits on devices, which may be NICs, with whose they are: an init
// container's, a sidecar's, or another's.
func trimContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for _, c := range containers {
		var ports []corev1.ContainerPort
		for _, p := range c.Ports {
			if p.Name != "" || p.HostPort != 0 {
				ports = append(ports, p)
			}
		}
		devices := trimLimits(c.Resources.Limits)
		if ports != nil || devices != nil {
			kept = append(kept, corev1.Container{
				Name: c.Name, RestartPolicy: c.RestartPolicy, Ports: ports, Resources: corev1.ResourceRequirements{Limits: devices},
			})
		}
	}
	return kept
}

// trimLimits keeps extended resources, whose names have a domain.
func trimLimits(limits corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for name, quantity := range limits {
		if !strings.Contains(string(name), "/") {
			continue
		}
		if kept == nil {
			kept = corev1.ResourceList{}
		}
		kept[name] = quantity
	}
	return kept
}

// trimNode keeps of the status the addresses and the one condition that we set,
// without its heartbeat.
func trimNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: trimMeta(node.ObjectMeta), Status: corev1.NodeStatus{Addresses: node.Status.Addresses}}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			c.LastHeartbeatTime = metav1.Time{}
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
	return kept
}

func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Labels: m.Labels, Annotations: trimAnnotations(m.Annotations),
	}
}

// trimAnnotations keeps those that are read. Authors of pods may write 256 KiB of
// others, which no reader may have to hold.
func trimAnnotations(annotations map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range annotations {
		switch key {
		case contract.NodeSubnetsKey, contract.NodeIDKey, contract.NodeChassisIDKey, contract.NodeEncapIPsKey, contract.NodePrimaryAddressKey, contract.HostCIDRsKey, contract.GatewayConfigKey:
		case contract.ServiceNetworkKey, contract.NodeMTUKey, contract.CordonedKey, contract.GatewayMTUSupportKey, contract.ManagementPortKey, contract.ACLLoggingKey, contract.OpenPortsKey:
		case contract.VMReadyKey, contract.VMAddressKey:
		case contract.PodNetworksKey, contract.NetworksKey, contract.DefaultNetworkKey, contract.NetworkStatusKey, contract.NodusNetworksKey, contract.OVNNetworkKey, contract.OVNRoutesKey, contract.NodusInterfacesKey, contract.DPUConnectionKey, contract.DPUStatusKey, contract.ConfigHashKey, contract.MaxAttachmentsKey, contract.NodeNamespaceSubnetsKey:
		default:
			if !served.IsRefused(key) {
				continue
			}
			value = strings.Clone(value[:min(len(value), served.MaxValue)]) // only an Event depends on it
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	return kept
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

// trimForNode is the transform of a NodeView. Of services that are OVN's
// alone, which most are, it keeps the names. It keeps what tells whether the node is drained or will be deleted.
func trimForNode(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Node:
		kept := trimNode(o)
		kept.Spec.Unschedulable = o.Spec.Unschedulable
		for _, taint := range o.Spec.Taints {
			if taint.Key == contract.DeletionTaint {
				kept.Spec.Taints = append(kept.Spec.Taints, taint)
			}
		}
		return kept, nil
	case *corev1.Pod:
		kept := trimPod(o)
		if owner := metav1.GetControllerOf(o); owner != nil {
			kept.OwnerReferences = []metav1.OwnerReference{{Kind: owner.Kind, Controller: owner.Controller}}
		}
		return kept, nil
	}
	s, ok := obj.(*corev1.Service)
	if !ok {
		return trim(obj)
	}
	kept := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion,
	}}
	if !service.IsForNodes(s) {
		return kept, nil
	}
	kept.Status.LoadBalancer = s.Status.LoadBalancer
	kept.Spec = corev1.ServiceSpec{
		Type: s.Spec.Type, Ports: s.Spec.Ports, ClusterIPs: s.Spec.ClusterIPs, ExternalIPs: s.Spec.ExternalIPs,
		LoadBalancerSourceRanges: s.Spec.LoadBalancerSourceRanges,
		ExternalTrafficPolicy:    s.Spec.ExternalTrafficPolicy, HealthCheckNodePort: s.Spec.HealthCheckNodePort,
	}
	return kept, nil
}
