package ipam

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// living are the pods that are there, and the addresses with which those on the
// default network say they run.
type living struct {
	pods map[contract.Owner]*corev1.Pod
	runs map[netip.Addr]bool
}

func newLiving(pods []*corev1.Pod) living {
	l := living{pods: map[contract.Owner]*corev1.Pod{}, runs: map[netip.Addr]bool{}}
	for _, pod := range pods {
		l.pods[contract.PodOwner(pod.Namespace, pod.Name)] = pod
		for _, ip := range pod.Status.PodIPs {
			if addr, err := netip.ParseAddr(ip.IP); err == nil && contract.WantsNetwork(pod) {
				l.runs[addr] = true
			}
		}
	}
	return l
}
