package kube

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

func newServiceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

// TestServiceCIDR_NodeFollowsRanges: a node is marked by ranges that come and go; what differs in
// the status is nothing.
func TestServiceCIDR_NodeFollowsRanges(t *testing.T) {
	ctx := t.Context()
	client, view, h := startNodeView(t, "n", newServiceCIDR("kubernetes", "10.96.0.0/16", "fd00:10:96::/112"))
	h.want(t, "ServiceCIDR/kubernetes")
	ranges := client.NetworkingV1().ServiceCIDRs()
	check := func(owner, want string) {
		t.Helper()
		h.want(t, owner)
		if got := fmt.Sprint(view.ServiceSubnets()); got != want {
			t.Errorf("ranges %s, want %s", got, want)
		}
	}
	ready := newServiceCIDR("kubernetes", "10.96.0.0/16", "fd00:10:96::/112")
	ready.ResourceVersion, ready.Status.Conditions = "7", []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady}}
	if _, err := ranges.Update(ctx, ready, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ranges.Create(ctx, newServiceCIDR("more", "10.97.0.0/24"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check("ServiceCIDR/more", "[10.96.0.0/16 10.97.0.0/24 fd00:10:96::/112]")
	if err := ranges.Delete(ctx, "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	check("ServiceCIDR/more", "[10.96.0.0/16 fd00:10:96::/112]")
}

// TestServiceCIDR_AbsentKindIsNoError: an API that has no such objects is a complete one.
func TestServiceCIDR_AbsentKindIsNoError(t *testing.T) {
	client := fake.NewClientset()
	absent := apierrors.NewGenericServerResponse(404, "list", networkingv1.Resource("servicecidrs"), "", "", 0, true)
	for _, verb := range []string{"list", "watch"} {
		client.PrependReactor(verb, "servicecidrs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, absent })
	}
	view, err := NewNodeView(apitest.Client(client), "n")
	if err == nil {
		err = view.Start(t.Context())
	}
	if err != nil || len(view.ServiceSubnets()) != 0 {
		t.Errorf("%v, ranges %v", err, view.ServiceSubnets())
	}
}

// FuzzServiceSubnets: of the texts that are networks each is among the ranges, once,
// and nothing else is.
func FuzzServiceSubnets(f *testing.F) {
	for _, seed := range [][2]string{{"10.96.0.0/16", "fd00:10:96::/112"}, {"10.96.0.7/16", "10.96.0.0/16"}, {"", "x"}, {"10.96.0.0", "::/0"}, {"::ffff:10.96.0.0/112", "fe80::1%eth0/64"}} {
		f.Add(seed[0], seed[1])
	}
	ranges, err := newServiceCIDRs(apitest.Client(fake.NewClientset()))
	if err != nil {
		f.Fatal(err)
	}
	view := &objects{ranges: ranges}
	f.Fuzz(func(t *testing.T, one, other string) {
		want := map[netip.Prefix]bool{}
		for name, text := range map[string]string{"one": one, "other": other} {
			if err := ranges.GetIndexer().Add(newServiceCIDR(name, text)); err != nil {
				t.Fatal(err)
			}
			if prefix, err := netip.ParsePrefix(text); err == nil {
				want[prefix.Masked()] = true
			}
		}
		got := view.ServiceSubnets()
		if len(got) != len(want) || !slices.IsSortedFunc(got, netip.Prefix.Compare) {
			t.Errorf("%q and %q are %v", one, other, got)
		}
		for _, prefix := range got {
			if !want[prefix] {
				t.Errorf("%q and %q have %s", one, other, prefix)
			}
		}
	})
}
