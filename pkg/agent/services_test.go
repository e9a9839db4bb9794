package agent

import (
	"context"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

// TestServices_RecordWhichHaveNoEndpointHere: those with policy Local, with and without
// node ports, once their endpoints are read; what was known stays while they cannot be read.
func TestServices_RecordWhichHaveNoEndpointHere(t *testing.T) {
	yes := true
	set := fake.NewClientset()
	for i, name := range []string{"here", "draining", "away", "cluster", "closed", "far"} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Spec: corev1.ServiceSpec{
			ClusterIPs: []string{"10.96.0.1"},
			Type:       corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			HealthCheckNodePort: int32(31000 + i), Ports: []corev1.ServicePort{{Port: 80, NodePort: int32(30000 + i)}},
		}}
		on, ready := map[bool]string{true: "m", false: "n"}[name == "away" || name == "far"], name != "draining"
		switch name {
		case "cluster":
			service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		case "closed", "far":
			service.Spec.Ports[0].NodePort = 0
		}
		must(t, set.Tracker().Add(service))
		must(t, set.Tracker().Add(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "d", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"10.244.1.5"}, NodeName: &on,
				Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &yes, Terminating: &yes},
			}},
		}))
	}
	client := apitest.Client(set)
	view, err := kube.NewNodeView(client, "n")
	must(t, err)
	must(t, view.Start(t.Context()))
	s := &services{view: view}
	endpoints := kube.NewLocalEndpoints(client, "n", func() {})
	checked := []types.NamespacedName{{Namespace: "d", Name: "here"}, {Namespace: "d", Name: "draining"}}
	counts, err := s.countEndpoints(t.Context(), endpoints, checked)
	must(t, err)
	if got := fmt.Sprint(counts); got != "map[d/draining:0 d/here:1]" {
		t.Errorf("ready endpoints: %s", got)
	}
	away := map[types.NamespacedName]bool{{Namespace: "d", Name: "away"}: true, {Namespace: "d", Name: "far"}: true}
	if got := *s.remote.Load(); !maps.Equal(got, away) {
		t.Errorf("without endpoints here: %v", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.countEndpoints(ended, endpoints, []types.NamespacedName{{Namespace: "d", Name: "other"}}); err == nil || !maps.Equal(*s.remote.Load(), away) {
		t.Errorf("endpoints that cannot be read: error %v, record %v", err, *s.remote.Load())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorder records what is reported to a set-up.
type recorder struct {
	changed  []string
	services int
}

func (r *recorder) Changed(owners ...string) { r.changed = append(r.changed, owners...) }
func (r *recorder) ServicesChanged()         { r.services++ }

// TestServices_TellOfObjects: each object is reported to the set-up, and those of services and host ports a second time, which
// asks for a pass of the gateway.
func TestServices_TellOfObjects(t *testing.T) {
	view, err := kube.NewNodeView(apitest.Client(fake.NewClientset()), "n")
	must(t, err)
	must(t, view.Start(t.Context()))
	for owner, want := range map[contract.Owner]int{
		{Kind: contract.KindService, Namespace: "d", Name: "web"}: 1, {Kind: kube.KindServiceCIDR, Name: "kubernetes"}: 1,
		contract.NodeOwner("n"): 0, {Kind: contract.KindPod, Namespace: "d", Name: "gone"}: 0,
	} {
		var r recorder
		(&services{view: view}).tell(&r, []contract.Owner{owner})
		if r.services != want || len(r.changed) != 1 || r.changed[0] != owner.String() {
			t.Errorf("%s: reported %q, and services %d times, want %d", owner, r.changed, r.services, want)
		}
	}
	hadPorts := &services{view: view}
	hadPorts.anyHostPorts.Store(true)
	var r recorder
	if hadPorts.tell(&r, []contract.Owner{{Kind: contract.KindPod, Namespace: "d", Name: "gone"}}); r.services != 1 {
		t.Errorf("a pod that is gone, where pods have host ports: services are reported %d times", r.services)
	}
}
