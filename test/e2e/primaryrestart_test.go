//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// kept is the pod with its readiness probe as a liveness probe, too: kubelet starts its container again when that fails.
func kept(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Containers[0].LivenessProbe = pod.Spec.Containers[0].ReadinessProbe
	return pod
}

func restarts(pod *corev1.Pod) (n int32) {
	for _, container := range pod.Status.ContainerStatuses {
		n += container.RestartCount
	}
	return n
}

// restarted kills processes of the control plane and of a node, kubelet among them, one after the other. Connections on primary
// networks, through a service and to an external host go on. Afterwards new pods start, kubelet's probes pass and have passed
// all the time, and an external host reaches a service at the address that a load balancer gave.
func restarted(t *testing.T, tenants []tenant) {
	t.Helper()
	const longest = 5 * time.Second
	first := tenants[0]
	for _, pod := range []*corev1.Pod{
		kept(probed(first.ns, "ready", nodes[1], "serve", world.EchoPort)), kept(probed(first.ns, "http", nodes[1],
			"serve-http", world.EchoPort)),
		probed(first.ns, "deaf", nodes[1], "serve",
			world.EchoPort+1), kept(probed(first.ns, "dying", nodes[1], "serve-http", world.EchoPort+1)),
	} {
		world.Create(t, pod)
	}
	ready, http := becomesReady(t, first.ns, "ready"), becomesReady(t, first.ns, "http")
	balanced := first.balanced(t, 2)
	balanced()
	flows := map[string]*flow{}
	for i, x := range tenants {
		own := x.addresses(t, 0)[0]
		for name, target := range map[string]netip.AddrPort{
			"a pod":            netip.AddrPortFrom(own, world.EchoPort),
			"a service":        netip.AddrPortFrom(world.OfFamily(world.ClusterAddresses(x.web), own), world.ServicePort),
			"an external host": netip.AddrPortFrom(world.OfFamily(world.NodeAddresses(t, outside), own), world.OutsidePort),
		} {
			flows[fmt.Sprintf("%s on network %d", name, i)] = startFlow(t, x.ns, x.pods[1].Name, "tcp", target)
		}
	}
	witness := withinPod(t, first.pods[0])
	for _, component := range []string{"controller", "kubelet@" + nodes[1], "agent@" + nodes[1], "agent@" + nodes[2], "ovn-controller@" + nodes[1], "northd", "nb", "sb"} {
		restart(t, component)
		for name, flow := range flows {
			if !flow.answered(world.Soon) {
				t.Errorf("%s does not answer after the end of %s", name, component)
			}
		}
	}
	for _, x := range tenants {
		x.served(t, x.pods[0])
		x.served(t, world.Run(t, world.Pod(x.ns, "late", nodes[1], world.Behind("web")))[0])
	}
	world.Create(t, probed(first.ns, "new", nodes[1], "serve", world.EchoPort))
	becomesReady(t, first.ns, "new")
	staysReady(t, ready, "deaf")
	staysReady(t, http, "deaf")
	for _, pod := range []string{ready.Name, http.Name} {
		if n := restarts(world.WaitPod(t, first.ns, pod, "running", world.IsRunning)); n > 0 {
			t.Errorf("the container of pod %s, whose probes pass, has started again %d times", pod, n)
		}
	}
	world.WaitPod(t, first.ns, "dying", "started again, because its probe fails",
		func(pod *corev1.Pod) bool { return restarts(pod) > 0 })
	balanced()
	wantShortSilences(t, "components started again", flows, witness, longest)
}
