package main

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
)

const worldServices = 5000

// serviceWorld is services with ten endpoints each, and nothing else.
type serviceWorld struct {
	ovn.View
	services map[string]*corev1.Service
	slices   map[string][]*discoveryv1.EndpointSlice
}

func (serviceWorld) Zone() contract.Zone { return contract.Zone{} }
func (serviceWorld) NetworkOf(*corev1.Service) (string, *contract.Network, error) {
	return "", nil, nil
}
func (w serviceWorld) Service(_, name string) *corev1.Service        { return w.services[name] }
func (serviceWorld) IsForeign(string, netip.Addr) bool               { return false }
func (serviceWorld) OnNodes(*discoveryv1.EndpointSlice) (bool, bool) { return false, false }

func (w serviceWorld) EndpointSlices(_, name string) []*discoveryv1.EndpointSlice {
	return w.slices[name]
}

// BenchmarkServices is a full pass over 5,000 services with ten endpoints each:
// built, and compared with a real database that holds them.
func BenchmarkServices(b *testing.B) {
	w := &world{view: newServiceWorld(), owners: []contract.Owner{contract.NetworkOwner()}, db: openNorthbound(b)}
	w.network = contract.Network{JoinSubnets: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16")}}
	for i := range worldServices {
		w.owners = append(w.owners, contract.ServiceOwner("bench", fmt.Sprint("web-", i)))
	}
	start := time.Now()
	if changes := w.pass(b, 10); changes < worldServices {
		b.Fatalf("%d rows written", changes)
	}
	b.Logf("written to a real ovsdb-server in %s, 10 owners a transaction", time.Since(start).Round(time.Millisecond))
	for b.Loop() {
		if changes := w.pass(b, 10); changes != 0 {
			b.Fatalf("a pass over what is right changed %d rows", changes)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/pass")
}

func newServiceWorld() serviceWorld {
	w := serviceWorld{services: map[string]*corev1.Service{}, slices: map[string][]*discoveryv1.EndpointSlice{}}
	for i := range worldServices {
		name := fmt.Sprint("web-", i)
		w.services[name] = &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name},
			Spec: corev1.ServiceSpec{
				ClusterIP: fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250), Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
			},
		}
		w.slices[name] = []*discoveryv1.EndpointSlice{sliceOf("bench", name, i)}
	}
	return w
}
