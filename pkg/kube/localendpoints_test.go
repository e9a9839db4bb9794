package kube

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

// newSlice has endpoints written as "address@node", or "address" alone, with "!" behind one that is
// not ready, and "-" behind one that drains.
func newSlice(service, name string, family discoveryv1.AddressType, endpoints ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: family,
	}
	for _, text := range endpoints {
		text, unready := strings.CutSuffix(text, "!")
		text, draining := strings.CutSuffix(text, "-")
		address, node, named := strings.Cut(text, "@")
		ready := !unready && !draining
		nodeName := &node
		if !named {
			nodeName = nil
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, NodeName: nodeName, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &draining, Terminating: &draining},
		})
	}
	return slice
}

// TestLocalEndpoints_CountsEachReadyPodOnce: each ready pod of the node counts once, and so does one that
// drains or names no node, whatever the slices and families it is in; nothing is watched that is not asked for.
func TestLocalEndpoints_CountsEachReadyPodOnce(t *testing.T) {
	v4, v6 := discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	client := fake.NewClientset(
		newSlice("web", "web-1", v4, "10.0.0.1@n", "10.0.0.2@n!", "10.0.0.4@n-", "192.0.2.1", "10.0.1.1@m"),
		newSlice("web", "web-2", v4, "10.0.0.1@n", "10.0.0.3@n"),
		newSlice("web", "web-3", v6, "fd00::1@n", "fd00::3@n"),
		newSlice("far", "far-1", v4, "10.0.1.1@m", "10.0.1.2@m-"),
	)
	var selectors []string
	client.PrependReactor("list", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		selectors = append(selectors, action.(clienttesting.ListAction).GetListRestrictions().Labels.String())
		return false, nil, nil
	})
	changes := make(chan struct{}, 100)
	local := NewLocalEndpoints(apitest.Client(client), "n", func() { changes <- struct{}{} })
	count := func(want string, names ...string) {
		t.Helper()
		var services []types.NamespacedName
		for _, name := range names {
			services = append(services, types.NamespacedName{Namespace: "ns", Name: name})
		}
		for {
			counts, err := local.Count(t.Context(), services)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for name, n := range counts {
				got = append(got, fmt.Sprint(name.Name, " ", n.Ready, "-", n.Other))
			}
			slices.Sort(got)
			if strings.Join(got, ",") == want {
				return
			}
			select {
			case <-changes:
			case <-time.After(10 * time.Second):
				t.Fatalf("counted %v, want %v", got, want)
			}
		}
	}
	count("")
	if len(selectors) != 0 {
		t.Errorf("read %v though no service was asked for", selectors)
	}
	count("web 2-2", "web")
	count("far 0-0,web 2-2", "web", "far")
	if want := []string{
		"kubernetes.io/service-name in (web),!service.kubernetes.io/headless",
		"kubernetes.io/service-name in (far,web),!service.kubernetes.io/headless",
	}; !slices.Equal(selectors, want) {
		t.Errorf("read %v, want %v", selectors, want)
	}
	for _, slice := range local.informer.GetStore().List() {
		if s := slice.(*discoveryv1.EndpointSlice); s.Name == "far-1" && len(s.Endpoints) != 0 {
			t.Errorf("kept of another node: %v", s.Endpoints)
		}
		if again, err := local.trim(slice); err != nil || !reflect.DeepEqual(again, slice) {
			t.Errorf("trimmed twice: %v, %v", again, err)
		}
	}
	if _, err := client.DiscoveryV1().EndpointSlices("ns").Update(t.Context(), newSlice("far", "far-1", v4, "10.0.0.9@n"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	count("far 1-0,web 2-2", "web", "far")
	count("")
	many := make([]types.NamespacedName, selectableServices+1)
	if got := selectSlices(many); got != "kubernetes.io/service-name,!service.kubernetes.io/headless" {
		t.Errorf("a selector for %d services: %.60q", len(many), got)
	}
}
