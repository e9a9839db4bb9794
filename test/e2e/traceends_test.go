//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	computed "github.com/ovn-offload/ovn-offload/pkg/trace"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// traceCase is a connection that trace computes, and that a real packet tries.
type traceCase struct {
	source, target string
	at             string // --at
	// from is the machine or the pod "NAMESPACE/POD" that dials the address to.
	from, to string
	verdict  computed.Verdict
	// names are in the steps.
	names []string
}

// agree says whether the computed path has the verdict, and a real packet the same.
func (c traceCase) agree(t *testing.T, ns string) (bool, string) {
	t.Helper()
	args := []string{"trace", c.source, c.target, "-n", ns}
	if c.at != "" {
		args = append(args, "--at", c.at)
	}
	answer, code := kubectlOffload(t, append(args, "-o", "json")...)
	if strings.HasPrefix(answer, "kubectl offload: ") { // an error: nodes have an object later than the cluster
		return false, answer
	}
	traced, text := answerIn[says.Traced](t, answer), ""
	for _, s := range traced.Steps {
		text += fmt.Sprintln(s.Where, s.What, says.Object(s.Object))
	}
	dial := []string{"probe", "dial", "tcp", c.to}
	out, err := "", error(nil)
	if namespace, pod, ok := strings.Cut(c.from, "/"); ok {
		out, err = world.InPod(namespace, pod, dial...)
	} else {
		out, err = world.OnNode(c.from, dial...)
	}
	arrives := c.verdict == computed.Delivered
	ok := traced.Verdict == c.verdict && (code == 0) == arrives && (err == nil) == arrives && len(traced.Steps) > 0
	for _, name := range c.names {
		ok = ok && strings.Contains(text, name)
	}
	return ok, fmt.Sprintf("want %s with %q: exit code %d, %s\n%s%s dials %s: %v %s", c.verdict, c.names, code, traced.Verdict, text, c.from, c.to, err, out)
}

