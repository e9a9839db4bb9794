package chain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// chaining is a NetworkChaining ns/NAME of a second, with a routingSpec in YAML.
func chaining(t testing.TB, name string, second int, routing string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := fmt.Sprintf("metadata: {namespace: ns, name: %s, creationTimestamp: '2026-01-01T00:00:%02dZ'}\nspec:\n  chainType: Routing\n  routingSpec: %s\n", name, second, routing)
	if err := sigsyaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u
}

// networkOf is a network of namespace ns. The networks a to e have the subnets 10.0.0.0/24 and fd00:0::/64 to 10.4.0.0/24 and
// fd00:4::/64; others lack something.
func networkOf(nad string) *contract.Network {
	name := strings.TrimPrefix(nad, "ns/")
	number := max(0, strings.Index("abcde", name))
	n := &contract.Network{Name: name, Topology: contract.Layer2, Role: contract.RoleSecondary, PodRules: contract.PodRules{Forward: true}}
	for _, form := range []string{"10.%d.0.1/24", "fd00:%d::1/64"} {
		gateway := netip.MustParsePrefix(fmt.Sprintf(form, number))
		n.Subnets = append(n.Subnets, contract.Subnet{Prefix: gateway.Masked(), NodeBits: gateway.Bits()})
		n.Gateways = append(n.Gateways, gateway)
	}
	switch name {
	case "strict":
		n.Forward = false
	case "routed":
		n.Topology = contract.Layer3
	case "bare":
		n.Gateways = nil
	case "v4":
		n.Gateways = n.Gateways[:1]
	case "v6":
		n.Gateways = n.Gateways[1:]
	case "linked":
		n.Exits = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	case "none":
		return nil
	}
	return n
}

// networks has one NAD for each network.
func networks() Networks {
	return Networks{Of: networkOf, NADs: func(network string) []string { return []string{"ns/" + network} }}
}

func find(t *testing.T, object *unstructured.Unstructured, others ...*unstructured.Unstructured) (*Chain, error) {
	t.Helper()
	var chains Chains
	for _, o := range append(others, object) {
		chains.Changed(contract.NetworkChainingOwner("ns", o.GetName()), o)
	}
	return chains.Find(contract.NetworkChainingOwner("ns", object.GetName()), networks())
}

func describe(c *Chain) string {
	var stages []string
	for i, stage := range c.Stages {
		var places []string
		for _, p := range stage {
			text := p.NAD
			if len(p.Subnets) > 0 {
				text += fmt.Sprint(p.Subnets)
			}
			places = append(places, text)
		}
		stages = append(stages, strings.Join(places, " "))
		if i < len(c.Functions) {
			stages = append(stages, "("+c.Functions[i].String()+")")
		}
	}
	return fmt.Sprintf("%s %v", strings.Join(stages, " "), c.Families())
}

