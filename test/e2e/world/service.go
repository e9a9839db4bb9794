//go:build e2e

package world

import (
	"context"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// ServicePort is the port of the services of Service.
	ServicePort = 80
	// ServiceWithin bounds how long a change of a service takes to reach all nodes.
	ServiceWithin = Soon
)

// Service makes a service of the pods of its namespace with the label app=web, for TCP and UDP, in the lab's families.
// It goes when the test ends.
func Service(t *testing.T, ns string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	families := corev1.IPFamilyPolicyPreferDualStack
	target := intstr.FromInt32(EchoPort)
	object := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "web-"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, IPFamilyPolicy: &families,
			Ports: []corev1.ServicePort{
				{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: ServicePort, TargetPort: target},
				{Name: "udp", Protocol: corev1.ProtocolUDP, Port: ServicePort, TargetPort: target},
			},
		},
	}
	if change != nil {
		change(&object.Spec)
	}
	services := cluster.Client.CoreV1().Services(ns)
	made, err := services.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { services.Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
	return made
}

// UpdateService changes a service in place, and returns it as the API server then has it.
func UpdateService(t *testing.T, service *corev1.Service, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	services := cluster.Client.CoreV1().Services(service.Namespace)
	for {
		now, err := services.Get(t.Context(), service.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(&now.Spec)
		now, err = services.Update(t.Context(), now, metav1.UpdateOptions{})
		if err == nil {
			return now
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// DeleteService deletes a service, and does not wait until it answers no longer.
func DeleteService(t *testing.T, ns, name string) {
	t.Helper()
	if err := cluster.Client.CoreV1().Services(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// GiveAddresses writes addresses into a service's status, as a load balancer does.
func GiveAddresses(t *testing.T, service *corev1.Service, addrs ...string) *corev1.Service {
	t.Helper()
	for _, addr := range addrs {
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: addr})
	}
	made, err := cluster.Client.CoreV1().Services(service.Namespace).UpdateStatus(t.Context(), service,
		metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// ClusterAddresses are a service's own.
func ClusterAddresses(service *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, ip := range service.Spec.ClusterIPs {
		out = append(out, netip.MustParseAddr(ip))
	}
	return out
}

// Frontends are a service's own addresses, each with ServicePort.
func Frontends(service *corev1.Service) []string {
	var out []string
	for _, addr := range ClusterAddresses(service) {
		out = append(out, netip.AddrPortFrom(addr, ServicePort).String())
	}
	return out
}
