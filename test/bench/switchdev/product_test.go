//go:build bench

package switchdev

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/controller"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
)

// outside is a machine on the cable, and the nodes' way to all others.
const outside = "outside"

// families are the order of all pairs of addresses.
func families() []corev1.IPFamily { return []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} }

func outsides() []string { return []string{"192.168.50.100", "fd00:50::100"} }

// product is a dual-stack cluster whose rows are those of the product's controller, over an
// API server in memory, and whose gateway bridges are set up by the agent's part for that.
type product struct {
	*cluster
	server  *fake.Clientset
	objects dynamic.Interface // of kinds without a client of their own; nil: none
	pods    map[string]*endpoint
}

func newProduct(t *testing.T, hwOffload bool) *product {
	t.Helper()
	return newProductWith(t, hwOffload, nil)
}

func newProductWith(t *testing.T, hwOffload bool, objects dynamic.Interface) *product {
	t.Helper()
	start := time.Now()
	p := &product{cluster: newCluster(t, hwOffload), server: fake.NewClientset(), objects: objects, pods: map[string]*endpoint{}}
	t.Logf("two nodes in %s", time.Since(start).Round(time.Millisecond))
	p.outside()
	p.control()
	for _, n := range p.nodes {
		p.join(n.name, n.addresses...)
		p.gateway(n, n.name)
	}
	t.Logf("two nodes with the product in %s", time.Since(start).Round(time.Millisecond))
	return p
}

func (c *cluster) outside() {
	t := c.t
	t.Helper()
	run(t, "ip", "netns", "add", outside)
	run(t, "ip", "link", "add", "out0", "type", "veth", "peer", "name", "eth0", "netns", outside)
	t.Cleanup(func() {
		_, _ = try("ip", "link", "del", "out0")
		_, _ = try("ip", "netns", "del", outside)
	})
	run(t, "ip", "link", "set", "out0", "master", "cable", "up")
	batch(t, outside, "link set lo up", "link set eth0 mtu "+podMTU+" up",
		"addr add "+outsides()[0]+"/24 dev eth0", "addr add "+outsides()[1]+"/64 dev eth0 nodad")
	c.answer(outside)
}

// answer has iperf3 serve in a namespace until the test ends.
func (c *cluster) answer(ns string) {
	c.t.Helper()
	run(c.t, inside(ns, "iperf3", "-s", "-D", "-I", c.dir+"/iperf-"+ns+".pid")...)
}

// plan is that of addresses.
func plan() ipam.Config {
	c := ipam.Defaults()
	c.Cluster = append(c.Cluster, contract.Subnet{Prefix: subnetsOf("fd00:10:244::/48")[0], NodeBits: 64})
	c.Services = append(c.Services, subnetsOf("fd00:10:96::/112")...)
	return c
}

// control runs the controller.
func (p *product) control() {
	t := p.t
	t.Helper()
	lead := leader.Defaults()
	lead.Identity = "bench"
	c, err := controller.New(t.Context(), controller.Config{
		Plan: plan(), Zones: []controller.ZoneConfig{{Northbound: []string{p.remote("nb")}}}, Leader: lead, Leases: p.server.CoordinationV1(),
		Dynamic: p.objects, Networks: p.objects != nil, Logger: p.log(), Registerer: prometheus.NewRegistry(),
	}, apitest.Client(p.server))
	ok(t, err)
	p.background(c.Run)
	p.watched()
	_, err = p.server.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	ok(t, err)
}

// watched waits until nothing that is made in the API server in memory is missed:
// between its answer to a list and the watch, it forgets.
func (p *product) watched() {
	p.t.Helper()
	eventually(p.t, "the controller watches", patience, func() bool {
		seen := map[string]bool{}
		for _, action := range p.server.Actions() {
			seen[action.GetResource().Resource] = seen[action.GetResource().Resource] || action.GetVerb() == "watch"
		}
		for _, resource := range []string{"nodes", "pods", "services", "namespaces", "endpointslices", "networkpolicies"} {
			if !seen[resource] {
				return false
			}
		}
		return true
	})
}

