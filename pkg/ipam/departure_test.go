package ipam

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// leaves marks a pod as being deleted since a second, with an hour of grace.
func leaves(pod *corev1.Pod, second int) *corev1.Pod {
	grace := int64(3600)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: born(second).Add(time.Hour)}, &grace
	return pod
}

// TestPod_BeingDeletedGetsNothingNew: it keeps what it has, also after a restart. What comes free is for pods that wait and
// are not being deleted. These learn which pods have the addresses, where and since when.
func TestPod_BeingDeletedGetsNothingNew(t *testing.T) {
	a, _ := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/29"))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	var holders []*corev1.Pod
	for i := range 6 {
		holders = append(holders, attached(newPod(fmt.Sprint("o", i), "n1", 2+i), "blue"))
		decidePod(t, a, holders[i], node)
	}
	never, waits := attached(newPod("never", "n1", 10), "blue"), attached(newPod("waits", "n1", 11), "blue")
	wantExhausted := func(pod *corev1.Pod, want string) {
		t.Helper()
		_, err := a.Pod(pod, node)
		wantError(t, err, ErrExhausted)
		if got := fmt.Sprint(err); !strings.HasSuffix(got, "no address left in subnets [10.1.0.0/29]: exhausted"+want) {
			t.Errorf("%s", got)
		}
	}
	wantExhausted(never, "")
	decidePod(t, a, leaves(never, 20), node)
	wantExhausted(waits, "")
	decidePod(t, a, leaves(holders[2], 31), node)
	decidePod(t, a, leaves(holders[4], 30), node)
	const want = ": 2 of 6 addresses are held by pods that are being deleted, the first ns/o4 on node n1 since 1970-01-01T00:00:30Z"
	wantExhausted(waits, want)
	a.rebuild([]*corev1.Node{node}, holders, nil)
	if _, err := a.Pod(never, node); err != nil || len(a.Addresses.waiting) > 0 {
		t.Errorf("a pod that is being deleted waits: %v, %v", a.Addresses.waiting, err)
	}
	wantExhausted(waits, want)
	if d := decidePod(t, a, holders[4], node); d.Annotations != nil || d.Warning != "" {
		t.Errorf("what has an address: %+v", d)
	}
	wantEntry(t, holders[4], "ns/blue", "10.1.0.5/29")
	retry := a.Addresses.Release(owner(holders[4]).On("ns/blue"), holders[4].UID)
	if !slices.Equal(retry, []contract.Owner{owner(waits).On("ns/blue")}) {
		t.Errorf("tried again: %v", retry)
	}
	decidePod(t, a, never, node)
	wantEntry(t, never, "ns/blue", "")
	decidePod(t, a, waits, node)
	wantEntry(t, waits, "ns/blue", "10.1.0.5/29")
	wantExhausted(attached(newPod("late", "n1", 12), "blue"), ": 1 of 6 addresses are held by pods that are being deleted, the first ns/o2 on node n1 since 1970-01-01T00:00:31Z")
}

// TestPod_BeingDeletedWithoutItsRecord: another pod has what its annotation says. It gets nothing in its place; one that is not
// being deleted does.
func TestPod_BeingDeletedWithoutItsRecord(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		a, _ := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/29"))
		node := newNode("n1", 1)
		decideNode(t, a, node)
		first, second := attached(newPod("first", "n1", 2), "blue"), attached(newPod("second", "n1", 3), `[{"name":"blue","ips":["10.1.0.1"]}]`)
		decidePod(t, a, first, node)
		a.Addresses.Release(owner(first).On("ns/blue"), first.UID)
		decidePod(t, a, second, node)
		if deleted {
			leaves(first, 9)
		}
		decidePod(t, a, first, node)
		if has := a.Allocated(first, "ns/blue") != nil; has == deleted {
			t.Errorf("being deleted %t: has %s", deleted, networkOf(t, first))
		}
	}
}

// TestPod_BeingDeletedIsOutOfTheQueue of its namespace's quota: those behind it come in.
func TestPod_BeingDeletedIsOutOfTheQueue(t *testing.T) {
	a, _, node := withQuota(t, 1)
	first, second, third := attached(newPod("first", "n1", 2), "blue"), attached(newPod("second", "n1", 3), "blue"), attached(newPod("third", "n1", 4), "blue")
	decidePod(t, a, first, node)
	wantBeyond(t, a, second, node)
	wantBeyond(t, a, third, node)
	decidePod(t, a, leaves(second, 9), node)
	if retry := drop(a, first); !slices.Contains(retry, owner(third)) || slices.Contains(retry, owner(second)) {
		t.Errorf("tried again: %v", retry)
	}
	decidePod(t, a, second, node)
	decidePod(t, a, third, node)
	wantEntry(t, second, "ns/blue", "")
	wantEntry(t, third, "ns/blue", "10.7.0.2/24")
}
