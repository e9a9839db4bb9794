package controller

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// TestPrimaryNetworks_GatewayRoutersKnowPortsOfSharedServices: the policies of gateway routers follow the endpoints of the cluster's
// DNS while there is a primary network.
func TestPrimaryNetworks_GatewayRoutersKnowPortsOfSharedServices(t *testing.T) {
	followsEndpoints(t, "kube-dns", nil)
}

// TestPrimaryNetworks_ReachADNSOfAnyName: its label shares it. Without the label there are no ports.
func TestPrimaryNetworks_ReachADNSOfAnyName(t *testing.T) {
	followsEndpoints(t, "rke2-coredns", map[string]string{"k8s-app": "kube-dns"})
}

func followsEndpoints(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	const namespace = metav1.NamespaceSystem
	w := wholeWorld(t, nil, gatewayNode("n1", 2), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "tenant-0", Labels: map[string]string{contract.PrimaryNetworkLabel: ""},
	}})
	w.startAndLead()
	w.putPrimary(0)
	hasPorts := func(want bool, address string) func() bool {
		return func() bool {
			policies := w.server.Dump("Logical_Router_Policy", "match", "action")
			return strings.Contains(policies, "rtot-GR_n1") && strings.Contains(policies, "ip4.dst == "+address+" && tcp.dst == 8080") == want
		}
	}
	w.eventually("no port without an endpoint", hasPorts(false, "10.244.1.10"))
	service, slice := testService(name, "10.96.0.10"), testSlice(name, "n1")
	service.Namespace, slice.Namespace, service.Labels = namespace, namespace, labels
	if _, err := w.client.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	slices := w.client.DiscoveryV1().EndpointSlices(namespace)
	if _, err := slices.Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the port of the endpoint", hasPorts(true, "10.244.1.10"))
	slice.Endpoints[0].Addresses = []string{"10.244.1.77"}
	if _, err := slices.Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the port of the next endpoint", hasPorts(true, "10.244.1.77"))
	w.eventually("no port of the former endpoint", hasPorts(false, "10.244.1.10"))
	if labels != nil {
		service.Labels = nil
		if _, err := w.client.CoreV1().Services(namespace).Update(t.Context(), service, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually("no port without the label", hasPorts(false, "10.244.1.77"))
	}
	if err := w.policies.Resource(kube.NADs()).Namespace("tenant-0").Delete(t.Context(), "main", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("no policy without a network", func() bool {
		return !strings.Contains(w.server.Dump("Logical_Router_Policy", "match"), "rtot-GR_n1")
	})
}
