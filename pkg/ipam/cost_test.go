package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// wantLinear compares the allocations of twice as much with those of once: work that grows with the square makes four times
// as many.
func wantLinear(t *testing.T, what string, once, twice float64) {
	t.Helper()
	t.Logf("%s: %.0f allocations, twice as much %.0f", what, once, twice)
	if twice > 2.5*once {
		t.Errorf("%s: %.0f allocations, twice as much %.0f", what, once, twice)
	}
}

// TestPod_CostGrowsWithItsAttachments: a new pod, the same again, one that runs, and the start of a controller.
func TestPod_CostGrowsWithItsAttachments(t *testing.T) {
	costs := map[string][]float64{}
	for _, n := range []int{contract.MaxAttachments / 2, contract.MaxAttachments} {
		a, _ := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/16"))
		node := newNode("n1", 1)
		decideNode(t, a, node)
		asks := strings.TrimSuffix(strings.Repeat("blue,", n), ",")
		pod := attached(newPod("p", "n1", 2), asks)
		cost := func(what string, f func()) { costs[what] = append(costs[what], testing.AllocsPerRun(5, f)) }
		decide := func() {
			if _, err := a.Pod(pod, node); err != nil {
				t.Fatal(err)
			}
		}
		i := 0
		cost("new", func() {
			i++
			if _, err := a.Pod(attached(newPod(fmt.Sprint("new", i), "n1", 2), asks), node); err != nil {
				t.Fatal(err)
			}
		})
		decidePod(t, a, pod, node)
		if keys := contract.NetworkKeys(networkOf(t, pod)); len(keys) != n+1 {
			t.Fatalf("%d networks, want %d", len(keys), n+1)
		}
		cost("again", decide)
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.4"}}
		cost("runs", decide)
		cost("start", func() { a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod}, nil) })
	}
	for what, of := range costs {
		wantLinear(t, what, of[0], of[1])
	}
}

// routed are networks of topology layer3 with names of a length.
func routed(t testing.TB, n, length int) []contract.Network {
	t.Helper()
	var networks []contract.Network
	for i := range n {
		name := fmt.Sprintf("%0*d", length, i)
		networks = append(networks, tenant(t, "n"+name[1:], contract.Layer3, "11.0.0.0/8/24"))
	}
	return networks
}

// TestNode_CostGrowsWithTheNetworks of topology layer3: a new node, the same again, the reads of its subnets, and the start of
// a controller.
func TestNode_CostGrowsWithTheNetworks(t *testing.T) {
	costs := map[string][]float64{}
	for _, n := range []int{100, 200} {
		a, networks := withTenants(t, routed(t, n, 22)...)
		node := newNode("n0", 1)
		cost := func(what string, f func()) { costs[what] = append(costs[what], testing.AllocsPerRun(3, f)) }
		i := 0
		cost("new", func() {
			i++
			decideNode(t, a, newNode(fmt.Sprint("n", i), 1))
		})
		decideNode(t, a, node)
		if keys := contract.NetworkKeys(node.Annotations[contract.NodeSubnetsKey]); len(keys) != n+1 {
			t.Fatalf("%d networks, want %d", len(keys), n+1)
		}
		cost("again", func() { decideNode(t, a, node) })
		cost("reads", func() {
			for name := range networks {
				if a.Recorded(node.DeepCopy(), name) == nil {
					t.Fatalf("network %s has no subnet on the node", name)
				}
			}
		})
		cost("start", func() { a.Subnets.Rebuild([]*corev1.Node{node}, nil) })
	}
	for what, of := range costs {
		wantLinear(t, what, of[0], of[1])
	}
}

// TestNode_CostOfAFreePart: a part for a new node is found without a look at those of all others.
func TestNode_CostOfAFreePart(t *testing.T) {
	a, _ := withTenants(t, routed(t, 1, 22)...)
	for i := range 100 {
		decideNode(t, a, newNode(fmt.Sprint("n", i), i))
	}
	of := a.networks["n"+strings.Repeat("0", 21)]
	if first := of.next[of.cfg.Cluster[0].Prefix]; first != netip.MustParsePrefix("11.0.99.0/24") {
		t.Errorf("the search begins at %s", first)
	}
	a.Subnets.Release("n7")
	node := newNode("new", 101)
	decideNode(t, a, node)
	wantSubnets(t, node, of.key, "11.0.100.0/24")
	back := newNode("n7", 102)
	decideNode(t, a, back)
	wantSubnets(t, back, of.key, "11.0.7.0/24")
}

