package controller

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// TestPrimaryNetworks_ServicesOfOthersDoNotLeadThere: a hand-made endpoint is behind a service's node port until a primary
// network that the service is not on has the address. The service has an Event then. When the network goes, the endpoint is
// back. The other endpoint is there all the time.
func TestPrimaryNetworks_ServicesOfOthersDoNotLeadThere(t *testing.T) {
	web, slice := testService("web", "10.96.0.10"), testSlice("web", "n1")
	web.Spec.Type, web.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.8.0.9"}})
	w := wholeWorld(t, nil, gatewayNode("n1", 2), web, slice, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "tenant-0", Labels: map[string]string{contract.PrimaryNetworkLabel: ""},
	}})
	w.startAndLead()
	leads := func(endpoint string) bool { // by gateway routers
		for line := range strings.Lines(w.server.Dump("Load_Balancer", "name", "vips")) {
			if strings.Contains(line, "Service_d/web") && !strings.Contains(line, "_switch") && strings.Contains(line, endpoint) {
				return true
			}
		}
		return false
	}
	const own, foreign = "10.244.1.10:8080", "10.8.0.9:8080"
	w.eventually("both endpoints", func() bool { return leads(own) && leads(foreign) })
	w.putPrimary(0)
	w.eventually("the pod alone", func() bool { return leads(own) && !leads(foreign) })
	w.eventually("an Event of the service", func() bool {
		events, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Reason == "EndpointRefused" && e.Regarding.Name == "web" && strings.Contains(e.Note, "[10.8.0.9]")
		})
	})
	if err := w.policies.Resource(kube.NADs()).Namespace("tenant-0").Delete(t.Context(), "main", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("both endpoints again", func() bool { return leads(own) && leads(foreign) })
}