// TestTraceEnds_RealPacketsAgree: the computed paths of nodes, of pods with their network and of clients outside end as a real packet
// does: that of a node to a pod, of a host's pod to a service, of a client outside to a node port, of a pod to its node. With policies
// that allow nothing, and without endpoints, the same paths end at their objects, and no packet arrives.
func TestTraceEnds_RealPacketsAgree(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	to, from := world.Pod(ns, "to", nodes[2]), world.Pod(ns, "from", nodes[1])
	host := world.Pod(ns, "host", nodes[1], world.OnHost())
	world.Run(t, to, from, host)
	web, none := nodePortService(t, ns, "to", world.EchoPort), nodePortService(t, ns, "none", world.EchoPort)
	byHost := nodePortService(t, ns, "host", int32(world.Port(host)))
	pod := world.Addresses(to)[0]
	own := world.OfFamily(world.NodeAddresses(t, nodes[1]), pod)
	at := func(addr netip.Addr, port int32) string { return netip.AddrPortFrom(addr, uint16(port)).String() }
	cluster := func(svc *corev1.Service) string {
		return at(netip.MustParseAddr(svc.Spec.ClusterIP), svc.Spec.Ports[0].Port)
	}
	nodePort := func(svc *corev1.Service) int32 { return svc.Spec.Ports[0].NodePort }
	node := "node/" + nodes[1]
	service, policy := "svc/"+ns+"/", "netpol/"+ns+"/"
	toPod := traceCase{source: node, target: "pod/to:" + fmt.Sprint(world.EchoPort), from: nodes[1],
		to: at(pod, world.EchoPort), names: []string{"management port, from "}}
	toService := traceCase{source: "pod/host", target: "svc/to", from: ns + "/host", to: cluster(web), names: []string{"has the network of its node", "to the gateway router, from 169.254.0.2", service + "to"}}
	fromOutside := traceCase{source: "outside", target: fmt.Sprintf("%s:%d", node, nodePort(web)), from: outside, to: at(own, nodePort(web)), names: []string{"from the uplink", service + "to", "SNAT to "}}
	toNode := traceCase{source: "pod/from", target: fmt.Sprintf("%s:%d", node, world.Port(host)), from: ns + "/from",
		to: at(own, int32(world.Port(host)))}
	ends := func(verdict computed.Verdict, c traceCase, names ...string) {
		t.Helper()
		c.verdict, c.names = verdict, append(slices.Clone(c.names), names...)
		world.Eventually(t, world.PolicyWithin, c.source+" to "+c.target+" is "+string(verdict),
			func() (bool, string) { return c.agree(t, ns) })
	}
	for _, c := range []traceCase{toPod, toService, fromOutside, toNode} {
		ends(computed.Delivered, c)
	}
	ends(computed.Rejected, traceCase{source: "pod/host", target: "svc/none", from: ns + "/host", to: cluster(none)}, service+"none")
	if !tier.IsFull() {
		world.CreatePolicy(t, ns, "lets-none", world.AllowPods("to"))
		ends(computed.Dropped, fromOutside, policy+"lets-none")
		ends(computed.Delivered, toNode) // which the policy does not select
		return
	}
	ends(computed.Delivered, traceCase{source: "outside", target: "svc/to", at: nodes[1], from: outside, to: at(own, nodePort(web))}, service+"to")
	ends(computed.Delivered, traceCase{source: node, target: fmt.Sprintf("%s:%d", node, nodePort(web)), from: nodes[1], to: at(own, nodePort(web))}, "nftables table ovn-offload", service+"to")
	ends(computed.Delivered, traceCase{source: "node/" + nodes[0], target: fmt.Sprintf("%s:%d", node, nodePort(web)), from: nodes[0], to: at(own, nodePort(web))}, "to the physical network", service+"to")
	ends(computed.Delivered, traceCase{source: node, target: "svc/host", from: nodes[1], to: cluster(byHost)}, "to a process of the node")
	ends(computed.Delivered, traceCase{source: "outside", target: fmt.Sprintf("%s:%d", node, world.Port(host)),
		from: outside, to: at(own, int32(world.Port(host)))}, "the node itself gets the packet")
	ends(computed.Delivered, traceCase{source: "pod/from", target: fmt.Sprintf("%s:%d", node, nodePort(web)), from: ns + "/from", to: at(own, nodePort(web))}, service+"to", ns+"_to")
	ends(computed.Rejected, traceCase{source: "outside", target: fmt.Sprintf("%s:%d", node, nodePort(none)), from: outside, to: at(own, nodePort(none))}, "no endpoint", service+"none")

	world.CreatePolicy(t, ns, "lets-none", world.AllowPods("to"))
	for _, c := range []traceCase{toPod, toService, fromOutside} {
		ends(computed.Dropped, c, policy+"lets-none")
	}
	world.DeletePolicy(t, ns, "lets-none")
	world.CreatePolicy(t, ns, "sends-none", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": from.Name}}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
	})
	ends(computed.Dropped, toNode, policy+"sends-none")
	for _, c := range []traceCase{toPod, toService, fromOutside} {
		ends(computed.Delivered, c)
	}
	world.UpdateService(t, web, func(spec *corev1.ServiceSpec) { spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	fromOutside.names = []string{"no endpoint on this node"}
	ends(computed.Dropped, fromOutside)
	there := world.OfFamily(world.NodeAddresses(t, nodes[2]), pod)
	ends(computed.Delivered, traceCase{source: "outside", target: fmt.Sprintf("node/%s:%d", nodes[2], nodePort(web)), from: outside, to: at(there, nodePort(web))}, service+"to")
}

// TestTraceEnds_LiveHasBothNodes: the packets of a host's pod to a service, of a node to a pod and of a client outside to a node port have
// the whole way in the flows of both nodes, there and back. A client that sends nothing has none. With a policy that allows nothing they
// end at the policy.
func TestTraceEnds_LiveHasBothNodes(t *testing.T) {
	world.Test(t, world.Tools)
	tier.Full(t, "the gate follows packets between pods")
	ns := world.Namespace(t)
	to, host := world.Pod(ns, "to", nodes[2]), world.Pod(ns, "host", nodes[1], world.OnHost())
	world.Run(t, to, host)
	web := nodePortService(t, ns, "to", world.EchoPort)
	pod := world.Addresses(to)[0]
	own, client := world.OfFamily(world.NodeAddresses(t, nodes[1]), pod), world.OfFamily(world.NodeAddresses(t, outside), pod)
	node, port := "node/"+nodes[1], web.Spec.Ports[1].NodePort
	sends := func(address netip.Addr, port int32) string { // UDP goes on whatever becomes of it
		return fmt.Sprintf("(probe stream udp %s:%d </dev/null >/dev/null 2>&1 & echo $! >/tmp/%s)", address, port, ns)
	}
	for machine, address := range map[string]string{nodes[1]: fmt.Sprintf("%s:%d", web.Spec.ClusterIP, world.EchoPort),
		outside: fmt.Sprintf("%s:%d", own, port)} {
		world.Eventually(t, world.ServiceWithin, address+" answers "+machine,
			func() (bool, string) { // the sender ends where it is refused
				out, err := world.OnNode(machine, "probe", "dial", "udp", address)
				return err == nil, out
			})
	}
	world.MustInPod(t, host, "sh", "-c", sends(netip.MustParseAddr(web.Spec.ClusterIP), world.EchoPort))
	for machine, start := range map[string]string{nodes[1]: sends(pod, world.EchoPort), outside: sends(own, port)} {
		world.MustOnNode(t, machine, "sh", "-c", start)
		t.Cleanup(func() { world.OnNode(machine, "sh", "-c", "kill $(cat /tmp/"+ns+"); rm /tmp/"+ns) })
	}
	traced := func(args ...string) (l says.Live, code int, way string) {
		l, code = kubectlOffloadJSON[says.Live](t, append([]string{"trace", "--live", "-n", ns}, args...)...)
		return l, code, wayOf(l)
	}
	cases := [][]string{
		{"pod/host", fmt.Sprintf("svc/to:%d/udp", world.EchoPort)}, {node, fmt.Sprintf("pod/to:%d/udp", world.EchoPort)},
		{"outside", fmt.Sprintf("%s:%d/udp", node, port)}, {"outside/" + client.String(),
			fmt.Sprintf("svc/to:%d/udp", world.EchoPort), "--at", nodes[1]},
	}
	wholeWay := fmt.Sprintf("there %[1]s, there %[2]s, back %[2]s, back %[1]s", nodes[1], nodes[2])
	for _, c := range cases {
		world.Eventually(t, flowsWithin, fmt.Sprintf("the whole way of %q", c), func() (bool, string) {
			l, code, way := traced(c...)
			return code == 0 && l.Verdict == says.Allowed && way == wholeWay, fmt.Sprintf("exit code %d, %s, %s: %+v", code, l.Verdict, way, l)
		})
	}
	world.Eventually(t, flowsWithin, "a client that sends nothing is idle", func() (bool, string) {
		l, code, way := traced("outside/192.0.2.99", fmt.Sprintf("svc/to:%d/udp", world.EchoPort), "--at", nodes[1])
		if l.Verdict == says.Allowed {
			t.Fatalf("a client that sends nothing: exit code %d, %s: %+v", code, way, l)
		}
		return code == 1 && l.Verdict == says.Idle, fmt.Sprintf("exit code %d, %s, %s: %+v", code, l.Verdict, way, l)
	})
	world.CreatePolicy(t, ns, "lets-none", world.AllowPods("to"))
	for _, c := range cases {
		world.Eventually(t, flowsWithin, fmt.Sprintf("the policy drops those of %q", c), func() (bool, string) {
			l, code, way := traced(c...)
			by := slices.ContainsFunc(l.Legs, func(leg says.Leg) bool {
				return leg.Drops && slices.Equal(leg.DecidedBy, []string{"NetworkPolicy/" + ns + "/lets-none"})
			})
			return code == 1 && l.Verdict == says.Dropped && by, fmt.Sprintf("exit code %d, %s, %s: %+v", code, l.Verdict, way, l)
		})
	}
}

// TestTraceEnds_SaysWhatOVNDoesNotSee, and what cannot be asked: the command is wrong, and nothing is sent.
func TestTraceEnds_SaysWhatOVNDoesNotSee(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	to := world.Pod(ns, "to", nodes[2])
	world.Run(t, to, world.Pod(ns, "host", nodes[1], world.OnHost()))
	node := "node/" + nodes[1]
	before := unwanted(t, to)
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{node, "192.0.2.7:443"}, "OVN does not see it there"},
		{[]string{node, "node/" + nodes[2] + ":22"}, "OVN does not see it there"},
		{[]string{node, node + ":22"}, "keeps what it sends to its own address"},
		{[]string{"outside", "pod/to:80"}, "drops what comes from outside"},
		{[]string{"pod/to", "example.com:443"}, "the address that the pod gets for the name"},
		{[]string{"pod/host", "pod/to:9/udp", "--inject", "--yes"}, "is no pod"},
	} {
		verbRefuses(t, says.Usage, c.text, append([]string{"trace", "-n", ns}, c.args...)...)
	}
	if got := unwanted(t, to) - before; got != 0 {
		t.Errorf("%d packets came", got)
	}
	closed := netip.AddrPortFrom(world.Addresses(to)[0], 9).String()
	world.Eventually(t, world.Soon, "the control, a packet that was sent, is counted", func() (bool, string) {
		out, _ := world.OnNode(nodes[2], "probe", "dial", "udp", closed)
		return unwanted(t, to) > before, out
	})
}