// join makes a Node.
func (p *product) join(name string, addresses ...string) {
	p.t.Helper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	for _, address := range addresses {
		object.Status.Addresses = append(object.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	_, err := p.server.CoreV1().Nodes().Create(p.t.Context(), object, metav1.CreateOptions{})
	ok(p.t, err)
}

// background runs f until the test ends.
func (c *cluster) background(f func(ctx context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = f(ctx); close(done) }()
	c.t.Cleanup(func() { stop(); <-done })
}

func (c *cluster) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// add makes a pod, and plugs it in when the controller has given it addresses. Its
// iperf3 is at addresses of the node, too.
func (p *product) add(name string, n *ovsNode, vf int, at ...string) {
	t := p.t
	t.Helper()
	container := corev1.Container{Name: "iperf"}
	for _, address := range at {
		container.Ports = append(container.Ports, corev1.ContainerPort{ContainerPort: iperfPort, HostPort: hostPort, HostIP: address})
	}
	_, err := p.server.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: n.name, Containers: []corev1.Container{container}},
	}, metav1.CreateOptions{})
	ok(t, err)
	network := p.network(name)
	e := &endpoint{name: name, v4: network.Addresses[0].Addr().String(), v6: network.Addresses[1].Addr().String(), node: n, vf: vf}
	p.pods[name] = e
	link := n.plug(e, `external_ids:attached_mac="`+network.MAC.String()+`"`,
		fmt.Sprintf(`external_ids:ip_addresses="%s,%s"`, network.Addresses[0], network.Addresses[1]), "external_ids:iface-id-ver="+name)
	commands := []string{"link set lo up", fmt.Sprintf("link set %s name eth0 address %s mtu %s up", link, network.MAC, podMTU)}
	for _, address := range network.Addresses {
		commands = append(commands, "addr add "+address.String()+" dev eth0 nodad")
	}
	for _, gateway := range network.Gateways {
		commands = append(commands, "route add default via "+gateway.String())
	}
	batch(t, name, commands...)
	p.answer(name)
}

// network waits for what the controller says of a pod.
func (p *product) network(pod string) (network *contract.PodNetwork) {
	p.t.Helper()
	eventually(p.t, pod+" has addresses", patience, func() bool {
		object, err := p.server.CoreV1().Pods("default").Get(p.t.Context(), pod, metav1.GetOptions{})
		ok(p.t, err)
		network, err = contract.ParsePodNetwork(object.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
		return err == nil && network != nil && len(network.Addresses) == 2
	})
	return network
}

// serve makes a service, with its addresses, of a pod: of its iperf3, at a node port
// as well if that is not 0, and of who answers probes there.
func (p *product) serve(name string, addresses []string, nodePort int32, external []string, to *endpoint) {
	t := p.t
	t.Helper()
	spec := corev1.ServiceSpec{
		ClusterIP: addresses[0], ClusterIPs: addresses, IPFamilies: families(), ExternalIPs: external,
		Ports: []corev1.ServicePort{
			{Name: "iperf", Protocol: corev1.ProtocolTCP, Port: iperfPort, NodePort: nodePort},
			{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: probePort},
			{Name: "udp", Protocol: corev1.ProtocolUDP, Port: probePort},
		},
	}
	if nodePort != 0 {
		spec.Type = corev1.ServiceTypeNodePort
	}
	_, err := p.server.CoreV1().Services("default").Create(t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: spec}, metav1.CreateOptions{})
	ok(t, err)
	for i := range families() {
		_, err := p.server.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice(name, i, to), metav1.CreateOptions{})
		ok(t, err)
	}
}

const iperfPort = 5201

// slice is that of a service's endpoint in a family, empty without one.
func slice(service string, family int, to *endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprint(service, family), Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressType(families()[family]),
	}
	if to != nil {
		s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{to.addresses()[family]}}}
	}
	for name, port := range map[string]int32{"iperf": iperfPort, "tcp": probePort, "udp": probePort} {
		protocol := corev1.ProtocolTCP
		if name == "udp" {
			protocol = corev1.ProtocolUDP
		}
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Port: &port, Protocol: &protocol})
	}
	return s
}

// endpoint sets the one of a service, nil none.
func (p *product) endpoint(service string, to *endpoint) {
	p.t.Helper()
	for i := range families() {
		_, err := p.server.DiscoveryV1().EndpointSlices("default").Update(p.t.Context(), slice(service, i, to), metav1.UpdateOptions{})
		ok(p.t, err)
	}
}

// policy lets only some pods connect to one.
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
