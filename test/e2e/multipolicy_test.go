//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// multiPolicy makes a MultiNetworkPolicy, in the place of the one with its name.
func multiPolicy(t *testing.T, ns, name, nads, spec string) {
	t.Helper()
	apply(t, fmt.Sprintf("apiVersion: k8s.cni.cncf.io/v1beta1\nkind: MultiNetworkPolicy\n"+
		"metadata: {namespace: %s, name: %s, annotations: {k8s.v1.cni.cncf.io/policy-for: %q}}\nspec: %s\n", ns, name, nads, spec))
}

// way is what a pod tries, and whether it is to be answered.
type way struct {
	from *corev1.Pod
	to   netip.AddrPort
	want bool
}

// answeredAs waits until exactly those ways are answered that are to be, by TCP and UDP, twice in succession.
func answeredAs(t *testing.T, when string, ways ...way) {
	t.Helper()
	good := 0
	world.Eventually(t, world.PolicyWithin, when, func() (bool, string) {
		var seen []string
		var group sync.WaitGroup
		var lock sync.Mutex
		for _, w := range ways {
			group.Go(func() {
				got, err := world.FromPod(w.from).Reached("tcp:"+w.to.String(), "udp:"+w.to.String())
				if want := map[bool]int{true: 2}[w.want]; err != nil || len(got) != want {
					lock.Lock()
					defer lock.Unlock()
					seen = append(seen, fmt.Sprintf("%s to %s: answers %q, want %d; %v", w.from.Name, w.to, got, want, err))
				}
			})
		}
		group.Wait()
		if good++; len(seen) > 0 {
			good = 0
		}
		slices.Sort(seen)
		return good == 2, strings.Join(seen, "; ")
	})
}

// withNames makes pods whose servers' ports have two names, echo and that of the pod. Where no server listens, the port is
// called spare.
func withNames(t *testing.T, wishes ...wish) map[string]*corev1.Pod {
	t.Helper()
	pods := map[string]*corev1.Pod{}
	for _, w := range wishes {
		pod := w.object()
		for name, port := range map[string]int32{"echo": world.EchoPort, w.name: world.EchoPort, "spare": world.EchoPort + 1} {
			for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
				pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports,
					corev1.ContainerPort{Name: name + "-" + strings.ToLower(string(protocol)), ContainerPort: port, Protocol: protocol})
			}
		}
		world.Create(t, pod)
	}
	for _, w := range wishes {
		pods[w.name] = world.Running(t, w.ns, w.name)
	}
	return pods
}

// namedPorts is a rule that allows the ports with a name.
func namedPorts(name string) string {
	return fmt.Sprintf("{ports: [{protocol: TCP, port: %[1]s-tcp}, {protocol: UDP, port: %[1]s-udp}]}", name)
}

// TestMultiNetworkPolicy_JudgesPacketsOfItsNetworks: each rule for pods on different nodes, with replies of a pod that is
// isolated in one direction, while eth0 is answered as ever. The full tier has all topologies, and the rules that
// pkg/ovn's TestMultiNetworkPolicy_RulesMatchDefinitionOfAPI draws.
func TestMultiNetworkPolicy_JudgesPacketsOfItsNetworks(t *testing.T) {
	world.Test(t, world.Networks, world.Core, world.Strict)
	ns, friends := world.Namespace(t), world.Namespace(t)
	world.LabelNamespace(t, friends, "team", `"friends"`)
	apply(t, sharedWith(friends, networkOf(ns, "flat", `"topology": "layer2", "subnets": "10.204.0.0/24"`)+
		networkOf(ns, "bare", `"topology": "layer2"`)+
		networkOf(ns, "routed", `"topology": "layer3", "subnets": "10.205.0.0/16/24"`)+
		networkOf(ns, "vlan80", `"topology": "localnet", "physicalNetworkName": "physnet", "vlanID": 80, "subnets": "10.206.0.0/24"`)))
	topologies := tier.Pick([]string{"flat"}, []string{"flat", "routed", "vlan80"})
	var own, foreign []string
	for _, name := range append([]string{"bare"}, topologies...) {
		own, foreign = append(own, name), append(foreign, ns+"/"+name)
	}
	pods := withNames(t,
		wish{ns, "server", nodes[1], strings.Join(own, ",")}, wish{ns, "client", nodes[2], strings.Join(own, ",")},
		wish{ns, "other", nodes[0], strings.Join(own, ",")}, wish{friends, "guest", nodes[2], strings.Join(foreign, ",")})
	each := map[string]func(*testing.T){"without addresses": func(t *testing.T) { judgedByBlock(t, pods) }}
	for _, name := range topologies {
		each[name] = func(t *testing.T) { judgedOn(t, pods, name) }
	}
	world.AtOnce(t, each)
}

