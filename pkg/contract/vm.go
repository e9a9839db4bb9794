package contract

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// KubeVirt's label and annotations of pods that run a virtual machine.
const (
	// VMLabel has the name of the virtual machine; KubeVirt, on a Pod.
	VMLabel = "vm.kubevirt.io/name"
	// VMReadyKey says that the virtual machine runs in this pod from now on, which it has moved to; KubeVirt, on a Pod.
	VMReadyKey = "kubevirt.io/migration-target-start-timestamp"
	// VMAddressKey leaves the addresses of the primary network to the virtual machine, which asks for them by DHCP; user,
	// on a Pod.
	VMAddressKey = "kubevirt.io/allow-pod-bridge-network-live-migration"
)

// StandsBy says that the virtual machine of a pod runs in another of the pods of its namespace: it is to move from there, or
// has moved. Of several pods, the virtual machine runs in the newest that is ready for it, or else in the oldest.
func StandsBy(pod *corev1.Pod, all []*corev1.Pod) bool {
	name := pod.Labels[VMLabel]
	if name == "" {
		return false
	}
	var runs *corev1.Pod
	for _, other := range all {
		if other.Labels[VMLabel] == name && WantsNetwork(other) && (runs == nil || comesBefore(other, runs)) {
			runs = other
		}
	}
	return runs != nil && runs.UID != pod.UID
}

// comesBefore says that the virtual machine runs in x rather than in y.
func comesBefore(x, y *corev1.Pod) bool {
	age := cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	switch xReady, yReady := x.Annotations[VMReadyKey] != "", y.Annotations[VMReadyKey] != ""; {
	case xReady != yReady:
		return xReady
	case xReady:
		return age > 0
	}
	return age < 0
}

// LeavesAddresses says that a pod's virtual machine asks for the addresses of an interface, which the pod has not.
func LeavesAddresses(pod *corev1.Pod, network *PodNetwork) bool {
	_, asks := pod.Annotations[VMAddressKey]
	return asks && network.Network != "" && Role(network.Role) == RolePrimary
}
