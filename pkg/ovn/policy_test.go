package ovn

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
	"github.com/ovn-offload/ovn-offload/test/policytest"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestNetworkPolicy_RulesMatchDefinitionOfAPI builds random policies and compares, for every pair
// of nine pods, an external address and a node's own, two ports and three protocols, what the rows
// decide with what the API's definition does.
func TestNetworkPolicy_RulesMatchDefinitionOfAPI(t *testing.T) {
	seed := tier.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	blocks := []networkingv1.IPBlock{
		{CIDR: "10.244.0.0/16", Except: []string{"10.244.1.0/24", "10.244.2.10/32"}},
		{CIDR: "0.0.0.0/0", Except: []string{"10.244.2.0/24"}}, {CIDR: "203.0.113.0/24"}, {CIDR: "::/0"},
	}
	verdicts := map[bool]int{}
	for round := range 40 {
		var world policytest.World
		world.Namespaces, world.Pods = policytest.PodsOf()
		for i := range 1 + r.IntN(4) {
			world.Policies = append(world.Policies, policytest.Policy(r, fmt.Sprint("policy-", i), blocks))
		}
		if round%2 == 1 {
			for i := range 1 + r.IntN(4) {
				world.Cluster = append(world.Cluster, policytest.RandomCluster(r, i))
			}
		}
		addresses := place(world.Pods)
		got := rulesOf(t, world)
		for _, c := range cases(world.Pods, addresses) {
			want := world.Allows(c.from, c.to)
			verdicts[want]++
			if allowed := got.allows(c.packet); allowed != want {
				t.Fatalf("round %d: %s: rules say %t, the API %t; policies:\n%s\nrules:\n%s", round, c.name, allowed, want, describe(world), got.describe())
			}
		}
	}
	if verdicts[true] < 500 || verdicts[false] < 500 {
		t.Errorf("verdicts %v: too one-sided to show anything", verdicts)
	}
}

// place puts each namespace's pods on a node of its own.
func place(pods []*corev1.Pod) map[*corev1.Pod]netip.Addr {
	addresses := map[*corev1.Pod]netip.Addr{}
	for i, pod := range pods {
		addr := netip.AddrFrom4([4]byte{10, 244, byte(i / 3), byte(10 + i%3)})
		addresses[pod] = addr
		pod.UID = "uid"
		pod.Spec.NodeName = fmt.Sprint("n", i/3)
		pod.Annotations = map[string]string{contract.PodNetworksKey: fmt.Sprintf(
			`{"default":{"ip_addresses":["%s/24"],"mac_address":"%s"}}`, addr, contract.MACFromAddress(addr))}
	}
	return addresses
}

type probeCase struct {
	name   string
	from   policytest.Peer
	to     policytest.Target
	packet packet
}

func cases(pods []*corev1.Pod, addresses map[*corev1.Pod]netip.Addr) (all []probeCase) {
	outside := netip.MustParseAddr("203.0.113.7")
	// The last is another node's own address in its part of the pod network.
	ends := []policytest.Peer{{Addr: outside}, {Addr: netip.MustParseAddr("10.244.9.2")}}
	for _, pod := range pods {
		ends = append(ends, policytest.Peer{Pod: pod, Addr: addresses[pod]})
	}
	for _, from := range ends {
		for _, to := range ends {
			if from == to {
				continue
			}
			for _, protocol := range policytest.Protocols() {
				for _, port := range []int{80, 81} {
					c := probeCase{from: from, to: policytest.Target{Peer: to, Protocol: protocol, Port: int32(port)}}
					c.packet = packet{from.Addr, to.Addr, strings.ToLower(string(protocol)), port, portOf(from.Pod), portOf(to.Pod)}
					c.name = fmt.Sprintf("%s to %s %s %d", from.Addr, to.Addr, protocol, port)
					all = append(all, c)
				}
			}
		}
	}
	return all
}

func portOf(pod *corev1.Pod) string {
	if pod == nil {
		return "elsewhere"
	}
	return contract.Network{}.PodPort(pod.Namespace, pod.Name)
}

// rulesOf builds everything that a controller would, and collects what decides.
func rulesOf(t *testing.T, world policytest.World) *rules {
	t.Helper()
	var objects []runtime.Object
	owners := []contract.Owner{contract.NetworkOwner()}
	for i := range 3 {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Annotations: map[string]string{
			contract.NodeChassisIDKey: "chassis", contract.NodeSubnetsKey: fmt.Sprintf(`{"default":["10.244.%d.0/24"]}`, i),
		}}})
		owners = append(owners, contract.NodeOwner(fmt.Sprint("n", i)))
	}
	for _, ns := range world.Namespaces {
		objects = append(objects, ns)
	}
	for _, pod := range world.Pods {
		objects = append(objects, pod)
		owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
	}
	for _, policy := range world.Policies {
		objects = append(objects, policy)
	}
	for _, policy := range world.Cluster {
		objects = append(objects, policy.Object())
	}
	view := viewOf(t, objects...)
	owners = append(append(owners, view.PolicyOwners()...), view.PodSetOwners()...)
	network := oneNetwork("10.244.0.0/16")
	network.JoinSubnets = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16")}
	return collect(t, view, network, owners)
}

