package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
)

// tracedPolicy is a policy that selects the pod of its name, and which packets pass it.
type tracedPolicy struct {
	pod, rules string
	// packet is the protocol and the port of the packets; "": TCP to port 8080.
	packet string
	// lets are the pods whose packets pass, or to which packets pass. The others are near, on the node of the pod, far, on
	// another one, and guest, there in another namespace.
	lets []string
}

func tracedPolicies() []tracedPolicy {
	const anyone, byWeb = "ingress: [{}]", "ingress: [{ports: [{port: web}]}, {ports: [{protocol: UDP, port: 53, endPort: 55}]}]"
	from := func(peer string) string { return "ingress: [{from: [" + peer + "]}]" }
	to := func(peer string) string { return "egress: [{to: [" + peer + "]}]" }
	const far, near, team = "{podSelector: {matchLabels: {app: far}}}", "{podSelector: {matchLabels: {app: near}}}", "{namespaceSelector: {matchLabels: {name: team}}}"
	const others4, others6 = "{ipBlock: {cidr: 10.244.0.0/16, except: [10.244.2.0/24]}}", "{ipBlock: {cidr: 'fd00:10:244::/48', except: ['fd00:10:244:2::/64']}}"
	allPods := []string{"near", "far", "guest"}
	return []tracedPolicy{
		{"no-policy", "", "", allPods},
		{"anyone", anyone, "", allPods},
		{"no-pod", "ingress: []", "", nil},
		{"by-far", from(far), "", []string{"far"}},
		{"by-near", from(near), "", []string{"near"}},
		{"by-both", "ingress: [{from: [" + near + "]}, {from: [" + far + "]}]", "", []string{"near", "far"}},
		{"by-team", from(team), "", []string{"guest"}},
		{"by-siblings", from("{podSelector: {}}"), "", []string{"near", "far"}},
		{"by-block", from(others4 + ", " + others6), "", []string{"near"}},
		{"by-web", byWeb, "", allPods},
		{"by-web", byWeb, "tcp 8081", nil},
		{"by-web", byWeb, "udp 8080", nil},
		{"by-web", byWeb, "udp 54", allPods},
		{"to-no-pod", "egress: []", "", nil},
		{"to-far", to(far), "", []string{"far"}},
		{"to-team", to(team), "", []string{"guest"}},
		{"to-block", to(others4 + ", " + others6), "", []string{"near"}},
	}
}

func (p tracedPolicy) isEgress() bool { return strings.HasPrefix(p.rules, "egress") }

func (p tracedPolicy) yaml() string {
	direction := "Ingress"
	if p.isEgress() {
		direction = "Egress"
	}
	return fmt.Sprintf("---\nkind: NetworkPolicy\napiVersion: networking.k8s.io/v1\nmetadata: {namespace: ns, name: %s}\n"+
		"spec: {podSelector: {matchLabels: {app: %[1]s}}, policyTypes: [%s], %s}\n", p.pod, direction, p.rules)
}

// last is the match and the priority, in northd's flows, of the policy's last rule, which drops all that the others do not
// allow.
func (p tracedPolicy) last() string {
	port := "outport"
	if p.isEgress() {
		port = "inport"
	}
	return fmt.Sprintf("(%s == @%s), priority %d,", port, acl.PolicyGroup(contract.NetworkPolicyOwner("ns", p.pod)), 1000+acl.PriorityDeny)
}

// trace is that between the policy's pod and another one, with the port where it must end.
func (p tracedPolicy) trace(d *dualStack, other string, family contract.Family) (trace, port string) {
	protocol, number := "tcp", uint16(8080)
	if p.packet != "" {
		fmt.Sscan(p.packet, &protocol, &number)
	}
	from, to := other, p.pod
	if p.isEgress() {
		from, to = to, from
	}
	return d.tracePod(from, to, protocol, netip.AddrPortFrom(d.address(to, family), number)), d.port(to)
}

// TestNetworkPolicy_TracesNameWhatDrops: in northd's flows, packets that a policy allows arrive, from and to pods on its
// node and on another one, and all others end at the policy's last rule. Without the policies these arrive, too.
func TestNetworkPolicy_TracesNameWhatDrops(t *testing.T) {
	pods, objects := []string{"ns/near@n1", "ns/far@n2", "team/guest@n2"}, ""
	for _, p := range tracedPolicies() {
		if pod := "ns/" + p.pod + "@n1"; !slices.Contains(pods, pod) {
			pods = append(pods, pod)
			if p.rules != "" {
				objects += p.yaml()
			}
		}
	}
	d := startDualStack(t, pods...)
	type dropped struct {
		tracedPolicy
		other  string
		family contract.Family
	}
	var all []dropped
	d.write(d.rows(objects))
	d.startTracer()
	for _, p := range tracedPolicies() {
		for _, other := range []string{"near", "far", "guest"} {
			for family := range families() {
				lets := slices.Contains(p.lets, other)
				if trace, port := p.trace(d, other, family); reaches(trace, port) != lets || strings.Contains(trace, p.last()) == lets {
					t.Errorf("%s with %s, %s %q: want it let through: %t:\n%s", p.pod, other, family, p.packet, lets, trace)
				}
				if !lets {
					all = append(all, dropped{p, other, family})
				}
			}
		}
	}
	d.clear()
	d.write(d.rows(""))
	d.startTracer()
	for _, c := range all {
		if trace, port := c.trace(d, c.other, c.family); !reaches(trace, port) {
			t.Errorf("%s with %s, %s %q: dropped without policies, so this test shows nothing:\n%s", c.pod, c.other, c.family, c.packet, trace)
		}
	}
}