func wantSubnets(t *testing.T, node *corev1.Node, key, want string) {
	t.Helper()
	got, err := contract.ParseNodeSubnets(node.Annotations[contract.NodeSubnetsKey], key)
	if err != nil || len(got) != 1 || got[0].String() != want {
		t.Errorf("node %s has %v on %s, want %s (%v)", node.Name, got, key, want, err)
	}
}

// TestNode_AnnotationHasRoomForTheDefaultNetwork: more networks than fit leave a node its subnet of the default network and
// its id, which are written first. The others get what fits, in the same order on each node, and keep it. When networks go,
// others come in.
func TestNode_AnnotationHasRoomForTheDefaultNetwork(t *testing.T) {
	a, networks := withTenants(t, routed(t, 1200, 120)...)
	one, two := newNode("one", 1), newNode("two", 2)
	for _, node := range []*corev1.Node{one, two} {
		d := decideNode(t, a, node)
		if got := len(node.Annotations[contract.NodeSubnetsKey]); got > MaxNodeSubnets || got < MaxNodeSubnets/2 {
			t.Errorf("%d bytes, at most %d", got, MaxNodeSubnets)
		}
		if first := contract.NetworkKeys(d.First[contract.NodeSubnetsKey]); len(first) != 1 || first[0] != contract.DefaultNetwork || d.First[contract.NodeIDKey] == "" {
			t.Errorf("written first: %v", d.First)
		}
		for name, err := range d.Failed {
			wantError(t, err, ErrExhausted)
			if on := a.networks[name]; len(on.owners) > 0 {
				t.Fatalf("network %s has parts for %v", name, on.owners)
			}
		}
		if has := len(contract.NetworkKeys(node.Annotations[contract.NodeSubnetsKey])); has+len(d.Failed) != 1201 || has < 700 {
			t.Errorf("%d networks, %d without room", has, len(d.Failed))
		}
		if d := decideNode(t, a, node); len(d.Annotations) != 0 || d.First != nil {
			t.Error("written again")
		}
	}
	had := contract.NetworkKeys(one.Annotations[contract.NodeSubnetsKey])
	if !slices.Equal(had, contract.NetworkKeys(two.Annotations[contract.NodeSubnetsKey])) {
		t.Error("the nodes have other networks")
	}
	a.Subnets.Rebuild([]*corev1.Node{two, one}, nil)
	last := strings.Repeat("a", 120) // first by its name
	networks[last] = tenant(t, last, contract.Layer3, "11.0.0.0/8/24")
	if d := decideNode(t, a, one); d.Failed[last] == nil || len(d.Annotations) != 0 {
		t.Errorf("a new network takes the room of others: %v", d.Failed[last])
	}
	for _, name := range had[1:200] {
		delete(networks, name)
	}
	decideNode(t, a, one) // the room of those that are gone comes with the next look
	if d := decideNode(t, a, one); d.Failed[last] != nil {
		t.Errorf("there is room now: %v", d.Failed[last])
	}
	wantSubnets(t, one, last, "11.0.0.0/24")
}

// BenchmarkRebuild_Layer3Networks is the start of a controller with 1,000 networks of topology layer3 and 2,000 nodes.
func BenchmarkRebuild_Layer3Networks(b *testing.B) {
	const nodes, networks = 2000, 1000
	further := tenants{}
	for _, network := range routed(b, networks, 22) {
		further[network.Name] = network
	}
	cfg := plan(b, "12.0.0.0/8/24")
	cfg.Further = further
	a := newAllocator(b, cfg)
	all := make([]*corev1.Node, nodes)
	for i := range all {
		all[i] = newNode(fmt.Sprint("node-", i), i)
		decideNode(b, a, all[i])
	}
	b.Run("rebuild", func(b *testing.B) {
		for b.Loop() {
			a.Subnets.Rebuild(all, nil)
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			for _, node := range all {
				if d := decideNode(b, a, node); len(d.Annotations) > 0 {
					b.Fatal("written again")
				}
			}
		}
	})
}
