package ipam

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

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
