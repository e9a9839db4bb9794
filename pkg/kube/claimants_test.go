package kube

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestView_AddressesThatServicesChoose: a service that names an address is marked when
// a node gets the address or loses it, and when a range of services comes or goes; one
// that names another is marked by ranges only.
func TestView_AddressesThatServicesChoose(t *testing.T) {
	service := func(name, address string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.ServiceSpec{ExternalIPs: []string{address}}}
	}
	client, view, h := startView(t, service("one", "2001:DB8:0::2"), service("two", "192.0.2.1"))
	h.want(t, "Service/ns/one", "Service/ns/two")
	node := newNode("n", nil)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "2001:db8::2"}, {Type: corev1.NodeHostName, Address: "n"}}
	nodes, ranges := client.CoreV1().Nodes(), client.NetworkingV1().ServiceCIDRs()
	if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "Node/n", "Service/ns/one")
	addr := netip.MustParseAddr("2001:db8::2")
	if !view.IsHostAddress(addr) || view.IsHostAddress(netip.MustParseAddr("192.0.2.1")) {
		t.Error("the addresses of nodes are not marked")
	}
	if err := nodes.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "Node/n", "Service/ns/one")
	if view.IsHostAddress(addr) {
		t.Error("the address of a node that is gone is one")
	}
	if _, err := ranges.Create(t.Context(), newServiceCIDR("more", "10.97.0.0/24"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "Service/ns/one", "Service/ns/two")
}
