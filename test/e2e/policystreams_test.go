//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// A stream of TCP that is silent for longer than longPause was interrupted, unless that of a
// witness was silent for long, too (longestAllowed): then it is the machine. Of UDP, which repeats
// nothing, a packet is lost or none is, however late a busy machine sends it.
const shortPause, longPause = time.Second, 2 * time.Second

const streamsForMinutes = "it looks at streams for minutes; TestNetworkPolicy_StopsRunningStreams, which has a witness, is in the gate"

// streams are one of TCP and one of UDP to each address of a pod, by their names.
func streams(t *testing.T, from, to *corev1.Pod) map[string]*flow {
	t.Helper()
	all := map[string]*flow{}
	for _, target := range world.Endpoints(to) {
		for _, network := range []string{"tcp", "udp"} {
			all[network+" "+from.Name+" "+target.String()] = startFlow(t, from.Namespace, from.Name, network, target)
		}
	}
	return all
}

// fate is what became of a stream: its longest silence, and how many packets it lost.
type fate struct {
	gap  time.Duration
	lost int
}

// ended ends streams, each after a further answer.
func ended(t *testing.T, all map[string]*flow) map[string]fate {
	t.Helper()
	fates := map[string]fate{}
	for name, stream := range all {
		stream.wantAnswer(t, 2*time.Minute) // TCP repeats a packet after twice the time each
		fates[name] = fate{stream.stop(), stream.lost}
		t.Logf("%s: silent for %s at most, %d lost", name, fates[name].gap, fates[name].lost)
	}
	return fates
}

// interrupted lists streams that lost a packet of UDP or were silent in TCP for longer than pause.
func interrupted(fates map[string]fate, pause time.Duration) (names []string) {
	for name, f := range fates {
		if udp := strings.HasPrefix(name, "udp"); udp && f.lost > 0 || !udp && f.gap > pause {
			names = append(names, fmt.Sprintf("%s (silent for %s, %d lost)", name, f.gap, f.lost))
		}
	}
	return names
}

// longestSilence is that of streams of TCP.
func longestSilence(fates map[string]fate) (longest time.Duration) {
	for name, f := range fates {
		if strings.HasPrefix(name, "tcp") {
			longest = max(longest, f.gap)
		}
	}
	return longest
}

// undisturbed wants a change to interrupt no stream of clients to a server. On a busy
// machine the switch itself loses packets: it counts those that it finds no context for
// while it replaces its flows, and the kernel those that it is too late to read. It has no
// route for tunnels while it reads the kernel's routes, as it does when pods of an earlier
// test go (docs/limits.md). The server's own streams to witnesses, which the change does not
// concern, show the rest.
// Where there was such a loss nothing is known of the change, and it is made again.
func undisturbed(t *testing.T, server *corev1.Pod, clients, witnesses []*corev1.Pod, change func()) {
	t.Helper()
	for range 5 {
		all, others := map[string]*flow{}, map[string]*flow{}
		for _, client := range clients {
			maps.Copy(all, streams(t, client, server))
		}
		for _, witness := range witnesses {
			maps.Copy(others, streams(t, server, witness))
		}
		before, reads := switchErrors(t), quiet(t)
		change()
		fates, witnessed := ended(t, all), ended(t, others)
		wrong := interrupted(fates, longestAllowed(longPause, longestSilence(witnessed)))
		busy, errors := interrupted(witnessed, longPause), switchErrors(t)-before
		after := routeReads(t, nodes...)
		if len(wrong) > 0 && (len(busy) > 0 || errors > 0 || !slices.Equal(after, reads)) {
			t.Logf("once more, for the machine is busy: %q; %q, %d packets that the switches dropped, routes read %v times, before %v",
				wrong, busy, errors, after, reads)
			continue
		}
		if len(wrong) > 0 {
			t.Errorf("interrupted: %q", wrong)
		}
		return
	}
	t.Error("the machine is too busy to tell")
}

// routeReads counts the reads of the kernel's routes by ovs-vswitchd of each node.
func routeReads(t *testing.T, nodes ...string) (counts []string) {
	t.Helper()
	for _, node := range nodes {
		counts = append(counts, strings.TrimSpace(world.MustOnNode(t, node, "ovs-appctl", "coverage/read-counter",
			"route_table_dump")))
	}
	return counts
}

