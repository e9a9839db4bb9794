//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	ways "github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// flowsOf reads the streams of a namespace, once all agents answer.
func flowsOf(t *testing.T, ns string, args ...string) (a says.Streams) {
	t.Helper()
	world.Eventually(t, world.Soon, "all agents answer", func() (bool, string) {
		var code int
		a, code = kubectlOffloadJSON[says.Streams](t, append([]string{"flows", "-n", ns}, args...)...)
		return code == 0, fmt.Sprintf("exit code %d, missing %v", code, a.Missing)
	})
	return a
}

// TestFlows_NameTheObjectsThatDecide: of traffic of all kinds, each stream names what decided about it, and nearly all flows
// of the datapath that still exist have names. A rule of another program has none, and flows say so.
func TestFlows_NameTheObjectsThatDecide(t *testing.T) {
	world.Test(t, world.Tools)
	tier.Full(t, "its share of names is near its bound")
	ns := world.Namespace(t)
	world.ServeOutside(t)
	far, near := world.Pod(ns, "far", nodes[2], world.Behind("web")), world.Pod(ns, "near", nodes[1], world.Behind("web"))
	neighbor := world.Pod(ns, "neighbor", nodes[2])
	guarded, client := world.Pod(ns, "guarded", nodes[2], world.Behind("web")), world.Pod(ns, "client", nodes[1])
	world.Run(t, far, near, neighbor, guarded, client)
	world.LabelPod(t, guarded, `{"app":"guarded"}`)
	world.CreatePolicy(t, ns, "lets-client", world.AllowPods("guarded", "client"))
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	world.Reaches(t, client, true, world.Endpoints(guarded)[0])
	world.Reaches(t, neighbor, false, world.Endpoints(guarded)[0])

	external := netip.AddrPortFrom(world.OfFamily(world.NodeAddresses(t, outside), world.Addresses(client)[0]),
		world.OutsidePort)
	keepsSending(t, client, "getent hosts kubernetes.default",
		world.Endpoints(far)[0].String(), world.Endpoints(near)[0].String(), world.Endpoints(guarded)[0].String(), world.Frontends(web)[0], external.String())
	keepsSending(t, neighbor, "true", world.Endpoints(guarded)[0].String()) // dropped
	nodePort := netip.AddrPortFrom(world.InternalIP(t, nodes[1]), uint16(web.Spec.Ports[0].NodePort))
	world.MustOnNode(t, outside, "sh", "-c", fmt.Sprintf("for i in $(seq 100); do probe dial tcp %s 1000 1; sleep 1; done </dev/null >/dev/null 2>&1 &", nodePort))
	var a says.Streams
	world.Eventually(t, flowsWithin, "streams of all kinds name their objects", func() (bool, string) {
		a = flowsOf(t, ns)
		return missingStream(a.Streams, ns, external.Addr())
	})
	allNamed(t, ns)
	world.Eventually(t, flowsWithin, "the policy drops packets of the neighbor", func() (bool, string) {
		dropped := flowsOf(t, ns, "--verdict", "dropped", "--policy", "lets-client").Streams
		if slices.ContainsFunc(dropped, func(s ways.Stream) bool { return s.From == "pod/"+ns+"/client" }) {
			t.Fatalf("dropped are those of the client: %+v", dropped)
		}
		return slices.ContainsFunc(dropped, func(s ways.Stream) bool { return s.From == "pod/"+ns+"/neighbor" }), fmt.Sprintf("%+v", dropped)
	})
	unknownRule(t, ns, client)
}

// allNamed reads the flows of the traffic ten times: 99 % of them have names, those of connections that have ended meanwhile, too.
func allNamed(t *testing.T, ns string) {
	t.Helper()
	named, flows, unnamed := 0, 0, map[string]int{}
	for range 10 {
		a := flowsOf(t, ns)
		named, flows = named+a.Named, flows+a.Flows-a.Stale
		for why, count := range a.Unnamed {
			unnamed[why] += count
		}
	}
	if flows < 200 || float64(named) < .99*float64(flows) {
		t.Errorf("%d of %d flows have names: %v", named, flows, unnamed)
	}
	t.Logf("%d of %d flows have names: %v", named, flows, unnamed)
}

