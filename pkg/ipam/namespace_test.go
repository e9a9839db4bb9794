package ipam

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// owned has a subnet for the pods of a namespace.
type owned struct {
	tenants
	subnet   contract.NamespaceSubnet
	selected bool
}

func (o *owned) NamespaceSubnets() []contract.NamespaceSubnet {
	return []contract.NamespaceSubnet{{Name: "other", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.8.0.0/24")}}, o.subnet}
}

func (o *owned) SubnetOf(*corev1.Pod) *contract.NamespaceSubnet {
	if !o.selected {
		return nil
	}
	return &o.subnet
}

func withSubnet(t testing.TB, subnets string) (allocator, *owned, []*corev1.Node) {
	t.Helper()
	all := &owned{tenants{}, contract.NamespaceSubnet{Name: "own", Prefixes: prefixes(t, subnets)}, true}
	cluster := "10.0.0.0/16/24"
	if strings.Contains(subnets, ":") {
		cluster += ",fd00::/48/64"
	}
	cfg := plan(t, cluster)
	cfg.Further = all
	a, nodes := newAllocator(t, cfg), []*corev1.Node{newNode("n1", 1), newNode("n2", 1)}
	for _, node := range nodes {
		decideNode(t, a, node)
	}
	return a, all, nodes
}

// TestNamespaceSubnet_IsOfAllNodes: a pod has one address of each family, without neighbors, and the gateways of its node. Pods of
// other namespaces have none of the subnet, and those that run keep theirs when the namespace is not selected any more.
func TestNamespaceSubnet_IsOfAllNodes(t *testing.T) {
	a, all, nodes := withSubnet(t, "10.9.0.0/28,fd09::/120")
	one, two := newPod("one", "n1", 2), newPod("two", "n2", 3)
	decidePod(t, a, one, nodes[0])
	decidePod(t, a, two, nodes[1])
	want := `{"default":{"ip_addresses":["10.9.0.5/32","fd09::5/128"],"mac_address":"0a:58:0a:09:00:05","gateway_ips":["10.0.1.1","fd00:0:0:1::1"],` +
		`"routes":[{"dest":"10.0.0.0/16","nextHop":"10.0.1.1"},`
	if got := networkOf(t, two); !strings.HasPrefix(got, want) {
		t.Errorf("annotation %s\nwant it to begin %s", got, want)
	}
	wantAddress(t, a, one, "10.9.0.4/32")
	all.selected = false
	other := newPod("other", "n1", 4)
	decidePod(t, a, other, nodes[0])
	wantAddress(t, a, other, "10.0.0.4/24")
	rows := []Held{{Owner: owner(one), UID: one.UID, Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.4"), netip.MustParseAddr("fd09::4")}}}
	two.Status.PodIPs = []corev1.PodIP{{IP: "10.9.0.5"}}
	a.rebuild(nodes, []*corev1.Pod{one, two, other}, rows)
	for i, pod := range []*corev1.Pod{one, two} {
		if d := decidePod(t, a, pod, nodes[i]); d.Annotations != nil || d.Warning != "" {
			t.Errorf("pod %s after a restart: %+v", pod.Name, d)
		}
	}
	forged := newPod("forged", "n1", 5)
	forged.Annotations[contract.PodNetworksKey] = strings.ReplaceAll(strings.ReplaceAll(networkOf(t, one), "10.9.0.4", "10.9.0.6"), "09:00:04", "09:00:06")
	wantWarning(t, decidePod(t, a, forged, nodes[0]), "the namespace has no such subnet")
	wantAddress(t, a, forged, "10.0.0.5/24")
	check(t, a)
}

// TestNamespaceSubnet_IsFullAndIsFreed: a pod without an address waits, also if its node has some left, until one is free. The
// last one to go is known to the owner of the subnet.
func TestNamespaceSubnet_IsFullAndIsFreed(t *testing.T) {
	a, all, nodes := withSubnet(t, "10.9.0.0/29")
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c"} {
		pods = append(pods, newPod(name, "n1", len(pods)+2))
		decidePod(t, a, pods[len(pods)-1], nodes[0])
	}
	late := newPod("late", "n2", 9)
	_, err := a.Pod(late, nodes[1])
	wantError(t, err, ErrExhausted)
	if !strings.Contains(err.Error(), "NamespaceSubnet own [10.9.0.0/29]") {
		t.Error(err)
	}
	release := func(pod *corev1.Pod) []contract.Owner {
		return a.Addresses.Release(owner(pod), a.Holders(owner(pod))...)
	}
	if retry := release(pods[1]); !slices.Equal(retry, []contract.Owner{owner(late)}) {
		t.Errorf("an address is free, decided again are %v", retry)
	}
	decidePod(t, a, late, nodes[1])
	wantAddress(t, a, late, "10.9.0.5/32")
	for _, pod := range []*corev1.Pod{pods[0], pods[2]} {
		if retry := release(pod); len(retry) != 0 || !InUse(a.Addresses, all.subnet.Name) {
			t.Errorf("the subnet is in use, decided again are %v", retry)
		}
	}
	if retry := release(late); !slices.Equal(retry, []contract.Owner{contract.NamespaceSubnetOwner("own")}) || InUse(a.Addresses, "own") {
		t.Errorf("the last pod is gone, decided again are %v", retry)
	}
	check(t, a)
}

// TestNamespaceSubnet_OfPodsOnOtherNetworks: a pod that asks for other networks, whose gateways may lead to all addresses, has
// routes to the subnets by its node's router, with an address of a subnet and without one. Another pod needs none.
func TestNamespaceSubnet_OfPodsOnOtherNetworks(t *testing.T) {
	a, all, nodes := withSubnet(t, "10.9.0.0/28,fd09::/120")
	flat := tenant(t, "flat", contract.Layer2, "10.2.0.0/24")
	flat.Exits = prefixes(t, "0.0.0.0/1,128.0.0.0/1")
	all.tenants["flat"] = flat
	toSubnets := func(pod *corev1.Pod) string {
		var routes []string
		for _, route := range entry(t, pod, "default").Routes {
			if addr := route.Dest.String(); strings.HasPrefix(addr, "10.8.") || strings.HasPrefix(addr, "10.9.") || strings.HasPrefix(addr, "fd09:") {
				routes = append(routes, addr+" "+route.NextHop.String())
			}
		}
		return strings.Join(routes, ", ")
	}
	inside, outside, plain := attached(newPod("inside", "n1", 1), "flat"), attached(newPod("outside", "n1", 2), "flat"), newPod("plain", "n1", 3)
	decidePod(t, a, inside, nodes[0])
	all.selected = false
	decidePod(t, a, outside, nodes[0])
	decidePod(t, a, plain, nodes[0])
	for pod, want := range map[*corev1.Pod]string{
		inside: "10.8.0.0/24 10.0.0.1, 10.9.0.0/28 10.0.0.1, fd09::/120 fd00::1", outside: "10.8.0.0/24 10.0.0.1, 10.9.0.0/28 10.0.0.1, fd09::/120 fd00::1", plain: "",
	} {
		if got := toSubnets(pod); got != want {
			t.Errorf("routes of %s: %s, want %s", pod.Name, got, want)
		}
	}
	if got := entry(t, plain, "default").Routes; len(got) == 0 {
		t.Error("a pod without routes")
	}
}

// ended has a subnet that ends between the look at the pod and the decision.
type ended struct{ *owned }

func (e ended) SubnetOf(pod *corev1.Pod) *contract.NamespaceSubnet {
	was := e.owned.SubnetOf(pod)
	e.selected = false
	return was
}

// TestNamespaceSubnet_EndsMeanwhile: a pod has an address of a subnet that was there when the address was given.
func TestNamespaceSubnet_EndsMeanwhile(t *testing.T) {
	a, all, nodes := withSubnet(t, "10.9.0.0/28")
	pod := newPod("p", "n1", 2)
	a.Addresses.cfg.Further = ended{all}
	decidePod(t, a, pod, nodes[0])
	wantAddress(t, a, pod, "10.0.0.4/24")
	if InUse(a.Addresses, "own") {
		t.Error("the subnet has a pod")
	}
	a.Addresses.cfg.Further, all.selected = all, true
	decidePod(t, a, newPod("q", "n1", 3), nodes[0])
	if !InUse(a.Addresses, "own") {
		t.Error("a subnet that stays has none")
	}
}
