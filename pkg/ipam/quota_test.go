package ipam

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam/quota"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// limited are tenants whose namespace has a quota.
type limited struct {
	tenants
	quota *quota.Quota
}

func (l *limited) Requests(pod *corev1.Pod) []Request {
	requests := l.tenants.Requests(pod)
	for i := range requests {
		requests[i].Quota = l.quota
	}
	return requests
}

func withQuota(t testing.TB, limit int) (allocator, *limited, *corev1.Node) {
	t.Helper()
	all := &limited{tenants{"blue": tenant(t, "blue", contract.Layer2, "10.7.0.0/24")}, &quota.Quota{Max: limit}}
	cfg := plan(t, "10.0.0.0/16/24")
	cfg.Further = all
	a, node := newAllocator(t, cfg), newNode("n1", 1)
	decideNode(t, a, node)
	return a, all, node
}

func wantBeyond(t testing.TB, a allocator, pod *corev1.Pod, node *corev1.Node) {
	t.Helper()
	_, err := a.Pod(pod, node)
	var beyond *quota.Error
	if !errors.As(err, &beyond) || !errors.Is(err, reconcile.ErrNotReady) {
		t.Errorf("pod %s: error %v, want one of the quota", pod.Name, err)
	}
	if a.Allocated(pod, "ns/blue") != nil {
		t.Errorf("pod %s has an attachment beyond the quota", pod.Name)
	}
}

// drop releases what a pod has on the network, as its deletion does. It returns the pods that are decided again.
func drop(a allocator, pod *corev1.Pod) []contract.Owner {
	on := owner(pod).On("ns/blue")
	return a.Addresses.Release(on, a.Holders(on)...)
}

// gone decides on a pod that does not exist any more.
func gone(t testing.TB, a allocator, pod *corev1.Pod) []contract.Owner {
	t.Helper()
	d, err := a.Pod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.Retry
}

// TestQuota_OldestWaitsFirst: a pod gets all its attachments or none. The oldest that waits is next, also if a younger one
// asks first and needs less. One that needs more than the namespace may ever have stops none.
func TestQuota_OldestWaitsFirst(t *testing.T) {
	a, _, node := withQuota(t, 3)
	first, second := attached(newPod("first", "n1", 2), "blue"), attached(newPod("second", "n1", 3), "blue,blue")
	never, two, one := attached(newPod("never", "n1", 4), "blue,blue,blue,blue"), attached(newPod("two", "n1", 5), "blue,blue"), attached(newPod("one", "n1", 6), "blue")
	decidePod(t, a, first, node)
	decidePod(t, a, second, node)
	for _, pod := range []*corev1.Pod{one, never, two} {
		wantBeyond(t, a, pod, node)
	}
	decidePod(t, a, newPod("without", "n1", 7), node)
	if retry := drop(a, first); len(retry) != 0 {
		t.Errorf("one is free and the oldest needs two, decided again are %v", retry)
	}
	wantBeyond(t, a, one, node)
	if retry := gone(t, a, two); !slices.Equal(retry, []contract.Owner{owner(one)}) {
		t.Errorf("the oldest is gone, decided again are %v", retry)
	}
	decidePod(t, a, one, node)
	wantEntry(t, one, "ns/blue", "10.7.0.4/24")
	wantBeyond(t, a, never, node)
	delete(never.Annotations, contract.NetworksKey)
	wantBeyond(t, a, two, node)
	if d := decidePod(t, a, never, node); len(d.Retry) != 0 || a.counts.Fitting("ns") != nil {
		t.Errorf("who waits for nothing: %v", d.Retry)
	}
	drop(a, second)
	on := owner(second).On("ns/blue/1")
	if retry := a.Addresses.Release(on, a.Holders(on)...); !slices.Equal(retry, []contract.Owner{owner(two)}) {
		t.Errorf("two are free, decided again are %v", retry)
	}
}

// TestQuota_IsOfTheRecords: after a restart the quota counts what rows and annotations say, and no annotation of a pod that
// does not run makes room for it. A smaller quota takes nothing away, and one that cannot be read gives nothing.
func TestQuota_IsOfTheRecords(t *testing.T) {
	a, all, node := withQuota(t, 1)
	has, forged := attached(newPod("has", "n1", 3), "blue"), attached(newPod("forged", "n1", 4), "blue")
	decidePod(t, a, has, node)
	forged.Annotations[contract.PodNetworksKey] = `{"ns/blue":{"ip_addresses":["10.7.0.9/24"],"mac_address":"0a:58:0a:07:00:09","role":"secondary"}}`
	if got := a.Adopt(forged, node, "ns/blue"); got != nil {
		t.Errorf("a forged annotation gave %v", got)
	}
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{forged, has}, nil)
	wantBeyond(t, a, forged, node)
	all.quota = &quota.Quota{Problem: errors.New("no number")}
	has.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.4"}}
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{forged, has}, nil)
	if d := decidePod(t, a, has, node); d.Annotations != nil || a.Allocated(has, "ns/blue") == nil {
		t.Errorf("a pod that runs lost what it has: %v", d)
	}
	wantBeyond(t, a, attached(newPod("new", "n1", 5), "blue"), node)
	all.quota = nil
	decidePod(t, a, forged, node)
	all.quota = &quota.Quota{Max: 2}
	next := attached(newPod("next", "n1", 6), "blue")
	wantBeyond(t, a, next, node)
	if retry := drop(a, has); !slices.Equal(retry, []contract.Owner{owner(next)}) {
		t.Errorf("one of two is free, decided again are %v", retry)
	}
}
