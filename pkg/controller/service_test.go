package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func gatewayNode(name string, i int) *corev1.Node {
	node := testNode(name)
	node.Annotations[contract.GatewayConfigKey] = fmt.Sprintf(`{"default":{"mode":"shared","interface-id":"breth0_%s","mac-address":"02:42:ac:12:00:%02x",`+
		`"ip-addresses":["172.18.0.%d/16"],"next-hops":["172.18.0.1"]}}`, name, i, i)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.18.0.%d", i)}}
	return node
}

func testService(name, clusterIP string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}

// testSlice has an endpoint on each node named.
func testSlice(service string, nodes ...string) *discoveryv1.EndpointSlice {
	port, protocol, name := int32(8080), corev1.ProtocolTCP, ""
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "d", Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for i, node := range nodes {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%s.%d", node[1:], 10+i)}, NodeName: &node})
	}
	return slice
}

// balancers is what the database holds of services.
func (w *world) balancers() []string {
	w.t.Helper()
	return slices.DeleteFunc(w.rows(), func(row string) bool {
		return !strings.HasPrefix(row, "Load_Balancer") && !strings.HasPrefix(row, "Chassis_Template_Var")
	})
}

func (w *world) has(text string) bool {
	return strings.Contains(strings.Join(w.balancers(), "\n"), text)
}

// TestService_ChangesLeaveNoFormerRows: whatever a service was, nothing of it stays.
func TestService_ChangesLeaveNoFormerRows(t *testing.T) {
	w := newWorld(t, gatewayNode("n1", 2), gatewayNode("n2", 3))
	services, endpoints := w.client.CoreV1().Services("d"), w.client.DiscoveryV1().EndpointSlices("d")
	w.eventually("the nodes' addresses", func() bool { return w.has("172.18.0.2") && w.has("172.18.0.3") })
	empty := w.balancers()
	service := testService("web", "10.96.0.10")
	update := func(change func()) {
		t.Helper()
		change()
		if _, err := services.Update(t.Context(), service, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("a frontend that rejects", func() bool { return w.has(`10.96.0.10:80`) && !w.has("10.244.") })
	if _, err := endpoints.Create(t.Context(), testSlice("web", "n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("a backend", func() bool { return w.has("10.244.1.10:8080") })
	update(func() {
		service.Spec.Type, service.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
		service.Spec.Ports[0].NodePort = 30080
	})
	w.eventually("a node port with local backends", func() bool { return w.has("LOCAL.d.web.TCP.80.IPv4=") && w.has("_IPv4_0:30080") })
	update(func() {
		service.Spec.Type, service.Spec.ExternalTrafficPolicy = corev1.ServiceTypeClusterIP, ""
		service.Spec.Ports[0].NodePort, service.Spec.Ports[0].Port = 0, 81
	})
	w.eventually("the new port alone", func() bool {
		return w.has("10.96.0.10:81") && !w.has("10.96.0.10:80") && !w.has("30080") && !w.has("LOCAL")
	})
	if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("nothing of the service", func() bool { return slices.Equal(w.balancers(), empty) })
}

// TestService_AddressOfANodeIsRefused: a service with a node's address as an external IP does not answer there and has an
// Event. The service answers at the address when no node has it any more.
func TestService_AddressOfANodeIsRefused(t *testing.T) {
	service := testService("web", "10.96.0.10")
	service.Spec.ExternalIPs = []string{"172.18.0.3", "192.0.2.1"}
	w := newWorld(t, gatewayNode("n1", 2), gatewayNode("n2", 3), service)
	w.eventually("the address that no node has", func() bool { return w.has("192.0.2.1:80") })
	if w.has("172.18.0.3:80") {
		t.Errorf("the node's address is taken: %s", w.balancers())
	}
	w.eventually("an Event", func() bool {
		events, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Reason == "ExternalIPRefused" && e.Regarding.Name == "web" && strings.Contains(e.Note, "[172.18.0.3]")
		})
	})
	if err := w.client.CoreV1().Nodes().Delete(t.Context(), "n2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the deleted node's address", func() bool { return w.has("172.18.0.3:80") })
}
