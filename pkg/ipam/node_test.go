package ipam

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func subnets(value string) string { return `{"default":["` + value + `"]}` }

func TestNode_GetsSubnetAndID(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24,fd00:10:244::/48/64"))
	for i, want := range []map[string]string{
		{contract.NodeSubnetsKey: `{"default":["10.244.0.0/24","fd00:10:244::/64"]}`, contract.NodeIDKey: "2"},
		{contract.NodeSubnetsKey: `{"default":["10.244.1.0/24","fd00:10:244:1::/64"]}`, contract.NodeIDKey: "3"},
	} {
		node := newNode(fmt.Sprint("n", i), i)
		if diff := cmp.Diff(Decision{Annotations: want}, decideNode(t, a, node)); diff != "" {
			t.Errorf("node %d (-want +got):\n%s", i, diff)
		}
		if d := decideNode(t, a, node); len(d.Annotations) != 0 {
			t.Errorf("node %d, once more: %v", i, d.Annotations)
		}
	}
	check(t, a)
}

func TestNode_ValidAnnotationsAreKept(t *testing.T) {
	for _, tc := range []struct {
		name        string
		annotations []string
		want        map[string]string
		warning     string
	}{
		{"kept", []string{contract.NodeSubnetsKey, subnets("10.244.7.0/24"), contract.NodeIDKey, "9"}, map[string]string{}, ""},
		{"legacy form", []string{contract.NodeSubnetsKey, `{"default":"10.244.7.0/24"}`, contract.NodeIDKey, "9"},
			map[string]string{contract.NodeSubnetsKey: subnets("10.244.7.0/24")}, "not what was allocated"},
		{"held by another", []string{contract.NodeSubnetsKey, subnets("10.244.0.0/24"), contract.NodeIDKey, "9"},
			map[string]string{contract.NodeSubnetsKey: subnets("10.244.1.0/24")}, "belongs to node first"},
		{"id held by another", []string{contract.NodeSubnetsKey, subnets("10.244.7.0/24"), contract.NodeIDKey, "2"},
			map[string]string{contract.NodeIDKey: "3"}, "node id 2 belongs to node first"},
		{"id of the cluster router", []string{contract.NodeIDKey, "1"},
			map[string]string{contract.NodeSubnetsKey: subnets("10.244.1.0/24"), contract.NodeIDKey: "3"}, `"1" is not a number from 2`},
		{"id beyond the join subnet", []string{contract.NodeIDKey, "65534"},
			map[string]string{contract.NodeSubnetsKey: subnets("10.244.1.0/24"), contract.NodeIDKey: "3"}, "from 2 to 65533"},
		{"id in another spelling", []string{contract.NodeIDKey, "+4"},
			map[string]string{contract.NodeSubnetsKey: subnets("10.244.1.0/24"), contract.NodeIDKey: "3"}, "is not a number"},
		{"not in the plan", []string{contract.NodeSubnetsKey, subnets("10.1.0.0/24")},
			map[string]string{contract.NodeSubnetsKey: subnets("10.244.1.0/24"), contract.NodeIDKey: "3"}, "not part of the address plan"},
		{"too large", []string{contract.NodeSubnetsKey, subnets("10.244.0.0/16")},
			map[string]string{contract.NodeSubnetsKey: subnets("10.244.1.0/24"), contract.NodeIDKey: "3"}, "not part of the address plan"},
		{"two", []string{contract.NodeSubnetsKey, `{"default":["10.244.7.0/24","10.244.8.0/24"]}`, contract.NodeIDKey, "9"},
			map[string]string{contract.NodeSubnetsKey: subnets("10.244.7.0/24")}, "second of its family"},
		{"not JSON", []string{contract.NodeSubnetsKey, "10.244.7.0/24", contract.NodeIDKey, "9"},
			map[string]string{contract.NodeSubnetsKey: subnets("10.244.1.0/24")}, "annotation " + contract.NodeSubnetsKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
			first, second := newNode("first", 1), newNode("second", 2, tc.annotations...)
			decideNode(t, a, first)
			d := decideNode(t, a, second)
			if diff := cmp.Diff(tc.want, d.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			wantWarning(t, d, tc.warning)
			check(t, a)
			if d := decideNode(t, a, second); len(d.Annotations) != 0 || d.Warning != "" {
				t.Errorf("once more: %+v", d)
			}
		})
	}
}

func TestNode_ChangedAnnotationIsRestored(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node := newNode("n", 1)
	decideNode(t, a, node)
	node.Annotations[contract.NodeSubnetsKey] = subnets("10.244.9.0/24")
	if _, err := a.Pod(newPod("p", "n", 1), node); !isWaiting(err) {
		t.Errorf("a pod gets an address although the node's annotation is wrong: %v", err)
	}
	wantWarning(t, decideNode(t, a, node), "said "+subnets("10.244.9.0/24"))
	if got := node.Annotations[contract.NodeSubnetsKey]; got != subnets("10.244.0.0/24") {
		t.Errorf("subnet is now %s", got)
	}
}

