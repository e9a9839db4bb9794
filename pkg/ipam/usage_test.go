package ipam

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func TestUsage_CountsUsedAndFree(t *testing.T) {
	a := newAllocator(t, plan(t, "10.0.0.0/26/28,fd00:1::/48/64"))
	n1, n2 := newNode("n1", 1), newNode("n2", 2)
	decideNode(t, a, n1)
	decideNode(t, a, n2)
	pod := newPod("p", "n1", 3)
	decidePod(t, a, pod, n1)
	want := []Usage{{Family: contract.IPv4, Used: 2, Free: 2}, {Family: contract.IPv6, Used: 2, Free: 65534}}
	if diff := gocmp.Diff(want, a.Subnets.Usage()); diff != "" {
		t.Errorf("subnets (-want +got):\n%s", diff)
	}
	usage := func() []Usage {
		all := a.Addresses.Usage()
		slices.SortFunc(all, func(x, y Usage) int { return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Family, y.Family)) })
		return all
	}
	large := float64(1<<32 - contract.FirstPodOffset)
	want = []Usage{
		{"n1", contract.IPv4, 1, 10}, {"n1", contract.IPv6, 1, large - 1}, {"n2", contract.IPv4, 0, 11}, {"n2", contract.IPv6, 0, large},
	}
	if diff := gocmp.Diff(want, usage()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	a.Addresses.Release(contract.PodOwner("ns", "p"), pod.UID)
	a.Subnets.Release("n2")
	if got := usage(); len(got) != 2 || got[0].Used != 0 {
		t.Errorf("after the pod and the second node have gone: %+v", got)
	}
	if got := a.Subnets.Usage()[0]; got.Used != 1 || got.Free != 3 {
		t.Errorf("after the second node has gone: %+v", got)
	}
}

// TestNetworkUsage_CountsWhatPodsMayHave: without excluded parts, which may overlap; of a network with a part for each node, the
// fullest part.
func TestNetworkUsage_CountsWhatPodsMayHave(t *testing.T) {
	flat := tenant(t, "flat", contract.Layer2, "10.3.0.0/28")
	flat.Excluded = append(flat.Excluded, prefixes(t, "10.3.0.8/30,10.3.0.8/29,10.3.0.1/32,10.4.0.0/16")...)
	a, _ := withTenants(t, flat, tenant(t, "routed", contract.Layer3, "10.1.0.0/16/28"))
	n1, n2 := newNode("n1", 1), newNode("n2", 1)
	decideNode(t, a, n1)
	decideNode(t, a, n2)
	for i, node := range []*corev1.Node{n1, n1, n2} {
		decidePod(t, a, attached(newPod(fmt.Sprint("p", i), node.Name, i), "flat,routed"), node)
	}
	got := NetworksUsage(a.Addresses)
	slices.SortFunc(got, func(x, y NetworkUsage) int { return cmp.Compare(x.Name, y.Name) })
	want := []NetworkUsage{{contract.KindNetwork, "flat", contract.IPv4, 3, 3}, {contract.KindNetwork, "routed", contract.IPv4, 2, 9}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
}

// TestNetworkUsage_OfNamespaceSubnets: also of those that have no pods.
func TestNetworkUsage_OfNamespaceSubnets(t *testing.T) {
	a, _, nodes := withSubnet(t, "10.9.0.0/28,fd09::/120")
	decidePod(t, a, newPod("p", "n1", 1), nodes[0])
	want := []NetworkUsage{
		{contract.KindNamespaceSubnet, "other", contract.IPv4, 0, 251},
		{contract.KindNamespaceSubnet, "own", contract.IPv4, 1, 10}, {contract.KindNamespaceSubnet, "own", contract.IPv6, 1, 251},
	}
	if diff := gocmp.Diff(want, NetworksUsage(a.Addresses)); diff != "" {
		t.Errorf("NamespaceSubnets (-want +got):\n%s", diff)
	}
}
