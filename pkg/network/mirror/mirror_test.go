package mirror

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

// world is Mirrors with a fake API. The namespace red has a primary network, where a pod has address 10.80.0.N for 10.244.0.N.
type world struct {
	t       *testing.T
	client  *fake.Clientset
	mirrors *Mirrors
	network string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, client: fake.NewClientset(), network: "red_main"}
	w.client.PrependReactor("create", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		slice := action.(clienttesting.CreateAction).GetObject().(*discoveryv1.EndpointSlice)
		if slice.Name == "" { // the fake makes no names
			slice.Name = slice.GenerateName + "x"
		}
		return false, nil, nil
	})
	var err error
	w.mirrors, err = New(Deps{
		Slices: apitest.Client(w.client).EndpointSlices, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Services: func() []contract.Owner { return nil },
		Network: func(namespace string) string {
			if namespace == "red" {
				return w.network
			}
			return ""
		},
		OnNetwork: func(_ string, some []*discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice) {
			for _, slice := range some {
				translated := slice.DeepCopy()
				for i, e := range translated.Endpoints {
					var n int
					if _, err := fmt.Sscanf(e.Addresses[0], "10.244.0.%d", &n); err == nil {
						translated.Endpoints[i].Addresses = []string{fmt.Sprint("10.80.0.", n)}
					} else {
						translated.Endpoints[i].Addresses = nil
					}
				}
				out = append(out, translated)
			}
			return out
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// put makes or changes a slice of service web.
func (w *world) put(namespace, name string, labels map[string]string, addresses ...string) {
	w.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: sourceController,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for key, value := range labels {
		slice.Labels[key] = value
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	slices := w.client.DiscoveryV1().EndpointSlices(namespace)
	if _, err := slices.Create(w.t.Context(), slice, metav1.CreateOptions{}); err != nil {
		if _, err = slices.Update(w.t.Context(), slice, metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// copies are the addresses of the copies in a namespace, by the name of the source.
func (w *world) copies(namespace string) map[string][]string {
	w.t.Helper()
	list, err := w.client.DiscoveryV1().EndpointSlices(namespace).List(w.t.Context(), metav1.ListOptions{LabelSelector: serviceLabel + "=web"})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, slice := range list.Items {
		if _, isFound := slice.Labels[discoveryv1.LabelServiceName]; isFound || slice.Annotations[networkKey] != w.network {
			w.t.Errorf("copy %s has labels %v, annotations %v", slice.Name, slice.Labels, slice.Annotations)
		}
		addresses := []string{}
		for _, e := range slice.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
		out[slice.Annotations[sourceKey]] = addresses
	}
	return out
}

func (w *world) want(namespace string, want map[string][]string) {
	w.t.Helper()
	if err := w.mirrors.one(w.t.Context(), contract.ServiceOwner(namespace, "web")); err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(want, w.copies(namespace)); diff != "" {
		w.t.Errorf("copies (-want +got):\n%s", diff)
	}
}

// TestMirrors_FollowTheirSources: a copy comes, changes and goes with its source, and with the network. Slices of users, and
// those of namespaces without a primary network, have none.
func TestMirrors_FollowTheirSources(t *testing.T) {
	w := newWorld(t)
	w.put("red", "web-1", nil, "10.244.0.5", "192.0.2.1")
	w.put("red", "web-2", nil)
	w.put("red", "by-hand", map[string]string{discoveryv1.LabelManagedBy: "me"}, "10.244.0.7")
	w.put("blue", "web-1", nil, "10.244.0.6")
	w.want("red", map[string][]string{"web-1": {"10.80.0.5"}, "web-2": {}})
	w.want("blue", map[string][]string{})
	w.put("red", "web-1", nil, "10.244.0.5", "10.244.0.9")
	w.want("red", map[string][]string{"web-1": {"10.80.0.5", "10.80.0.9"}, "web-2": {}})
	if err := w.client.DiscoveryV1().EndpointSlices("red").Delete(t.Context(), "web-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.want("red", map[string][]string{"web-1": {"10.80.0.5", "10.80.0.9"}})
	before := len(w.client.Actions())
	w.want("red", map[string][]string{"web-1": {"10.80.0.5", "10.80.0.9"}})
	for _, action := range w.client.Actions()[before:] {
		if action.GetVerb() != "list" {
			t.Errorf("without a change: %s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
	w.network = ""
	w.want("red", map[string][]string{})
}

// TestMirrors_AskTheAPIAfterChangesAlone: when the informers have what the API had, nothing is asked. Another address of a pod,
// another version of a copy, and a slice that only the informer of headless services has, are changes.
func TestMirrors_AskTheAPIAfterChangesAlone(t *testing.T) {
	w := newWorld(t)
	kind := discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
	all := func() []*discoveryv1.EndpointSlice {
		list, err := w.client.Tracker().List(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), kind, "red")
		if err != nil {
			t.Fatal(err)
		}
		return pointers(list.(*discoveryv1.EndpointSliceList).Items)
	}
	w.mirrors.deps.Sources = func(contract.Owner) []*discoveryv1.EndpointSlice { return mirrored(all()) }
	informed := func(version string) {
		for _, slice := range all() {
			if meta, _ := onlyMeta(slice); slice.Labels[serviceLabel] != "" {
				meta.(*discoveryv1.EndpointSlice).ResourceVersion = version
				if err := w.mirrors.copies.GetStore().Add(meta); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	asks := func(when string, want bool) {
		t.Helper()
		before := len(w.client.Actions())
		if err := w.mirrors.one(t.Context(), contract.ServiceOwner("red", "web")); err != nil {
			t.Fatal(err)
		}
		if got := len(w.client.Actions()) > before; got != want {
			t.Errorf("%s: the API is asked: %v, want %v", when, got, want)
		}
	}
	w.put("red", "web-1", nil, "10.244.0.5")
	asks("a new source", true)
	informed("")
	asks("after what was written", true)
	asks("nothing has changed", false)
	w.put("red", "web-1", nil, "10.244.0.9")
	asks("another address", true)
	asks("after what was written", true)
	asks("nothing has changed again", false)
	informed("2")
	asks("another version of the copy", true)
	informed("")
	asks("the version of before", false)
	w.network = "red_other"
	asks("another network", true)
	asks("after what was written", true)
	asks("nothing has changed on the other network", false)
	if err := w.mirrors.headless.GetStore().Add(all()[0]); err != nil {
		t.Fatal(err)
	}
	asks("a headless service", true)
	w.want("red", map[string][]string{"web-1": {"10.80.0.9"}})
}

// TestMirrors_RepairWhatUsersChange: a copy that was deleted or changed is as before soon.
func TestMirrors_RepairWhatUsersChange(t *testing.T) {
	w := newWorld(t)
	w.put("red", "web-1", nil, "10.244.0.5")
	w.want("red", map[string][]string{"web-1": {"10.80.0.5"}})
	go func() { _ = w.mirrors.Run(t.Context()) }()
	slices := w.client.DiscoveryV1().EndpointSlices("red")
	const name = "red-main-web-1-x"
	isBack := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !cmp.Equal(w.copies("red"), map[string][]string{"web-1": {"10.80.0.5"}}); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: copies %v", what, w.copies("red"))
			}
		}
	}
	for deadline := time.Now().Add(10 * time.Second); !w.mirrors.copies.HasSynced() || len(w.mirrors.copies.GetStore().List()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the copies are not seen")
		}
	}
	changed, err := slices.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changed.Endpoints[0].Addresses[0] = "192.0.2.9"
	if _, err := slices.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	isBack("changed")
	if err := slices.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	isBack("deleted")
}
