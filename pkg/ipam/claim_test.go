package ipam

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// machines are pods on network blue that refer to the claim of their annotation.
type machines struct {
	tenants
	claims map[string]*Claim
}

func (m machines) Requests(pod *corev1.Pod) []Request {
	requests := m.tenants.Requests(pod)
	for i := range requests {
		requests[i].IPAMClaim = m.claims[requests[i].Claim]
	}
	return requests
}

func (m machines) Claims() (all []Claim) {
	for _, claim := range m.claims {
		all = append(all, *claim)
	}
	return all
}

// TestClaim_KeepsAddresses: a claim gives the pods of a machine one address after the other or at once, over restarts of
// the controller, until it is deleted and no pod is left.
func TestClaim_KeepsAddresses(t *testing.T) {
	owner := contract.Owner{Kind: contract.KindIPAMClaim, Namespace: "ns", Name: "vm"}
	m := machines{tenants{"blue": tenant(t, "blue", contract.Layer2, "10.1.0.0/24")}, map[string]*Claim{"vm": {Owner: owner, UID: "claim", Network: "blue"}}}
	cfg := plan(t, "10.0.0.0/16/24")
	cfg.Further = m
	a := newAllocator(t, cfg)
	node := newNode("n1", 1)
	decideNode(t, a, node)
	const asks = `[{"name":"blue","ipam-claim-reference":"vm"}]`
	first := attached(newPod("vm-1", "n1", 2), asks)
	d := decidePod(t, a, first, node)
	want := map[contract.Owner][]netip.Prefix{owner: {netip.MustParsePrefix("10.1.0.1/24")}}
	if diff := cmp.Diff(want, d.Claims, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("the claim's status (-want +got):\n%s", diff)
	}
	m.claims["vm"].Addresses = []netip.Addr{netip.MustParseAddr("10.1.0.1")}
	if d := decidePod(t, a, first, node); d.Annotations != nil || d.Claims != nil {
		t.Errorf("decided again: %+v", d)
	}
	wantEntry(t, first, "ns/blue", "10.1.0.1/24")
	release := func(pod *corev1.Pod) {
		o := contract.PodOwner(pod.Namespace, pod.Name).On("ns/blue")
		a.Addresses.Release(o, a.Holders(o)...)
	}
	release(first)
	other := attached(newPod("other", "n1", 3), "blue")
	decidePod(t, a, other, node)
	wantEntry(t, other, "ns/blue", "10.1.0.2/24")
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{other}, nil)
	second, target := attached(newPod("vm-2", "n1", 4), asks), attached(newPod("vm-3", "n1", 5), asks)
	decidePod(t, a, second, node)
	decidePod(t, a, target, node) // a move to another node
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{other, second, target}, []Held{
		{Owner: contract.PodOwner("ns", "vm-2").On("ns/blue"), Network: "blue", UID: second.UID, Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.1")}},
	})
	for _, pod := range []*corev1.Pod{second, target} {
		if d := decidePod(t, a, pod, node); d.Annotations != nil || d.Warning != "" || d.Claims != nil {
			t.Errorf("after a restart: %+v", d)
		}
		wantEntry(t, pod, "ns/blue", "10.1.0.1/24")
		if a.Allocated(pod, "ns/blue") == nil {
			t.Errorf("pod %s has no address after a restart", pod.Name)
		}
	}
	delete(m.claims, "vm")
	a.Addresses.Release(owner, a.Holders(owner)...)
	release(second)
	thief := attached(newPod("thief", "n1", 6), `[{"name":"blue","ips":["10.1.0.1"]}]`)
	if _, err := a.Pod(thief, node); err == nil {
		t.Error("another pod gets the address while a pod of the claim has it")
	}
	release(target)
	decidePod(t, a, thief, node)
	wantEntry(t, thief, "ns/blue", "10.1.0.1/24")
}
