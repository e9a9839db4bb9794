package ipam

import (
	"errors"
	"net/netip"
	"slices"
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

func (m machines) Claims(network string) (all []Claim) {
	for _, claim := range m.claims {
		if claim.Network == network {
			all = append(all, *claim)
		}
	}
	return all
}

// persistent keeps addresses of claims.
func persistent(network contract.Network) contract.Network {
	network.Persistent = true
	return network
}

// TestClaim_KeepsAddresses: a claim gives the pods of a machine one address after the other or at once, over restarts of
// the controller, until it is deleted and no pod is left.
func TestClaim_KeepsAddresses(t *testing.T) {
	owner := contract.Owner{Kind: contract.KindIPAMClaim, Namespace: "ns", Name: "vm"}
	m := machines{tenants{"blue": persistent(tenant(t, "blue", contract.Layer2, "10.1.0.0/24"))}, map[string]*Claim{"vm": {Owner: owner, UID: "claim", Network: "blue"}}}
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
	FollowClaim(a.Addresses, owner, nil)
	release(second)
	thief := attached(newPod("thief", "n1", 6), `[{"name":"blue","ips":["10.1.0.1"]}]`)
	if _, err := a.Pod(thief, node); err == nil {
		t.Error("another pod gets the address while a pod of the claim has it")
	}
	release(target)
	decidePod(t, a, thief, node)
	wantEntry(t, thief, "ns/blue", "10.1.0.1/24")
}

// claimed are networks by name, with one claim for red that its status has no addresses of.
func claimed(t *testing.T, networks ...contract.Network) (allocator, machines, *Claim, *corev1.Node) {
	t.Helper()
	claim := &Claim{Owner: contract.Owner{Kind: contract.KindIPAMClaim, Namespace: "ns", Name: "c"}, UID: "claim", Network: "red"}
	m := machines{tenants{}, map[string]*Claim{"c": claim}}
	for _, network := range networks {
		m.tenants[network.Name] = network
	}
	cfg := plan(t, "10.0.0.0/16/24")
	cfg.Further = m
	a := newAllocator(t, cfg)
	node := newNode("n1", 1)
	decideNode(t, a, node)
	return a, m, claim, node
}

func says(claim *Claim, addrs ...string) {
	claim.Addresses = nil
	for _, text := range addrs {
		claim.Addresses = append(claim.Addresses, netip.MustParseAddr(text))
	}
}

// TestClaim_AddressesAreOfOneNetwork: a claim that says another network than before takes nothing there. With addresses in
// its status it waits for these, without them it gets others, and on the former network they come free with its pods.
func TestClaim_AddressesAreOfOneNetwork(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		a, _, claim, node := claimed(t, persistent(tenant(t, "red", contract.Layer2, "10.9.0.0/24")), persistent(tenant(t, "blue", contract.Layer2, "10.9.0.0/24")))
		first := attached(newPod("first", "n1", 2), `[{"name":"red","ipam-claim-reference":"c"}]`)
		victim := attached(newPod("victim", "n1", 3), "blue")
		second := attached(newPod("second", "n1", 4), `[{"name":"blue","ipam-claim-reference":"c"}]`)
		decidePod(t, a, first, node)
		decidePod(t, a, victim, node)
		wantEntry(t, first, "ns/red", "10.9.0.1/24")
		wantEntry(t, victim, "ns/blue", "10.9.0.1/24")
		if claim.Network = "blue"; recorded {
			says(claim, "10.9.0.1")
		}
		d, err := a.Pod(second, node)
		if recorded != errors.Is(err, ErrAddressTaken) || recorded != errors.Is(d.Refused[claim.Owner], ErrAddressTaken) {
			t.Errorf("recorded %t: %+v, %v", recorded, d, err)
		}
		retry := FollowClaim(a.Addresses, claim.Owner, claim)
		if recorded {
			claim.Refused = true
			retry = append(retry, a.Addresses.Release(owner(victim).On("ns/blue"), victim.UID)...)
			if !slices.Contains(retry, owner(second).On("ns/blue")) {
				t.Errorf("the pod of the claim is not tried again: %v", retry)
			}
		}
		d = decidePod(t, a, second, node)
		if want := map[bool]string{true: "10.9.0.1/24", false: "10.9.0.2/24"}[recorded]; len(d.Claims[claim.Owner]) != 1 || d.Claims[claim.Owner][0].String() != want {
			t.Errorf("recorded %t: the claim's status is to say %v, want %s", recorded, d.Claims, want)
		}
		thief := attached(newPod("thief", "n1", 5), `[{"name":"red","ips":["10.9.0.1"]}]`)
		if _, err := a.Pod(thief, node); !errors.Is(err, ErrAddressTaken) {
			t.Errorf("another pod gets the address while the first pod of the claim has it: %v", err)
		}
		a.Addresses.Release(owner(first).On("ns/red"), first.UID)
		decidePod(t, a, thief, node)
	}
}

