//go:build bench

package switchdev

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Where outside finds the services at the first node: these are in the flows of direct.
const (
	external, externalPort = "198.51.100.1", 80
	nodePort               = 30080
)

// newServed has the pods a and b on the first node, c on the second, and a service
// of b with a node port and one of c with an external address.
func newServed(t *testing.T, hwOffload bool) *product {
	t.Helper()
	start := time.Now()
	p := newProduct(t, hwOffload)
	p.add("a", p.nodes[0], 0)
	p.add("b", p.nodes[0], 1)
	p.add("c", p.nodes[1], 0)
	p.serve("near", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: nearService, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}}}, p.pods["b"])
	p.serve("far", corev1.ServiceSpec{ClusterIP: farService, ExternalIPs: []string{external}, Ports: []corev1.ServicePort{{Port: externalPort}}}, p.pods["c"])
	for _, ns := range []string{"b", "c", outside} {
		run(t, inside(ns, "iperf3", "-s", "-D", "-I", p.dir+"/iperf-"+ns+".pid")...)
	}
	batch(t, outside, "route add "+external+" via "+p.nodes[0].address)
	p.direct(p.nodes[0])
	p.sync()
	t.Logf("the product on two nodes with three pods in %s", time.Since(start).Round(time.Second))
	return p
}

// serve makes a service of a pod's iperf3.
func (p *product) serve(name string, spec corev1.ServiceSpec, to *endpoint) {
	t := p.t
	t.Helper()
	port, protocol := int32(5201), corev1.ProtocolTCP
	spec.ClusterIPs, spec.IPFamilies, spec.Ports[0].Protocol = []string{spec.ClusterIP}, []corev1.IPFamily{corev1.IPv4Protocol}, protocol
	object := metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{discoveryv1.LabelServiceName: name}}
	_, err := p.server.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: object, Spec: spec}, metav1.CreateOptions{})
	ok(t, err)
	_, err = p.server.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: object, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{to.v4}, NodeName: &to.node.name}},
		Ports:     []discoveryv1.EndpointPort{{Name: new(string), Port: &port, Protocol: &protocol}},
	}, metav1.CreateOptions{})
	ok(t, err)
}

func (p *product) ways() []way {
	a, b, c := p.pods["a"].gate(), p.pods["b"].gate(), p.pods["c"].gate()
	first := p.nodes[0]
	wire := gate{outside, first.uplink, first}
	return []way{
		{what: "to outside", client: a, server: wire, to: []string{outsideV4}},
		{what: "from outside to a node port, same node", client: wire, server: b, to: []string{first.address, "-p", fmt.Sprint(nodePort)}},
		{what: "from outside to an external address, other node", client: wire, server: c, to: []string{external, "-p", fmt.Sprint(externalPort)}},
	}
}

// between are ways from pod to pod.
func (p *product) between() []way {
	a, b, c := p.pods["a"], p.pods["b"], p.pods["c"]
	return []way{
		{what: "same node", client: a.gate(), server: b.gate(), to: []string{b.v4}},
		{what: "other node", client: a.gate(), server: c.gate(), to: []string{c.v4}},
	}
}

// TestNorthSouth is the table of what runs in hardware with the rows and flows of
// the product itself: to and from outside, and pods under policies.
func TestNorthSouth(t *testing.T) {
	p := newServed(t, true)
	for _, w := range p.ways() {
		t.Run(w.what, w.row)
	}
	p.policy("allow-b", "b", "a")
	p.policy("allow-c", "c", "a")
	for _, w := range p.ways()[1:] {
		eventually(t, "the policy is in force for who comes "+w.what, patience, func() bool {
			_, err := try(w.words("1")...)
			return err != nil
		})
	}
	for _, w := range p.between() {
		t.Run("under a policy, "+w.what, w.row)
	}
	p.withdraw("allow-b", "allow-c")
	p.keep()
	t.Run("policy lands", p.policyLands)
}

// policy lets some pods, and nobody else, speak to one.
func (p *product) policy(name, server string, clients ...string) {
	p.t.Helper()
	app := func(name string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	spec := networkingv1.NetworkPolicySpec{PodSelector: app(server), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}
	for _, client := range clients {
		selector := app(client)
		spec.Ingress = append(spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &selector}}})
	}
	_, err := p.server.NetworkingV1().NetworkPolicies("default").Create(p.t.Context(),
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}, metav1.CreateOptions{})
	ok(p.t, err)
}

func (p *product) withdraw(policies ...string) {
	p.t.Helper()
	for _, name := range policies {
		ok(p.t, p.server.NetworkingV1().NetworkPolicies("default").Delete(p.t.Context(), name, metav1.DeleteOptions{}))
	}
}

// policyLands: what is in hardware ends with a policy that forbids one pod
// everything, also what only that pod sends. That of others goes on.
func (p *product) policyLands(t *testing.T) {
	b, c := p.pods["b"], p.pods["c"]
	near, far := listen(t, "b"), listen(t, "c")
	for network := range near {
		speak(t, "a", network, b.v4)
		speak(t, "a", network, c.v4)
	}
	near["udp of the server"], far["udp of the server"] = pour(t, b, "a"), pour(t, c, "a")
	inHardware(t, func() (n uint64) {
		for _, e := range p.pods {
			n += counter(t, e.node.name, e.rep, "rx_packets")
		}
		return n
	}, near, far)
	cut := time.Now()
	p.policy("deny", "b")
	silent(t, cut, near, far)
	p.withdraw("deny")
	back := time.Now()
	eventually(t, "without the policy UDP is back", patience, func() bool { n, _ := near["udp"].since(back); return n > 0 })
}

// TestNorthSouthOff is the control: the same traffic without hw-offload.
func TestNorthSouthOff(t *testing.T) {
	p := newServed(t, false)
	for _, w := range p.ways() {
		t.Run(w.what, w.inSoftware)
	}
}
