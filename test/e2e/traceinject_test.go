//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

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
	ns := namespace(t)
	running(t, ns, "from", nodes[1])
	far, near := running(t, ns, "far", nodes[2]), running(t, ns, "near", nodes[1])
	send := func(code int, to *corev1.Pod, args ...string) says.Injected {
		t.Helper()
		args = append([]string{"trace", "--inject", "pod/from", "pod/" + to.Name + ":9/udp", "-n", ns}, args...)
		i, got := kubectlOffloadJSON[says.Injected](t, args...)
		if got != code {
			t.Errorf("%v: exit code %d, want %d: %+v", args, got, code, i)
		}
		return i
	}
	for _, to := range []*corev1.Pod{far, near} {
		before := unwanted(t, to)
		i := send(0, to, "--yes", "--count=3")
		if got := unwanted(t, to) - before; got != 3 || i.Verdict != inject.Arrived || !seenAt(i, to, 3) {
			t.Errorf("%s got %d of 3 packets: %+v", to.Name, got, i)
		}
	}
	injectsNot(t, ns, far)
	if n := injectionsOf(t, ns, "from"); n != 2 {
		t.Errorf("%d Events on the pod of two injections", n)
	}
	if n := injectionsOf(t, ns, "far"); n != 1 {
		t.Errorf("%d Events on the pod to which packets came once", n)
	}

	createPolicy(t, ns, "lets-none", allowIngress("far"))
	policy := "NetworkPolicy/" + ns + "/lets-none"
	eventually(t, policyWithin, "the computed path ends at the policy", func() (bool, string) {
		out, code := kubectlOffload(t, "trace", "pod/from", "pod/far:9/udp", "-n", ns)
		return code == 1 && strings.Contains(out, "netpol/"+ns+"/lets-none"), out
	})
	synced(t) // nodes have the policy later than the database
	before := unwanted(t, far)
	i := send(1, far, "--yes")
	if got := unwanted(t, far) - before; got != 0 || i.Verdict != inject.Dropped || i.By != policy || seenAt(i, far, 0) || i.Deny == nil {
		t.Errorf("with a policy that drops it, %d packets came: %+v", got, i)
	}
	if n := injectionsOf(t, ns, "far"); n != 1 {
		t.Errorf("%d Events on the pod to which no packet came again", n)
	}
	deletePolicy(t, ns, "lets-none")
	eventually(t, policyWithin, "the computed path goes on", func() (bool, string) {
		out, code := kubectlOffload(t, "trace", "pod/from", "pod/far:9/udp", "-n", ns)
		return code == 0, out
	})
	synced(t)
	if i := send(0, far, "--yes"); i.Verdict != inject.Arrived {
		t.Errorf("without the policy: %+v", i)
	}
}

// TestTraceInject_ServicesPingsAndOutside: a service leads a SYN to its endpoint and to none where it has none, an echo request
// arrives, and what is for an address outside leaves by an interface of the node.
func TestTraceInject_ServicesPingsAndOutside(t *testing.T) {
	world.Test(t, world.Tools)
	tier.Full(t, "the gate sends to pods")
	ns := namespace(t)
	running(t, ns, "from", nodes[1])
	far := running(t, ns, "far", nodes[2])
	web, none := tracedService(t, ns, "far", nil), tracedService(t, ns, "none", nil)
	port := web.Spec.Ports[0].Port
	exit := netip.AddrPortFrom(ofFamily(machineAddresses(t, outside), addresses(t, far)[0]), 9)
	send := func(to string) (says.Injected, int) {
		return kubectlOffloadJSON[says.Injected](t, "trace", "--inject", "--yes", "pod/from", to, "-n", ns)
	}
	eventually(t, serviceWithin, "the computed path leads to the endpoint", func() (bool, string) {
		out, code := kubectlOffload(t, "trace", "pod/from", fmt.Sprintf("svc/%s:%d", web.Name, port), "-n", ns)
		return code == 0, out
	})
	for _, to := range []string{fmt.Sprintf("svc/%s:%d", web.Name, port), "pod/far/icmp"} {
		eventually(t, serviceWithin, "a packet to "+to+" arrives", func() (bool, string) { // nodes have a service later than the database
			i, code := send(to)
			return code == 0 && i.Verdict == inject.Arrived && seenAt(i, far, 1), fmt.Sprintf("exit code %d: %+v", code, i)
		})
	}
	if i, code := send(exit.String() + "/udp"); code != 0 || i.Verdict != inject.Left || len(i.Seen) == 0 {
		t.Errorf("%s: exit code %d: %+v", exit, code, i)
	}
	if traced, code := kubectlOffloadJSON[says.Traced](t, "trace", "pod/from", fmt.Sprintf("svc/%s:%d", none.Name, port), "-n", ns); code != 1 || traced.Verdict != computed.Rejected {
		t.Errorf("the computed path to a service without endpoints: exit code %d: %+v", code, traced)
	}
	if i, code := send(fmt.Sprintf("svc/%s:%d", none.Name, port)); code != 1 || i.Verdict != inject.Dropped || i.By != "Service/"+ns+"/"+none.Name {
		t.Errorf("a service without endpoints: exit code %d: %+v", code, i)
	}
}

// unwanted is how many datagrams a pod's kernel has got for ports that no program has.
func unwanted(t *testing.T, pod *corev1.Pod) int {
	t.Helper()
	all := 0
	for _, file := range []struct{ command, name string }{{"grep ^Udp: /proc/net/snmp", "NoPorts"}, {"grep ^Udp6NoPorts /proc/net/snmp6", ""}} {
		fields := strings.Fields(mustInPod(t, pod, "sh", "-c", file.command))
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
	_, path := cluster.Kubectl()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = "tenant", []string{"system:authenticated"}
	}
	tenant := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, tenant); err != nil {
		t.Fatal(err)
	}
	before := unwanted(t, to)
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"pod/from", "pod/far:9/udp"}, 64, "Nothing was sent: add --yes"},
		{[]string{"pod/from", "pod/far:9/udp", "--yes", "--count=11"}, 64, "want 1 to 10"},
		{[]string{"pod/from", "pod/far:9/sctp", "--yes"}, 64, "sctp"},
		{[]string{"pod/from", "pod/far:9/udp", "--yes", "--live"}, 64, "live"},
		{[]string{"pod/none", "pod/far:9/udp", "--yes"}, 1, "there is no pod"},
		{[]string{"pod/from", "pod/far:9/udp", "--yes", "--kubeconfig", tenant}, 3, "injections.ovn-offload.io"},
	} {
		if out, code := kubectlOffload(t, append([]string{"trace", "--inject", "-n", ns}, c.args...)...); code != c.code || !strings.Contains(out, c.text) {
			t.Errorf("%v: exit code %d, want %d with %q: %s", c.args, code, c.code, c.text, out)
		}
	}
	if got := unwanted(t, to) - before; got != 0 {
		t.Errorf("%d packets came", got)
	}
}
