package controller

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
)

// zoneNode is in one of three zones.
func zoneNode(i int) *corev1.Node {
	node := gatewayNode(fmt.Sprint("n", i), 0)
	node.Annotations[contract.GatewayConfigKey] = fmt.Sprintf(`{"default":{"mode":"shared","ip-addresses":["172.18.%d.%d/16"]}}`, i/250, 1+i%250)
	node.Status.Addresses[0].Address = fmt.Sprintf("172.18.%d.%d", i/250, 1+i%250)
	node.Labels = map[string]string{corev1.LabelTopologyZone: fmt.Sprint("zone-", i%3)}
	return node
}

// hintedSlice has ten endpoints, each with a hint for one of three zones.
func hintedSlice(service string, i int) *discoveryv1.EndpointSlice {
	slice := testSlice(service)
	for n := range 10 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 128+i>>8, i&255, n)},
			Hints:     &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: fmt.Sprint("zone-", n%3)}}},
		})
	}
	return slice
}

// BenchmarkHintedEndpointChanges: one endpoint of a service with hints for zones
// changes. It reports the time from the event until the rows of all nodes are built.
func BenchmarkHintedEndpointChanges(b *testing.B) {
	const nodes = 2000
	for _, services := range []int{500, 5000} {
		b.Run(fmt.Sprint(services), func(b *testing.B) {
			var objects []runtime.Object
			for i := range nodes {
				objects = append(objects, zoneNode(i))
			}
			for i := range services {
				name := fmt.Sprint("web-", i)
				objects = append(objects, testService(name, fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250)), hintedSlice(name, i))
			}
			client := fake.NewClientset(objects...)
			c, err := New(b.Context(), Config{Plan: ipam.Defaults(), Zones: []ZoneConfig{{}}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()}, apitest.Client(client))
			if err != nil {
				b.Fatal(err)
			}
			marked := make(chan []contract.Owner, nodes+3*services)
			c.view.OnChange(func(owners ...contract.Owner) { marked <- owners })
			if err := c.view.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			build := func(owners []contract.Owner) {
				for _, owner := range owners {
					if rows, err := ovn.Build(facts{c.view, c.zones[0]}, c.zones[0].network, owner); err != nil || len(rows) != 1 {
						b.Fatalf("%s: %d rows, %v", owner, len(rows), err)
					}
				}
			}
			build([]contract.Owner{contract.NodeServicesOwner("n0"), contract.NodeServicesOwner("n1"), contract.NodeServicesOwner("n2")})
			for len(marked) > 0 {
				<-marked
			}
			slice := hintedSlice("web-7", 7)
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				slice.Endpoints[0].Addresses = []string{fmt.Sprintf("10.200.0.%d", i%250)}
				if _, err := client.DiscoveryV1().EndpointSlices("d").Update(b.Context(), slice, metav1.UpdateOptions{}); err != nil {
					b.Fatal(err)
				}
				owners := <-marked
				if len(owners) != nodes+1 {
					b.Fatalf("%d owners of a change, want the service and all nodes", len(owners))
				}
				b.StartTimer()
				build(owners)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/change")
		})
	}
}