// keepsSending has a pod connect to targets, and run a command, again and again until the pod's end.
func keepsSending(t *testing.T, from *corev1.Pod, command string, targets ...string) {
	t.Helper()
	script := "while true; do " + command
	for _, to := range targets {
		script += "; probe dial tcp " + to + " 20000 1"
	}
	script += "; sleep 0.5; done"
	world.MustInPod(t, from, "sh", "-c", "("+script+") </dev/null >/dev/null 2>&1 &")
}

// missingStream says which stream is not there, or has not the object that decides about it.
func missingStream(list []ways.Stream, ns string, external netip.Addr) (bool, string) {
	for _, want := range []struct{ from, to, object string }{
		{"pod/" + ns + "/client", "pod/" + ns + "/far", ""},
		{"pod/" + ns + "/client", "pod/" + ns + "/near", ""},
		{"pod/" + ns + "/client", "pod/" + ns + "/guarded", "NetworkPolicy/" + ns + "/lets-client"},
		{"pod/" + ns + "/neighbor", "", "NetworkPolicy/" + ns + "/lets-client"},
		{"pod/" + ns + "/client", "svc/" + ns + "/", "Service/" + ns + "/"},
		{"pod/" + ns + "/client", "svc/kube-system/kube-dns", "Service/kube-system/kube-dns"},
	} {
		if !slices.ContainsFunc(list, func(s ways.Stream) bool {
			return s.From == want.from && strings.HasPrefix(s.To, want.to) &&
				slices.ContainsFunc(s.DecidedBy, func(object string) bool { return strings.HasPrefix(object, want.object) })
		}) {
			return false, fmt.Sprintf("no stream %+v in %+v", want, list)
		}
	}
	leaves := slices.ContainsFunc(list, func(s ways.Stream) bool {
		network, err := netip.ParsePrefix(s.To)
		return s.From == "pod/"+ns+"/client" && len(s.DecidedBy) > 0 && (s.To == external.String() || err == nil && network.Contains(external))
	})
	return leaves, fmt.Sprintf("no stream to %s in %+v", external, list)
}

// unknownRule has another program's rule drop packets of a pod: its flow has no name, and says why.
func unknownRule(t *testing.T, ns string, pod *corev1.Pod) {
	t.Helper()
	const target = "198.51.100.77"
	if world.Addresses(pod)[0].Is6() {
		return // the match below is of IPv4
	}
	out, code := kubectlOffload(t, "ovs", pod.Spec.NodeName, "--", "ovs-vsctl", "--bare", "--columns=ofport", "find", "Interface",
		fmt.Sprintf("external_ids:iface-id=%s_%s", ns, pod.Name))
	port := strings.TrimSpace(out)
	if code != 0 || port == "" {
		t.Fatalf("the port of %s: %s", pod.Name, out)
	}
	rule := fmt.Sprintf("cookie=0x1badc0de,table=0,priority=300,in_port=%s,ip,nw_dst=%s", port, target)
	if out, code := kubectlOffload(t, "ovs", pod.Spec.NodeName, "--", "ovs-ofctl", "add-flow", "br-int", rule+",actions=drop"); code != 0 {
		t.Fatal(out)
	}
	t.Cleanup(func() {
		kubectlOffload(t, "ovs", pod.Spec.NodeName, "--", "ovs-ofctl", "del-flows", "br-int", "cookie=0x1badc0de/-1")
	})
	world.Eventually(t, flowsWithin, "a flow by another program's rule says that it has no name", func() (bool, string) {
		_, _ = world.InPod(ns, pod.Name, "ping", "-c3", "-i0.2", "-w1", target)
		a := flowsOf(t, ns, "--from-pod", pod.Name)
		return slices.ContainsFunc(a.Streams, func(s ways.Stream) bool {
			return s.To == target && s.Drops && len(s.DecidedBy) == 0 && strings.Contains(s.Unnamed, "1badc0de")
		}), fmt.Sprintf("%+v", a.Streams)
	})
}