// TestFind_FormsOfChains: the form of Nodus' samples, which begins and ends with a function; that with networks at its ends;
// and names of networks without "net=".
func TestFind_FormsOfChains(t *testing.T) {
	for routing, want := range map[string]string{
		"{namespace: ns, networkChain: 'app=slb,net=b,app=ngfw,net=c,app=sdewan', left: [{networkName: a, gatewayIp: 10.0.0.2, subnet: 10.0.0.0/24}], right: [{networkName: d, gatewayIp: 10.3.0.2, subnet: 10.3.0.0/24}]}":      "ns/a[10.0.0.0/24] (app=slb) ns/b (app=ngfw) ns/c (app=sdewan) ns/d[10.3.0.0/24] [IPv4]",
		"{namespace: ns, networkChain: 'app=slb, b, app=ngfw, c,app=sdewan', leftNetwork: [{networkName: a, gatewayIp: 10.0.0.2, subnet: 10.0.0.0/24}], rightNetwork: [{networkName: d, gatewayIp: 10.3.0.2}]}":                  "ns/a[10.0.0.0/24] (app=slb) ns/b (app=ngfw) ns/c (app=sdewan) ns/d[10.3.0.0/24 fd00:3::/64] [IPv4]",
		"{networkChain: 'net=a,app.kubernetes.io/name=slb,net=b,app=ngfw,net=c', left: [{networkName: d, gatewayIp: 10.3.0.2, subnet: 172.30.10.0/24}], right: [{networkName: e, gatewayIp: 10.4.0.2, subnet: 172.30.20.0/24}]}": "ns/d[172.30.10.0/24] ns/a[10.0.0.0/24 fd00::/64] (app.kubernetes.io/name=slb) ns/b (app=ngfw) ns/c[10.2.0.0/24 fd00:2::/64] ns/e[172.30.20.0/24] [IPv4 IPv6]",
		"{networkChain: 'a,app=x,b'}": "ns/a[10.0.0.0/24 fd00::/64] (app=x) ns/b[10.1.0.0/24 fd00:1::/64] [IPv4 IPv6]",
		"{networkChain: 'a,app=x', right: [{networkName: b, subnet: 0.0.0.0/0, gatewayIp: 10.1.0.9}]}": "ns/a[10.0.0.0/24 fd00::/64] (app=x) ns/b[0.0.0.0/0] [IPv4]",
	} {
		c, err := find(t, chaining(t, "c", 1, routing))
		if err != nil {
			t.Errorf("%s: %v", routing, err)
			continue
		}
		if diff := cmp.Diff(want, describe(c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", routing, diff)
		}
	}
}

func TestFind_Refused(t *testing.T) {
	for routing, want := range map[string]string{
		"{namespace: other, networkChain: 'a,app=x,b'}":                                                    "routingSpec.namespace is other, and must be ns",
		"{networkChain: 'a,b,app=x'}":                                                                      `"b": there is no function before this network`,
		"{networkChain: 'net=a,app=x,app=y,net=b'}":                                                        `"app=y": there is no network between`,
		"{networkChain: 'a,app=x,,b'}":                                                                     "an element is empty",
		"{networkChain: 'a,app=-x,b'}":                                                                     `"app=-x"`,
		"{networkChain: a}":                                                                                "0 functions",
		"{networkChain: 'a" + strings.Repeat(",app=x,b", 17) + "'}":                                        "17 functions",
		"{networkChain: 'app=x,b'}":                                                                        "no network at the left or at the right end",
		"{networkChain: 'a,app=x,b', left: [{networkName: c, subnet: x}]}":                                 "left network c: subnet",
		"{networkChain: 'a,app=x,b', right: [{networkName: c, gatewayIp: x}]}":                             "right network c: gatewayIp",
		"{networkChain: 'a,app=x,b', left: [{networkName: c, podSelector: {matchLabels: {a: -}}}]}":        "left network c: selector",
		"{networkChain: 'a,app=x,none'}":                                                                   "network ns/none does not exist",
		"{networkChain: 'a,app=x,strict'}":                                                                 "portSecurity must be mac",
		"{networkChain: 'a,app=x,routed'}":                                                                 "has the topology layer3",
		"{networkChain: 'a,app=x,bare'}":                                                                   "has no gateway",
		"{networkChain: 'a,app=x,a'}":                                                                      "in the chain twice",
		"{networkChain: 'v4,app=x,a,app=y,v6'}":                                                            "no address family",
		"{networkChain: 'a,app=x', right: [{networkName: b, subnet: 172.30.0.0/16}]}":                      "gatewayIp must be an address in the network",
		"{networkChain: 'a,app=x', right: [{networkName: b, gatewayIp: 10.1.0.9, subnet: 10.0.0.128/25}]}": "overlaps",
		"{networkChain: 'a,app=x,linked'}":                                                                 "network ns/linked has the annotation ovn-offload.io/gateway",
	} {
		if c, err := find(t, chaining(t, "c", 1, routing)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, error %v, want %q", routing, c, err, want)
		}
	}
	wrong := chaining(t, "c", 1, "{networkChain: 'a,app=x,b'}")
	wrong.SetAnnotations(map[string]string{contract.ChainFailureKey: "half"})
	if _, err := find(t, wrong); err == nil || !strings.Contains(err.Error(), `"half", and must be open or closed`) {
		t.Error(err)
	}
}

// TestFind_NetworkIsInOneChain: the older chain keeps a network, and the younger one gets it when the older is gone.
func TestFind_NetworkIsInOneChain(t *testing.T) {
	older, younger := chaining(t, "z", 1, "{networkChain: 'a,app=x,b'}"), chaining(t, "c", 2, "{networkChain: 'c,app=x,b'}")
	if _, err := find(t, older, younger); err != nil {
		t.Error(err)
	}
	if _, err := find(t, younger, older); err == nil || !strings.Contains(err.Error(), "network ns/b is in chain ns/z, which is older") {
		t.Error(err)
	}
	if c, err := find(t, younger); err != nil || c == nil {
		t.Error(c, err)
	}
	var none Chains
	if c, err := none.Find(contract.NetworkChainingOwner("ns", "c"), networks()); c != nil || err != nil {
		t.Error(c, err)
	}
}

// TestFind_LooksAtChainsOfItsNetworksAlone: with 2,000 other chains it asks for no more networks than without them. Chains on
// other NADs of its networks count.
func TestFind_LooksAtChainsOfItsNetworksAlone(t *testing.T) {
	var chains Chains
	asked, object := 0, chaining(t, "c", 2, "{networkChain: 'a,app=x,b'}")
	owner := contract.NetworkChainingOwner("ns", "c")
	all := Networks{
		NADs: func(network string) []string { return []string{"far/" + network, "ns/" + network} },
		Of: func(nad string) *contract.Network {
			asked++
			return networkOf("ns/" + nad[strings.Index(nad, "/")+1:])
		},
	}
	chains.Changed(owner, object)
	if c, err := chains.Find(owner, all); c == nil || err != nil {
		t.Fatal(c, err)
	}
	alone := asked
	for i := range 2000 {
		name := fmt.Sprint("other-", i)
		chains.Changed(contract.NetworkChainingOwner("ns", name), chaining(t, name, 1, fmt.Sprintf("{networkChain: 'c%d,app=x,d%d'}", i, i)))
	}
	asked = 0
	if _, err := chains.Find(owner, all); err != nil || asked > alone {
		t.Errorf("%d networks are asked for, and %d without other chains; %v", asked, alone, err)
	}
	far := chaining(t, "far", 1, "{networkChain: 'e,app=x,b'}")
	far.SetNamespace("far")
	chains.Changed(contract.NetworkChainingOwner("far", "far"), far)
	if _, err := chains.Find(owner, all); err == nil || !strings.Contains(err.Error(), "network far/b is in chain far/far, which is older") {
		t.Error(err)
	}
	chains.Changed(contract.NetworkChainingOwner("far", "far"), nil)
	if _, err := chains.Find(owner, all); err != nil || len(chains.On("far/b"))+len(chains.In("far")) > 0 {
		t.Errorf("%v; %v %v", err, chains.On("far/b"), chains.In("far"))
	}
}

// TestFind_BeyondALimit: at each limit there is a chain, and beyond it none.
func TestFind_BeyondALimit(t *testing.T) {
	var subnets int
	wide := networks()
	wide.Of = func(nad string) *contract.Network {
		n := networkOf(nad)
		for i := 1; nad == "ns/a" && i < subnets; i++ {
			prefix := netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", 100+i>>8, i&255))
			n.Subnets = append(n.Subnets, contract.Subnet{Prefix: prefix, NodeBits: 24})
		}
		return n
	}
	for subnets = range map[int]bool{MaxEndSubnets: true, MaxEndSubnets + 1: true} {
		var chains Chains
		chains.Changed(contract.NetworkChainingOwner("ns", "c"), chaining(t, "c", 1, "{networkChain: 'a,app=x,b'}"))
		if _, err := chains.Find(contract.NetworkChainingOwner("ns", "c"), wide); (err == nil) != (subnets == MaxEndSubnets) {
			t.Errorf("%d subnets: %v", subnets, err)
		}
	}
	for n, want := range map[int]bool{MaxTerms - 1: true, MaxTerms: false} {
		values := strings.Repeat("v,", n)
		_, err := find(t, chaining(t, "c", 1, "{networkChain: 'a,app=x', right: [{networkName: b, podSelector: {matchExpressions: [{key: app, operator: In, values: ["+values+"]}]}}]}"))
		if (err == nil) != want {
			t.Errorf("%d values: %v", n, err)
		}
	}
}

// BenchmarkFind_AtTheLimit is what a chain costs whose ends have as many subnets as they may: docs/limits.md has the time.
func BenchmarkFind_AtTheLimit(b *testing.B) {
	var chains Chains
	wide, first := networks(), map[string]int{"ns/a": 100, "ns/b": 110}
	wide.Of = func(nad string) *contract.Network {
		n := networkOf(nad)
		for i := 1; first[nad] > 0 && i < MaxEndSubnets; i++ {
			prefix := netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", first[nad]+i>>8, i&255))
			n.Subnets = append(n.Subnets, contract.Subnet{Prefix: prefix, NodeBits: 24})
		}
		return n
	}
	owner := contract.NetworkChainingOwner("ns", "c")
	chains.Changed(owner, chaining(b, "c", 1, "{networkChain: 'a,app=x,b'}"))
	for b.Loop() {
		if c, err := chains.Find(owner, wide); c == nil || err != nil {
			b.Fatal(c, err)
		}
	}
}

// TestRoutes_OfEndsAndFunctions: ends lead to the other end. Functions lead away from themselves, and by the gateways of ends
// to what is behind these. Pods that an end does not select have no routes.
func TestRoutes_OfEndsAndFunctions(t *testing.T) {
	c, err := find(t, chaining(t, "c", 1, `{networkChain: 'a,app=x,b,app=y', left: [{networkName: d, gatewayIp: 10.3.0.2, subnet: 172.30.10.0/24, podSelector: {matchLabels: {sfc: head}}, namespaceSelector: {matchLabels: {sfc: head}}}],
    right: [{networkName: c, gatewayIp: 10.2.0.9, subnet: 172.30.20.0/24}, {networkName: e, gatewayIp: 10.4.0.9, subnet: 0.0.0.0/0}]}`))
	if err != nil {
		t.Fatal(err)
	}
	pod := func(namespace string, labels ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{}}}
		for _, label := range labels {
			key, value, _ := strings.Cut(label, "=")
			p.Labels[key] = value
		}
		return p
	}
	for _, tc := range []struct {
		name      string
		pod       *corev1.Pod
		namespace map[string]string
		nad       string
		want      []string
	}{
		{"left", pod("other"), nil, "ns/a", []string{"172.30.20.0/24 via 10.0.0.1"}},
		{"left, not selected", pod("other", "sfc=head"), nil, "ns/d", nil},
		{"left, selected", pod("other", "sfc=head"), map[string]string{"sfc": "head"}, "ns/d", []string{"172.30.20.0/24 via 10.3.0.1"}},
		{"right", pod("ns"), nil, "ns/c", []string{"10.0.0.0/24 via 10.2.0.1", "172.30.10.0/24 via 10.2.0.1"}},
		{"between", pod("ns"), nil, "ns/b", nil},
		{"first, left side", pod("ns", "app=x"), nil, "ns/d", []string{"172.30.10.0/24 via 10.3.0.2"}},
		{"first, left side of own subnets", pod("ns", "app=x"), nil, "ns/a", nil},
		{"first, right side", pod("ns", "app=x"), nil, "ns/b", []string{"172.30.20.0/24 via 10.1.0.1"}},
		{"last, left side", pod("ns", "app=y"), nil, "ns/b", []string{"10.0.0.0/24 via 10.1.0.1", "172.30.10.0/24 via 10.1.0.1"}},
		{"last, right side", pod("ns", "app=y"), nil, "ns/c", []string{"172.30.20.0/24 via 10.2.0.9"}},
		{"function's name in another namespace", pod("other", "app=x"), nil, "ns/b", nil},
	} {
		var got []string
		for _, route := range c.Routes(tc.pod, tc.namespace, tc.nad) {
			got = append(got, fmt.Sprintf("%s via %s", route.Dest, route.NextHop))
		}
		slices.Sort(got)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