// TestClaim_RecordedAddressesOrNone: what the status of a claim says is held when its network comes after the start of the
// controller, and when the status comes later than the claim. Another pod does not get it, and the pod of the claim
// nothing else: it waits for a pod that has it.
func TestClaim_RecordedAddressesOrNone(t *testing.T) {
	red := persistent(tenant(t, "red", contract.Layer2, "10.9.0.0/24"))
	const asks, wants = `[{"name":"red","ipam-claim-reference":"c"}]`, `[{"name":"red","ips":["10.9.0.77"]}]`
	for name, comes := range map[string]func(a allocator, m machines, claim *Claim, node *corev1.Node){
		"network": func(a allocator, m machines, claim *Claim, node *corev1.Node) {
			says(claim, "10.9.0.77")
			a.rebuild([]*corev1.Node{node}, nil, nil)
			m.tenants["red"] = red
		},
		"status": func(a allocator, m machines, claim *Claim, node *corev1.Node) {
			m.tenants["red"] = red
			decidePod(t, a, attached(newPod("before", "n1", 2), "red"), node)
			says(claim, "10.9.0.77")
			FollowClaim(a.Addresses, claim.Owner, claim)
		},
	} {
		a, m, claim, node := claimed(t)
		comes(a, m, claim, node)
		if _, err := a.Pod(attached(newPod("thief", "n1", 3), wants), node); !errors.Is(err, ErrAddressTaken) {
			t.Errorf("%s: another pod has the address of the claim: %v", name, err)
		}
		vm := attached(newPod("vm", "n1", 4), asks)
		if d := decidePod(t, a, vm, node); d.Claims != nil {
			t.Errorf("%s: the claim is written: %v", name, d.Claims)
		}
		wantEntry(t, vm, "ns/red", "10.9.0.77/24")
	}
	a, _, claim, node := claimed(t, red)
	holder, vm := attached(newPod("holder", "n1", 2), wants), attached(newPod("vm", "n1", 3), asks)
	decidePod(t, a, holder, node)
	says(claim, "10.9.0.77")
	if d, err := a.Pod(vm, node); !errors.Is(err, ErrAddressTaken) || d.Claims != nil || contract.HasKey(d.Annotations[contract.PodNetworksKey], "ns/red") {
		t.Errorf("the address is another pod's: %+v, %v", d, err)
	}
	if retry := a.Addresses.Release(owner(holder).On("ns/red"), holder.UID); !slices.Contains(retry, owner(vm).On("ns/red")) {
		t.Errorf("the pod of the claim is not tried again: %v", retry)
	}
	decidePod(t, a, vm, node)
	wantEntry(t, vm, "ns/red", "10.9.0.77/24")
}

// TestClaim_HoldsOnlyWhatPodsMayHave: a status with the address of a router, an excluded one or one outside holds nothing,
// and its pod waits. So it is on a network that keeps no addresses.
func TestClaim_HoldsOnlyWhatPodsMayHave(t *testing.T) {
	red := persistent(gatewayed(tenant(t, "red", contract.Layer2, "10.9.0.0/24"), "10.9.0.1/24"))
	red.Excluded = append(red.Excluded, prefixes(t, "10.9.0.128/25")...)
	for addr, holds := range map[string]bool{"10.9.0.1": false, "10.9.0.200": false, "10.8.0.7": false, "10.9.0.255": false, "10.9.0.7": true} {
		a, m, claim, node := claimed(t, red)
		says(claim, addr)
		a.rebuild([]*corev1.Node{node}, nil, nil)
		if got := a.pools["red"].held > 0; got != holds {
			t.Errorf("%s is held: %t", addr, got)
		}
		_, err := a.Pod(attached(newPod("vm", "n1", 3), `[{"name":"red","ipam-claim-reference":"c"}]`), node)
		if holds != (err == nil) || !holds && !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", addr, err)
		}
		m.tenants["red"] = tenant(t, "red", contract.Layer2, "10.9.0.0/24")
		a.rebuild([]*corev1.Node{node}, nil, nil)
		if a.pools["red"] != nil {
			t.Errorf("%s is held on a network that keeps no addresses", addr)
		}
	}
}

// TestClaim_PodHasTheMACThatItAsksFor: also after a restart, when the claim says the address alone. Another pod that has the
// MAC of the claim's address does not take the address.
func TestClaim_PodHasTheMACThatItAsksFor(t *testing.T) {
	a, _, claim, node := claimed(t, persistent(tenant(t, "red", contract.Layer2, "10.9.0.0/24")))
	const asks = `[{"name":"red","ipam-claim-reference":"c","mac":"02:00:00:00:00:09"}]`
	says(claim, "10.9.0.7")
	other := attached(newPod("other", "n1", 2), `[{"name":"red","mac":"0a:58:0a:09:00:07"}]`)
	a.rebuild([]*corev1.Node{node}, nil, nil)
	if _, err := a.Pod(other, node); !errors.Is(err, ErrMACTaken) {
		t.Errorf("the MAC of the claim's address: %v", err)
	}
	vm := attached(newPod("vm", "n1", 3), asks)
	decidePod(t, a, vm, node)
	if got := entry(t, vm, "ns/red"); got.MAC.String() != "02:00:00:00:00:09" || got.Addresses[0].String() != "10.9.0.7/24" {
		t.Errorf("the pod has %+v", got)
	}
	decidePod(t, a, other, node)
	had := networkOf(t, vm)
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{other, vm}, nil)
	for _, pod := range []*corev1.Pod{vm, other} {
		if d := decidePod(t, a, pod, node); d.Annotations != nil || d.Warning != "" {
			t.Errorf("pod %s after a restart: %+v", pod.Name, d)
		}
	}
	if networkOf(t, vm) != had {
		t.Errorf("%s, want %s", networkOf(t, vm), had)
	}
	if _, err := a.Pod(attached(newPod("thief", "n1", 4), `[{"name":"red","mac":"02:00:00:00:00:09"}]`), node); !errors.Is(err, ErrMACTaken) {
		t.Errorf("another pod has the MAC: %v", err)
	}
}