// quiet waits until no interface of the nodes has changed for two seconds, and returns their routeReads.
func quiet(t *testing.T) (reads []string) {
	t.Helper()
	world.Eventually(t, time.Minute, "no interface changes", func() (bool, string) {
		reads = routeReads(t, nodes...)
		time.Sleep(2 * time.Second)
		after := routeReads(t, nodes...)
		return slices.Equal(reads, after), fmt.Sprintf("routes were read %v times, then %v", reads, after)
	})
	return reads
}

// switchErrors are the packets that the nodes' switches have dropped because they had no
// flow for them and could not get one, or did not read them in time from the kernel's
// sockets. What a policy drops is not among them.
func switchErrors(t *testing.T) (n int) {
	t.Helper()
	unread := regexp.MustCompile(`skmem:\([^)]*,d(\d+)\)`)
	for _, node := range nodes {
		var counts []string
		for _, counter := range []string{"datapath_drop_upcall_error", "datapath_drop_lock_error"} {
			counts = append(counts, strings.TrimSpace(world.MustOnNode(t, node, "ovs-appctl", "coverage/read-counter", counter)))
		}
		for _, match := range unread.FindAllStringSubmatch(world.MustOnNode(t, node, "ss", "--packet", "--memory"), -1) {
			counts = append(counts, match[1])
		}
		for _, text := range counts {
			count, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			n += count
		}
	}
	return n
}

// forbid has a policy of a client stop its streams to a server for a moment, which
// shows that an interruption is seen.
func forbid(t *testing.T, client, server *corev1.Pod) {
	t.Helper()
	all := streams(t, client, server)
	world.CreatePolicy(t, client.Namespace, "forbid", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: client.Labels}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
	})
	world.Reaches(t, client, false, world.Endpoints(server)...)
	world.DeletePolicy(t, client.Namespace, "forbid")
	fates := ended(t, all)
	if got := interrupted(fates, shortPause); len(got) < len(all) {
		t.Errorf("the policy interrupted %q alone of %d streams", got, len(all))
	}
}

// TestNetworkPolicy_OtherPoliciesInterruptNothing: streams that a policy allows run while others
// come and go: one of another pod on the server's node, one that selects the same
// pods, one that lets in the same peers, one in another namespace.
func TestNetworkPolicy_OtherPoliciesInterruptNothing(t *testing.T) {
	world.Test(t, world.Policies, world.Disruptive)
	tier.Full(t, streamsForMinutes)
	ns, theirs := world.Namespace(t), world.Namespace(t)
	server, other := world.Pod(ns, "server", nodes[1]), world.Pod(ns, "other", nodes[1])
	client, third := world.Pod(ns, "client", nodes[2]), world.Pod(ns, "third", nodes[2])
	away := world.Pod(theirs, "server", nodes[1])
	world.Run(t, server, other, client, third, away)
	world.CreatePolicy(t, ns, "allow", world.AllowPods("server", "client"))
	world.Reaches(t, third, false, world.Endpoints(server)...)
	others := []struct {
		ns, name string
		spec     networkingv1.NetworkPolicySpec
	}{
		{ns, "elsewhere", world.AllowPods("other", "no-pod")},
		{ns, "same-pods", world.AllowPods("server", "other")},
		{ns, "same-peers", world.AllowPods("other", "client")},
		{theirs, "same-labels", world.AllowPods("server", "client")},
	}
	come := func() {
		for _, p := range others {
			world.CreatePolicy(t, p.ns, p.name, p.spec)
		}
	}
	leave := func() {
		for _, p := range others {
			world.DeletePolicy(t, p.ns, p.name)
		}
	}
	undisturbed(t, server, []*corev1.Pod{client}, []*corev1.Pod{client}, func() {
		for range 4 {
			for range 5 { // faster than agents and OVN follow
				come()
				leave()
			}
			come()
			world.Reaches(t, third, false, world.Endpoints(other, away)...)
			leave()
			world.Reaches(t, third, true, world.Endpoints(other, away)...)
		}
	})
	world.Reaches(t, third, false, world.Endpoints(server)...)
	forbid(t, client, server)
}

