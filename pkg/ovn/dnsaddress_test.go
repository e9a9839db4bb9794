package ovn

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// sharing is a View that has shared services alone.
type sharing struct {
	View
	services []*corev1.Service
}

func (s sharing) SharedServices() []*corev1.Service { return s.services }

// TestDNSAddress_IsOfTheFirstServiceWithItsPort: whatever the namespace and the name of the service are; of a family that the
// service does not have there is none.
func TestDNSAddress_IsOfTheFirstServiceWithItsPort(t *testing.T) {
	service := func(namespace, address string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{address}, Ports: ports}}
	}
	dns, https := corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}, corev1.ServicePort{Port: 443}
	api := service("default", "10.96.0.1", https)
	for _, c := range []struct {
		services []*corev1.Service
		want     string
	}{
		{nil, ""},
		{[]*corev1.Service{api}, ""},
		{[]*corev1.Service{api, service("kube-system", "10.96.0.9", https), service("openshift-dns", "10.96.0.10", https, dns)}, "10.96.0.10"},
		{[]*corev1.Service{service("kube-system", "fd96::10", dns), service("kube-system", "10.96.0.11", dns), service("a", "10.96.0.12", dns)}, "10.96.0.11"},
		{[]*corev1.Service{service("kube-system", "None", dns)}, ""},
	} {
		if got := dnsAddress(sharing{services: c.services}, contract.IPv4); got != c.want {
			t.Errorf("%v: address %q, want %q", c.services, got, c.want)
		}
	}
}
