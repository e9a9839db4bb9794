package nodecheck

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract/served"
)

// TestUnservedObjects_AreCounted: of each kind with objects there is the number and an example; kinds that are served, and
// those without a CRD, are no findings, and a kind that cannot be read is an error beside the others.
func TestUnservedObjects_AreCounted(t *testing.T) {
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range served.Kinds() {
		lists[kind.GroupVersionResource] = kind.Kind + "List"
	}
	object := func(kind, namespace, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "k8s.ovn.org/v1", "kind": kind}}
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists,
		object("EgressFirewall", "a", "default"), object("EgressFirewall", "b", "default"), object("EgressIP", "", "tenant"),
		object("UserDefinedNetwork", "a", "n"))
	client.PrependReactor("list", "egressqoses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	got, err := UnservedObjects(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].Message == "" {
			t.Errorf("%s has no message", got[i].Kind)
		}
		got[i].Message = ""
	}
	want := []Unserved{{Kind: "EgressFirewall", Count: 2, Example: "a/default"}, {Kind: "EgressIP", Count: 1, Example: "tenant"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	client.PrependReactor("list", "egressfirewalls", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("a role is missing"))
	})
	if got, err := UnservedObjects(t.Context(), client); err == nil || !strings.Contains(err.Error(), "egressfirewalls") || len(got) != 1 {
		t.Errorf("got %v and error %v", got, err)
	}
}
