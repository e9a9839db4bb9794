//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/inject"
	computed "github.com/ovn-offload/ovn-offload/pkg/trace"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestTraceInject_PacketsArriveOrTheirPolicyIsNamed: the witness is the receiver's own kernel, which counts datagrams for a port
// that no program has. With a policy that drops them it counts none, and the answer has the policy. Without --yes or the right
// nothing is sent. What was sent left an Event on the pods of both ends.
func TestTraceInject_PacketsArriveOrTheirPolicyIsNamed(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	far, near := world.Pod(ns, "far", nodes[2]), world.Pod(ns, "near", nodes[1])
	world.Run(t, world.Pod(ns, "from", nodes[1]), far, near)
	events := map[string]int{} // that the injections of this test leave
	send := func(to *corev1.Pod, args ...string) (i says.Injected, code, got int) {
		t.Helper()
		before := unwanted(t, to)
		args = append([]string{"trace", "--inject", "--yes", "pod/from", "pod/" + to.Name + ":9/udp", "-n", ns}, args...)
		i, code = kubectlOffloadJSON[says.Injected](t, args...)
		if events["from"]++; i.Kind == "" { // an error, after the Event of the pod that sends or before it
			events["from"] = injectionsOf(t, ns, "from")
		}
		if seenAt(i, to, 0) {
			events[to.Name]++
		}
		return i, code, unwanted(t, to) - before
	}
	arrive := func(to *corev1.Pod, packets int) {
		t.Helper()
		world.Eventually(t, world.Soon, fmt.Sprintf("%d packets of %d arrive at %s", packets, packets, to.Name),
			func() (bool, string) { // nodes lose some
				i, code, got := send(to, fmt.Sprint("--count=", packets))
				return code == 0 && got == packets && i.Verdict == inject.Arrived && seenAt(i, to, packets), fmt.Sprintf("exit code %d, %d packets: %+v", code, got, i)
			})
	}
	leftEvents := func() {
		t.Helper()
		for _, pod := range []string{"from", "far", "near"} {
			world.Eventually(t, world.Soon, fmt.Sprintf("pod %s has %d Events", pod, events[pod]), func() (bool, string) {
				n := injectionsOf(t, ns, pod)
				return n == events[pod], fmt.Sprint(n)
			})
		}
	}
	arrive(far, 3)
	arrive(near, 3)
	injectsNot(t, ns, far)
	leftEvents()

	world.CreatePolicy(t, ns, "lets-none", world.AllowPods("far"))
	policy := "NetworkPolicy/" + ns + "/lets-none"
	world.Eventually(t, world.PolicyWithin, "the computed path ends at the policy", func() (bool, string) {
		out, code := kubectlOffload(t, "trace", "pod/from", "pod/far:9/udp", "-n", ns)
		return code == 1 && strings.Contains(out, "netpol/"+ns+"/lets-none"), out
	})
	synced(t) // nodes have the policy later than the database
	world.Eventually(t, world.Soon, "a packet is dropped by the policy", func() (bool, string) {
		i, code, got := send(far)
		if got != 0 || seenAt(i, far, 0) {
			t.Fatalf("with a policy that drops it, %d packets came: %+v", got, i)
		}
		return code == 1 && i.Verdict == inject.Dropped && i.By == policy && i.Deny != nil, fmt.Sprintf("exit code %d: %+v", code, i)
	})
	arrive(near, 1) // which the policy does not select
	leftEvents()
	world.DeletePolicy(t, ns, "lets-none")
	world.Eventually(t, world.PolicyWithin, "the computed path goes on", func() (bool, string) {
		out, code := kubectlOffload(t, "trace", "pod/from", "pod/far:9/udp", "-n", ns)
		return code == 0, out
	})
	synced(t)
	arrive(far, 1)
}

