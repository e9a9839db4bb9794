package contract

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Completed says that no container of the pod will ever run again: its sandbox
// is gone or going, and its addresses are free, although the object remains.
func Completed(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// WantsNetwork says that the pod runs, or will run, on the pod network of a scheduled
// node. A pod that is being deleted still wants it until it is completed or gone.
func WantsNetwork(pod *corev1.Pod) bool {
	return !pod.Spec.HostNetwork && pod.Spec.NodeName != "" && !Completed(pod)
}

// RunningContainers are the containers of a pod that run beside each other, and so may have ports: all containers, then the
// init containers that run on as sidecars.
func RunningContainers(pod *corev1.Pod) []corev1.Container {
	all := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, c)
		}
	}
	return all
}

// HostPort says where a container's port answers on its node: at one address, or, the
// zero Addr, at all. False is nowhere. The API server takes any text as the address.
func HostPort(port corev1.ContainerPort) (at netip.Addr, ok bool) {
	if !isPort(port.HostPort) || !isPort(port.ContainerPort) {
		return netip.Addr{}, false
	}
	if port.HostIP == "" {
		return netip.Addr{}, true
	}
	at, err := netip.ParseAddr(port.HostIP)
	if at.IsUnspecified() {
		return netip.Addr{}, true
	}
	return at.Unmap(), err == nil
}

func isPort(number int32) bool { return number > 0 && number <= 65535 }
