package relay

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/web"
)

// followedClient has a pod shop/web-0.
func followedClient() *fake.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{}
	for _, r := range snapshot.All() {
		kinds[r.Kind()] = "List"
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(kuberuntime.NewScheme(), kinds, shopPod("web-0"))
}

func shopPod(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "shop", "name": name}}}
}

// TestFollowed_ReadsOnceForAllWhoAsk at the same time: a pod, the pods of a node, and those of a namespace.
func TestFollowed_ReadsOnceForAllWhoAsk(t *testing.T) {
	client := followedClient()
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, kuberuntime.Object, error) {
		time.Sleep(50 * time.Millisecond) // in which all others ask
		return false, nil, nil
	})
	f, err := NewFollowed(client, "ovn-kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]web.Want{
		"a pod": {Pod: "shop/web-0"}, "a node": {Node: "w1"}, "a namespace": {Resources: []snapshot.Resource{snapshot.Pods}, Namespaces: []string{"shop"}},
	} {
		client.ClearActions()
		var all errgroup.Group
		for range 10 {
			all.Go(func() error {
				_, err := f.With(t.Context(), want)
				return err
			})
		}
		if err := all.Wait(); err != nil || len(client.Actions()) != 1 {
			t.Errorf("%s: %d questions, want 1: %v", name, len(client.Actions()), err)
		}
	}
}

// TestFollowed_ReadsANamespaceOnce for the parts of a view and all viewers, and again after two seconds.
func TestFollowed_ReadsANamespaceOnce(t *testing.T) {
	client := followedClient()
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
		if err := client.Tracker().Add(shopPod("web-1")); err != nil {
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