// judgedOn goes through the rules on one network.
func judgedOn(t *testing.T, pods map[string]*corev1.Pod, name string) {
	server, guest := pods["server"], pods["guest"]
	nad := server.Namespace + "/" + name
	on := func(pod string) netip.AddrPort {
		return netip.AddrPortFrom(addressOn(t, pods[pod], nad), world.EchoPort)
	}
	const selected = "{podSelector: {matchLabels: {app: server}}, "
	type rule struct {
		when, spec                string
		client, other, guest, out bool
	}
	gate := []rule{
		{"all ingress is denied", "policyTypes: [Ingress]}", false, false, false, true},
		{"all egress is denied", "policyTypes: [Egress]}", true, true, true, false},
		{"pods are allowed", "ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]}", true, false, false, true},
		{"namespaces are allowed", "ingress: [{from: [{namespaceSelector: {matchLabels: {team: friends}}}]}]}", false, false, true, true},
		{
			"a block is allowed", fmt.Sprintf("ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [%s/32]}}]}]}", on("other").Addr()),
			true, false, true, true,
		},
		{"its ports are allowed by name", "ingress: [" + namedPorts("echo") + "]}", true, true, true, true},
		{"a name that only other pods have is allowed", "ingress: [" + namedPorts("client") + "]}", false, false, false, true},
	}
	further := []rule{
		{"all ingress is allowed", "policyTypes: [Ingress], ingress: [{}]}", true, true, true, true},
		{"all egress is allowed", "policyTypes: [Egress], egress: [{}]}", true, true, true, true},
		{"its ports are allowed", "ingress: [{ports: [{protocol: TCP, port: 8000, endPort: 8100}, {protocol: UDP, port: 8000, endPort: 8100}]}]}", true, true, true, true},
		{"other ports are allowed", "ingress: [{ports: [{protocol: TCP, port: 8081, endPort: 8100}, {protocol: UDP, port: 8081, endPort: 8100}]}]}", false, false, false, true},
		{"a name that is another port of it is allowed", "ingress: [" + namedPorts("spare") + "]}", false, false, false, true},
		{"ports of the client are allowed by name", "policyTypes: [Egress], egress: [" + namedPorts("client") + "]}", true, true, true, true},
		{"the names of its own ports are allowed to others", "policyTypes: [Egress], egress: [" + namedPorts("server") + "]}", true, true, true, false},
	}
	for _, step := range tier.Pick(gate, slices.Concat(gate, further)) {
		multiPolicy(t, server.Namespace, name, name, selected+step.spec)
		answeredAs(t, step.when+" on "+name, way{pods["client"], on("server"), step.client}, way{pods["other"], on("server"), step.other},
			way{guest, on("server"), step.guest}, way{server, on("client"), step.out}, way{pods["client"],
				world.Endpoints(server)[0], true})
	}
	// The policy leaves with its object. One of another namespace is for its pods.
	kubectlDelete(t, server.Namespace, "multi-networkpolicies.k8s.cni.cncf.io", name)
	answeredAs(t, "no policy is there", way{pods["client"], on("server"), true})
	multiPolicy(t, guest.Namespace, name, nad, "{podSelector: {}, policyTypes: [Ingress]}")
	answeredAs(t, "a policy is for the network of another namespace", way{pods["client"], on("guest"), false},
		way{pods["client"], on("server"), true}, way{guest, on("server"), true}, way{pods["client"],
			world.Endpoints(guest)[0], true})
	multiPolicy(t, guest.Namespace, name, server.Namespace+"/nothing", "{podSelector: {}, policyTypes: [Ingress]}")
	answeredAs(t, "the policy is for another network", way{pods["client"], on("guest"), true})
}

// judgedByBlock: on a network without addresses a block holds, and a selector allows nothing, with an Event.
func judgedByBlock(t *testing.T, pods map[string]*corev1.Pod) {
	server := pods["server"]
	for i, name := range []string{"server", "client", "other"} {
		world.MustInPod(t, pods[name], "ip", "addr", "add", fmt.Sprintf("192.168.80.%d/24", i+1), "dev", "net1")
	}
	at := netip.MustParseAddrPort(fmt.Sprint("192.168.80.1:", world.EchoPort))
	answeredAs(t, "no policy is there", way{pods["client"], at, true}, way{pods["other"], at, true})
	multiPolicy(t, server.Namespace, "bare", "bare", "{podSelector: {matchLabels: {app: server}}, ingress: [{from: [{ipBlock: {cidr: 192.168.80.2/32}}]}, {from: [{podSelector: {matchLabels: {app: other}}}]}]}")
	answeredAs(t, "a block is allowed", way{pods["client"], at, true}, way{pods["other"], at, false})
	wantEvent(t, server.Namespace, "PartRefused", "bare", "")
}