// TestNetworkPolicy_AllowedStreamsContinue: streams from the server's node and another
// run while a policy comes that allows them and forbids others, and when it goes.
func TestNetworkPolicy_AllowedStreamsContinue(t *testing.T) {
	world.Test(t, world.Policies, world.Disruptive)
	tier.Full(t, streamsForMinutes)
	ns := world.Namespace(t)
	server, other := world.Pod(ns, "server", nodes[1]), world.Pod(ns, "other", nodes[1])
	near, far, third := world.Pod(ns, "near", nodes[1]), world.Pod(ns, "far", nodes[2]), world.Pod(ns, "third", nodes[2])
	world.Run(t, server, other, near, far, third)
	port, udp, tcp := intstr.FromInt32(world.EchoPort), corev1.ProtocolUDP, corev1.ProtocolTCP
	clients := []*corev1.Pod{near, far}
	var blocks []networkingv1.NetworkPolicyPeer
	for _, pod := range clients {
		for _, addr := range world.Addresses(pod) {
			blocks = append(blocks, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: block(addr, addr.BitLen())}})
		}
	}
	clientsAndServer := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"near", "far", "server"}},
	}}
	type landing struct {
		name        string
		spec        networkingv1.NetworkPolicySpec
		stopped, to *corev1.Pod
	}
	landings := []landing{
		{"labels", world.AllowPods("server", "near", "far"), third, server},
		{"networks-and-ports", networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: server.Labels},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: blocks, Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &port}, {Protocol: &udp, Port: &port}},
			}},
		}, third, server},
		{"egress", networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{
				{PodSelector: &clientsAndServer},
			}}},
		}, near, other},
	}
	for _, landing := range landings {
		t.Run(landing.name, func(t *testing.T) {
			undisturbed(t, server, clients, clients, func() {
				for range 3 {
					world.Reaches(t, landing.stopped, true, world.Endpoints(landing.to)...)
					world.CreatePolicy(t, ns, landing.name, landing.spec)
					world.Reaches(t, landing.stopped, false, world.Endpoints(landing.to)...)
					world.DeletePolicy(t, ns, landing.name)
				}
			})
		})
	}
	for _, client := range clients {
		forbid(t, client, server)
	}
}

// TestNetworkPolicy_EarlierConnectionsAreAnswered: a policy without rules selects pods that already have connections to
// servers. Replies of the servers pass, also on a connection without further requests. New connections to the pods fail,
// and requests that the policy forbids get no reply.
func TestNetworkPolicy_EarlierConnectionsAreAnswered(t *testing.T) {
	world.Test(t, world.Policies, world.Disruptive)
	tier.Full(t, streamsForMinutes)
	const port = 9000
	for _, node := range nodes[1:] {
		t.Run(node, func(t *testing.T) {
			ns := world.Namespace(t)
			server, asker, witness := world.Pod(ns, "server", nodes[1]), world.Pod(ns, "asker", node), world.Pod(ns, "witness", node)
			pusher := world.Pod(ns, "pusher", nodes[1], world.Command("probe", "push", fmt.Sprint(port)))
			world.Run(t, server, asker, witness, pusher)
			pull := `probe pull "$1" & exec probe serve "$2"`
			from := netip.AddrPortFrom(world.Addresses(pusher)[0], port).String()
			silent := world.Run(t, world.Pod(ns, "silent", node,
				world.Command("sh", "-c", pull, "sh", from, fmt.Sprint(world.EchoPort))))[0]
			world.Listening(t, silent, world.EchoPort)
			flows(t, [2]*corev1.Pod{silent, pusher}, true, "Udp")
			clients := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"asker", "silent"}},
			}}
			undisturbed(t, server, []*corev1.Pod{asker}, []*corev1.Pod{witness}, func() {
				world.Reaches(t, server, true, world.Endpoints(asker, silent)...)
				world.CreatePolicy(t, ns, "deny-all", networkingv1.NetworkPolicySpec{PodSelector: clients})
				world.Reaches(t, server, false, world.Endpoints(asker, silent)...)
				flows(t, [2]*corev1.Pod{silent, pusher}, true, "Udp")
				world.DeletePolicy(t, ns, "deny-all")
			})
			world.Reaches(t, asker, true, world.Endpoints(server)...)
			forbid(t, asker, server)
		})
	}
}