// collect builds owners and keeps what decides about packets.
func collect(t *testing.T, view facts, network contract.Network, owners []contract.Owner) *rules {
	t.Helper()
	r := &rules{groups: map[string][]string{}, sets: map[string][]string{}, on: map[string]string{}}
	for _, owner := range owners {
		rows, err := Build(view, network, owner)
		if err != nil {
			t.Fatalf("%s: %v", owner, err)
		}
		for _, row := range rows {
			switch model := row.Model.(type) {
			case *nb.PortGroup:
				r.groups[model.Name] = append(r.groups[model.Name], "")
			case *nb.AddressSet:
				r.sets[model.Name] = model.Addresses
			case *nb.ACL:
				on := ""
				if row.Parents[0].Table == nb.LogicalSwitchTable {
					on = row.Parents[0].Name
				}
				r.acls = append(r.acls, rule{model, on})
			case *nb.LogicalSwitchPort:
				r.on[model.Name] = row.Parents[0].Name
				for _, parent := range row.Parents {
					if parent.Table == nb.PortGroupTable {
						r.groups[parent.Name] = append(r.groups[parent.Name], model.Name)
					}
				}
			}
		}
	}
	return r
}

func describe(world policytest.World) string {
	var b strings.Builder
	for _, policy := range world.Policies {
		fmt.Fprintf(&b, "%s/%s %+v\n", policy.Namespace, policy.Name, policy.Spec)
	}
	for _, policy := range world.Cluster {
		fmt.Fprintf(&b, "%+v\n", policy)
	}
	return b.String()
}

func (r *rules) describe() string {
	var b strings.Builder
	for _, acl := range r.acls {
		fmt.Fprintf(&b, "%s tier %d priority %d %s: %s\n", acl.Direction, acl.Tier, acl.Priority, acl.Action, acl.Match)
	}
	fmt.Fprintf(&b, "%v\n%v\n", r.groups, r.sets)
	return b.String()
}

// TestNetworkPolicy_NodeReachesItsPodsOnly: a node's own address passes to its pods whatever
// the policies, another node's does not.
func TestNetworkPolicy_NodeReachesItsPodsOnly(t *testing.T) {
	var world policytest.World
	world.Namespaces, world.Pods = policytest.PodsOf()
	place(world.Pods)
	world.Policies = []*networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "deny"}}}
	got := rulesOf(t, world)
	p := packet{dst: netip.MustParseAddr("10.244.0.10"), protocol: "tcp", port: 80, inport: "k8s-n0", outport: "x_a"}
	for from, want := range map[string]bool{"10.244.0.2": true, "10.244.1.2": false} {
		if p.src = netip.MustParseAddr(from); got.allows(p) != want {
			t.Errorf("from %s: %t, want %t", from, !want, want)
		}
	}
}

// counting counts the calls of Members.
type counting struct {
	facts
	looks int
}

func (c *counting) Members(set *policy.PodSet) []*corev1.Pod {
	c.looks++
	return c.facts.Members(set)
}

// TestNetworkPolicy_BuildReadsNotAllPods: many policies allow from everywhere, and each
// would look at each pod of the cluster. What they have to know, the set's
// own builder finds out, also when it changes.
func TestNetworkPolicy_BuildReadsNotAllPods(t *testing.T) {
	several := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	everywhere := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &several}}
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec:       networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: everywhere}}},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}, Spec: corev1.PodSpec{NodeName: "n"}}
	view := &counting{facts: viewOf(t, policy, pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})}
	network := oneNetwork("10.244.0.0/16")
	build := func(owner contract.Owner) {
		t.Helper()
		if _, err := Build(view, network, owner); err != nil {
			t.Fatal(err)
		}
	}
	set := view.PodSetOwners()[0]
	build(set)
	looks := view.looks
	build(contract.NetworkPolicyOwner("ns", "p"))
	if view.looks != looks {
		t.Errorf("%d looks at all pods for one policy", view.looks-looks)
	}
	if got := view.Sizes(view.PodSet(set)); got[0] != 1 {
		t.Errorf("sizes %d", got)
	}
}

// TestBuild_OrderOfFactsChangesNothing: informers give objects in no order, and rows
// that follow it are written again at every look.
func TestBuild_OrderOfFactsChangesNothing(t *testing.T) {
	policy := policytest.ClusterPolicy{Kind: contract.KindAdminNetworkPolicy, Name: "p"}.Object()
	everyNode := map[string]any{"action": "Deny", "to": []any{map[string]any{"nodes": map[string]any{}}}}
	if err := unstructured.SetNestedSlice(policy.Object, []any{everyNode}, "spec", "egress"); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.10", Ports: []corev1.ServicePort{{Port: 80}}}}
	local := corev1.ServiceInternalTrafficPolicyLocal
	service.Spec.InternalTrafficPolicy = &local
	objects := []runtime.Object{policy, service}
	for i := range 10 {
		node, port, portName := fmt.Sprint("n", i), int32(8080), ""
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{contract.NodeChassisIDKey: node}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("172.18.0.", 10+i)}}},
		}, &discoveryv1.EndpointSlice{ // one endpoint, of which each says another node
			ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("web-", i), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.5"}, NodeName: &node}},
		})
	}
	view := viewOf(t, objects...)
	for _, owner := range []contract.Owner{{Kind: contract.KindAdminNetworkPolicy, Name: "p"}, contract.NodeServicesOwner("n0")} {
		texts := map[string]bool{}
		for range 20 {
			rows, err := Build(view, oneNetwork("10.244.0.0/16"), owner)
			if err != nil || len(rows) == 0 {
				t.Fatalf("%d rows of %s, %v", len(rows), owner, err)
			}
			var text strings.Builder
			dumpRows(&text, rows)
			texts[text.String()] = true
		}
		if len(texts) > 1 {
			t.Errorf("%d different rows of %s from the same facts", len(texts), owner)
		}
	}
}
