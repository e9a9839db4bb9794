//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// Cases in which Kubernetes' own end-to-end tests found mistakes of ours.

// TestServiceLocal_StreamFindsTheServerThatReplacesItsOwn: UDP that never pauses, to the
// cluster address of a service whose internal policy is Local and to the node port of one
// whose external policy is, is answered by the node's next server when the only one has
// gone. While the node has none it is not, although another node has one, whose own stream goes on.
func TestServiceLocal_StreamFindsTheServerThatReplacesItsOwn(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	local := corev1.ServiceInternalTrafficPolicyLocal
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) {
		spec.Type, spec.InternalTrafficPolicy = corev1.ServiceTypeNodePort, &local
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	pods := world.Run(t, world.Pod(ns, "first", nodes[1], world.Behind("web")),
		world.Pod(ns, "elsewhere", nodes[2], world.Behind("web")), world.Pod(ns, "near", nodes[1]))
	near, host, far := pods[2], world.Run(t, world.Pod(ns, "host", nodes[1], world.OnHost()))[0], world.Run(t,
		world.Pod(ns, "far", nodes[0], world.OnHost()))[0]
	streams, witness := map[string]*flow{}, startFlow(t, ns, near.Name, "udp", world.Endpoints(pods[1])[0])
	for _, addr := range world.ClusterAddresses(web) {
		for _, from := range []*corev1.Pod{near, host} {
			streams[fmt.Sprint(from.Name, " to ", addr)] = beginFlow(t, ns, from.Name, "udp",
				netip.AddrPortFrom(addr, world.ServicePort))
		}
	}
	for _, addr := range world.NodeAddresses(t, nodes[1]) {
		streams[fmt.Sprint("far to ", addr)] = beginFlow(t, ns, far.Name, "udp", netip.AddrPortFrom(addr, uint16(web.Spec.Ports[1].NodePort)))
	}
	for name, stream := range streams {
		t.Log(name)
		stream.wantAnswer(t, world.ServiceWithin)
	}
	for _, next := range []string{"second", "third"} {
		world.DeletePod(t, ns, map[string]string{"second": "first", "third": "second"}[next])
		wantEnds(t, witness, slices.Collect(maps.Values(streams))...)
		world.Run(t, world.Pod(ns, next, nodes[1], world.Behind("web")))
		for name, stream := range streams {
			t.Log(name)
			stream.wantAnswer(t, world.ServiceWithin)
		}
	}
}

// TestEndpointSlice_LabelHeadlessIsForDNSOnly: a service answers by a manually created EndpointSlice until the slice gets
// the label, and again without the label.
func TestEndpointSlice_LabelHeadlessIsForDNSOnly(t *testing.T) {
	world.Test(t, world.Services)
	ns := world.Namespace(t)
	web := world.Service(t, ns, func(spec *corev1.ServiceSpec) { spec.Selector = nil })
	pod := world.Run(t, world.Pod(ns, "server", nodes[2], world.Behind("web")))[0]
	clients := []world.Client{world.FromPod(world.Run(t, world.Pod(ns, "from", nodes[1]))[0]), world.FromNode(nodes[1])}
	var made []*discoveryv1.EndpointSlice
	for _, addr := range world.Addresses(pod) {
		made = append(made, createSlice(t, ns, web, addr))
	}
	check := func(servers ...string) {
		t.Helper()
		for _, c := range clients {
			c.Finds(t, world.SpotsAt(world.ClusterAddresses(web), world.ServicePort, servers, nil))
		}
	}
	labels := func(text string) {
		for _, slice := range made {
			patch := []byte(`{"metadata":{"labels":{"` + corev1.IsHeadlessService + `":` + text + `}}}`)
			if _, err := cluster.client.DiscoveryV1().EndpointSlices(ns).Patch(t.Context(), slice.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("server")
	labels(`""`)
	check()
	labels(`null`)
	check("server")
}

// createSlice makes an EndpointSlice with one endpoint at the ports of a service.
func createSlice(t *testing.T, ns string, web *corev1.Service, at netip.Addr) *discoveryv1.EndpointSlice {
	t.Helper()
	family := discoveryv1.AddressTypeIPv4
	if at.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{GenerateName: "own-", Labels: map[string]string{discoveryv1.LabelServiceName: web.Name, discoveryv1.LabelManagedBy: "e2e"}},
		AddressType: family, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{at.String()}}},
	}
	number := int32(world.EchoPort)
	for _, port := range web.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Protocol: &port.Protocol, Port: &number})
	}
	made, err := cluster.client.DiscoveryV1().EndpointSlices(ns).Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestHostPort_LoopbackAddress: a host port at 127.0.0.1 answers processes of the pod's
// node there, whatever address they have, and no other client; that of another pod, the same
// at the node's address, answers as ever.
func TestHostPort_LoopbackAddress(t *testing.T) {
	world.Test(t, world.Services)
	const port = 31987
	ns := world.Namespace(t)
	own := world.OfFamily(world.NodeAddresses(t, nodes[1]), netip.IPv4Unspecified())
	loopback := netip.MustParseAddr("127.0.0.1")
	both := func(hostIP netip.Addr) []corev1.ContainerPort {
		return []corev1.ContainerPort{
			{HostPort: port, HostIP: hostIP.String(), Protocol: corev1.ProtocolTCP}, {HostPort: port, HostIP: hostIP.String(), Protocol: corev1.ProtocolUDP},
		}
	}
	hostPortPod(t, ns, "inside", "serve", both(loopback)...)
	hostPortPod(t, ns, "outside", "serve", both(own)...)
	itself, other := world.FromNode(nodes[1]), world.FromNode(nodes[0])
	pod := world.FromPod(world.Run(t, world.Pod(ns, "from", nodes[1]))[0])
	at := func(addr netip.Addr, servers ...string) []world.Spot {
		return world.SpotsAt([]netip.Addr{addr}, port, servers, nil)
	}
	itself.Finds(t, append(at(loopback, "inside"), at(own, "outside")...))
	for _, c := range []world.Client{other, pod} {
		c.Finds(t, append(at(loopback), at(own, "outside")...))
	}
	// As Kubernetes' test asks: by 127.0.0.1, from the node's own address.
	for _, network := range []string{"tcp", "udp"} {
		got, err := world.ReadAnswer(itself.Run("probe", "from", netip.AddrPortFrom(own, 0).String(), network,
			netip.AddrPortFrom(loopback, port).String()))
		if err != nil || got.Server != "inside" {
			t.Errorf("%s from %s: %v, %v", network, own, got, err)
		}
	}
	world.DeletePod(t, ns, "inside")
	itself.Finds(t, append(at(loopback), at(own, "outside")...))
}
