package relay

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// TestFollowed_ReadsANamespaceOnce for the parts of a view and all viewers, and again after two seconds.
func TestFollowed_ReadsANamespaceOnce(t *testing.T) {
	kinds := map[schema.GroupVersionResource]string{}
	for _, r := range snapshot.All() {
		kinds[r.Kind()] = "List"
	}
	pod := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "shop", "name": name}}}
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(kuberuntime.NewScheme(), kinds, pod("web-0"))
	synctest.Test(t, func(t *testing.T) {
		f, err := NewFollowed(client, "ovn-kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		check := func(pods int, lists ...string) {
			t.Helper()
			client.ClearActions()
			for _, with := range []snapshot.Resource{snapshot.Services, snapshot.NetworkPolicies, snapshot.Services} {
				s, err := f.With(t.Context(), web.Want{Resources: []snapshot.Resource{snapshot.Pods, with}, Namespaces: []string{"shop"}})
				if err != nil || len(s.Shared(snapshot.Pods)) != pods {
					t.Errorf("%+v, %v", s, err)
				}
			}
			var got []string
			for _, action := range client.Actions() {
				got = append(got, action.GetVerb()+" "+action.GetResource().Resource+" in "+action.GetNamespace())
			}
			if !slices.Equal(got, lists) {
				t.Errorf("asked %q, want %q", got, lists)
			}
		}
		all := []string{"list pods in shop", "list services in shop", "list networkpolicies in shop"}
		check(1, all...)
		if err := client.Tracker().Add(pod("web-1")); err != nil {
			t.Fatal(err)
		}
		check(1)
		time.Sleep(snapshotFor)
		synctest.Wait()
		check(2, all...)
		time.Sleep(snapshotFor)
		synctest.Wait()
		if len(f.lists) > 0 {
			t.Error("lists are kept that no view asks for")
		}
	})
}