// TestTraceInject_ServicesPingsAndOutside: a service leads a SYN to its endpoint and to none where it has none, an echo request
// arrives, and what is for an address outside leaves by an interface of the node.
func TestTraceInject_ServicesPingsAndOutside(t *testing.T) {
	world.Test(t, world.Tools)
	tier.Full(t, "the gate sends to pods")
	ns := world.Namespace(t)
	far := world.Pod(ns, "far", nodes[2])
	world.Run(t, world.Pod(ns, "from", nodes[1]), far)
	web, none := tracedService(t, ns, "far", nil), tracedService(t, ns, "none", nil)
	port := web.Spec.Ports[0].Port
	exit := netip.AddrPortFrom(world.OfFamily(world.NodeAddresses(t, outside), world.Addresses(far)[0]), 9)
	send := func(to string) (says.Injected, int) {
		return kubectlOffloadJSON[says.Injected](t, "trace", "--inject", "--yes", "pod/from", to, "-n", ns)
	}
	world.Eventually(t, world.ServiceWithin, "the computed path leads to the endpoint", func() (bool, string) {
		out, code := kubectlOffload(t, "trace", "pod/from", fmt.Sprintf("svc/%s:%d", web.Name, port), "-n", ns)
		return code == 0, out
	})
	for _, to := range []string{fmt.Sprintf("svc/%s:%d", web.Name, port), "pod/far/icmp"} {
		world.Eventually(t, world.ServiceWithin, "a packet to "+to+" arrives",
			func() (bool, string) { // nodes have a service later than the database
				i, code := send(to)
				return code == 0 && i.Verdict == inject.Arrived && seenAt(i, far, 1), fmt.Sprintf("exit code %d: %+v", code, i)
			})
	}
	world.Eventually(t, world.Soon, "a packet to "+exit.String()+" leaves", func() (bool, string) {
		i, code := send(exit.String() + "/udp")
		return code == 0 && i.Verdict == inject.Left && len(i.Seen) > 0, fmt.Sprintf("exit code %d: %+v", code, i)
	})
	world.Eventually(t, world.ServiceWithin, "the computed path to a service without endpoints is rejected",
		func() (bool, string) {
			traced, code := kubectlOffloadJSON[says.Traced](t, "trace", "pod/from", fmt.Sprintf("svc/%s:%d", none.Name, port), "-n", ns)
			return code == 1 && traced.Verdict == computed.Rejected, fmt.Sprintf("exit code %d: %+v", code, traced)
		})
	world.Eventually(t, world.ServiceWithin, "a packet to a service without endpoints is dropped", func() (bool, string) {
		i, code := send(fmt.Sprintf("svc/%s:%d", none.Name, port))
		return code == 1 && i.Verdict == inject.Dropped && i.By == "Service/"+ns+"/"+none.Name, fmt.Sprintf("exit code %d: %+v", code, i)
	})
}

// unwanted is how many datagrams a pod's kernel has got for ports that no program has.
func unwanted(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	all := 0
	for _, file := range []struct{ command, name string }{{"grep ^Udp: /proc/net/snmp", "NoPorts"}, {"grep ^Udp6NoPorts /proc/net/snmp6", ""}} {
		fields := strings.Fields(world.MustInPod(t, pod, "sh", "-c", file.command))
		text := fields[len(fields)-1]
		if at := slices.Index(fields, file.name); at >= 0 {
			text = fields[at+len(fields)/2]
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%q: %v", fields, err)
		}
		all += n
	}
	return all
}

// seenAt says whether so many packets were seen at the interface of a pod; 0: any.
func seenAt(i says.Injected, pod *corev1.Pod, packets int) bool {
	return slices.ContainsFunc(i.Seen, func(s inject.Sighting) bool {
		return s.Pod == pod.Namespace+"/"+pod.Name && s.Node == pod.Spec.NodeName && s.Direction == "in" && (packets == 0 || s.Packets == packets)
	})
}

func injectionsOf(t *testing.T, ns, pod string) (n int) {
	t.Helper()
	list, err := cluster.client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == "Injected" && e.InvolvedObject.Name == pod && strings.Contains(e.Message, "asked by admin") {
			n++
		}
	}
	return n
}

// injectsNot: without --yes, with wrong commands, and by a user without the right. The kernel of the receiver counts none.
func injectsNot(t *testing.T, ns string, to *corev1.Pod) {
	t.Helper()
	before := unwanted(t, to)
	for _, c := range []struct {
		args []string
		code says.Code
		text string
	}{
		{[]string{"pod/from", "pod/far:9/udp"}, 64, "Nothing was sent: add --yes"},
		{[]string{"pod/from", "pod/far:9/udp", "--yes", "--count=11"}, 64, "want 1 to 10"},
		{[]string{"pod/from", "pod/far:9/sctp", "--yes"}, 64, "sctp"},
		{[]string{"pod/none", "pod/far:9/udp", "--yes"}, 1, "there is no pod"},
		{[]string{"pod/from", "pod/far:9/udp", "--yes", "--kubeconfig", tenantOfNothing(t)}, 3, "injections.ovn-offload.io"},
	} {
		verbRefuses(t, c.code, c.text, append([]string{"trace", "--inject", "-n", ns}, c.args...)...)
	}
	if got := unwanted(t, to) - before; got != 0 {
		t.Errorf("%d packets came", got)
	}
}
