package kube

import corev1 "k8s.io/api/core/v1"

// Completed says that no container of the pod will ever run again: its sandbox
// is gone or going, and its addresses are free, although the object remains.
func Completed(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// WantsNetwork says that the pod runs, or will run, on the pod network of a known
// node. A pod that is being deleted still wants it until it is completed or gone.
func WantsNetwork(pod *corev1.Pod) bool {
	return !pod.Spec.HostNetwork && pod.Spec.NodeName != "" && !Completed(pod)
}