// TestNode_WaitsForReleasedSubnet: two subnets of different size for one family are used in
// order; a node that waits gets what another gives back.
func TestNode_WaitsForReleasedSubnet(t *testing.T) {
	a := newAllocator(t, plan(t, "10.0.0.0/28/29,10.1.0.0/24/24"))
	var nodes []*corev1.Node
	for i, want := range []string{"10.0.0.0/29", "10.0.0.8/29", "10.1.0.0/24"} {
		nodes = append(nodes, newNode(fmt.Sprint("n", i), i))
		decideNode(t, a, nodes[i])
		if got := nodes[i].Annotations[contract.NodeSubnetsKey]; got != subnets(want) {
			t.Errorf("node %d: %s, want %s", i, got, want)
		}
	}
	late := newNode("late", 9)
	_, err := a.Node(late)
	wantError(t, err, ErrExhausted)
	retry := a.Subnets.Release("n1")
	if !slices.Equal(retry, []contract.Owner{contract.NodeOwner("late")}) {
		t.Errorf("to retry: %v", retry)
	}
	decideNode(t, a, late)
	if got := late.Annotations; got[contract.NodeSubnetsKey] != subnets("10.0.0.8/29") || got[contract.NodeIDKey] != "3" {
		t.Errorf("late node: %v", got)
	}
	check(t, a)
}

// TestNode_IDsEndWithJoinSubnet: a join subnet of eight addresses numbers four nodes.
func TestNode_IDsEndWithJoinSubnet(t *testing.T) {
	cfg := plan(t, "10.244.0.0/16/24")
	cfg.Join = prefixes(t, "100.64.0.0/29")
	a := newAllocator(t, cfg)
	for i := range 4 {
		decideNode(t, a, newNode(fmt.Sprint("n", i), i))
	}
	_, err := a.Node(newNode("late", 9))
	wantError(t, err, ErrExhausted)
}

// TestNode_SubnetWithLiveAddressesIsReusedLast: a subnet with live addresses is the last to go to
// another node, and its own node gets it back.
func TestNode_SubnetWithLiveAddressesIsReusedLast(t *testing.T) {
	for _, returns := range []bool{true, false} {
		a := newAllocator(t, plan(t, "10.0.0.0/27/29"))
		n, pod := newNode("n", 1), newPod("p", "n", 1)
		decideNode(t, a, newNode("zero", 0))
		decideNode(t, a, n)
		decidePod(t, a, pod, n)
		a.Subnets.Release("n")
		for i, want := range []string{"10.0.0.16/29", "10.0.0.24/29"} {
			other := newNode(fmt.Sprint("other", i), i)
			decideNode(t, a, other)
			if got := other.Annotations[contract.NodeSubnetsKey]; got != subnets(want) {
				t.Errorf("other node %d has %s, want %s", i, got, want)
			}
		}
		name := map[bool]string{true: "n", false: "last"}[returns]
		again := newNode(name, 3)
		decideNode(t, a, again)
		if got := again.Annotations[contract.NodeSubnetsKey]; got != subnets("10.0.0.8/29") {
			t.Errorf("node %s has %s", name, got)
		}
		late := newPod("late", name, 4)
		decidePod(t, a, late, again)
		wantAddress(t, a, late, "10.0.0.13/29")
		wantAddress(t, a, pod, "10.0.0.12/29")
		_, err := a.Node(newNode("more", 9))
		wantError(t, err, ErrExhausted)
		check(t, a)
	}
}

// TestRebuild_OlderNodeKeepsDisputedSubnet: the older of two nodes that claim the same keeps it.
func TestRebuild_OlderNodeKeepsDisputedSubnet(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	young := newNode("a-young", 2, contract.NodeSubnetsKey, subnets("10.244.4.0/24"), contract.NodeIDKey, "4")
	old := newNode("b-old", 1, contract.NodeSubnetsKey, subnets("10.244.4.0/24"), contract.NodeIDKey, "4")
	a.rebuild([]*corev1.Node{young, old}, nil, nil)
	if d := decideNode(t, a, old); len(d.Annotations) != 0 {
		t.Errorf("old node: %+v", d)
	}
	decideNode(t, a, young)
	if got := young.Annotations; got[contract.NodeSubnetsKey] != subnets("10.244.0.0/24") || got[contract.NodeIDKey] != "2" {
		t.Errorf("young node: %v", got)
	}
	check(t, a)
}

// TestNode_SecondFamilyKeepsIPv4Subnet: a cluster that becomes dual-stack keeps its IPv4 subnets.
func TestNode_SecondFamilyKeepsIPv4Subnet(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24,fd00:10:244::/48/64"))
	node := newNode("n", 1, contract.NodeSubnetsKey, subnets("10.244.4.0/24"), contract.NodeIDKey, "4")
	decideNode(t, a, node)
	if got := node.Annotations[contract.NodeSubnetsKey]; got != `{"default":["10.244.4.0/24","fd00:10:244::/64"]}` {
		t.Errorf("subnets: %s", got)
	}
}

func TestNode_AddressInServiceSubnetIsRefused(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node := newNode("n", 1)
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n"}, {Type: corev1.NodeInternalIP, Address: "10.96.0.7"},
	}
	if _, err := a.Node(node); err == nil || err.Error() != "node address 10.96.0.7 lies in the service subnet 10.96.0.0/16" {
		t.Errorf("error %v", err)
	}
	node.Status.Addresses[1].Address = "172.18.0.3"
	decideNode(t, a, node)
}
