package ipam

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// TestPod_AnnotationHasExactFormat holds the contract's exact text.
func TestPod_AnnotationHasExactFormat(t *testing.T) {
	for cluster, want := range map[string]string{
		"10.244.1.0/24": `{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["10.244.1.1"],` +
			`"routes":[{"dest":"10.244.0.0/16","nextHop":"10.244.1.1"},{"dest":"10.96.0.0/16","nextHop":"10.244.1.1"},` +
			`{"dest":"169.254.0.5/32","nextHop":"10.244.1.1"},{"dest":"100.64.0.0/16","nextHop":"10.244.1.1"}],` +
			`"ip_address":"10.244.1.5/24","gateway_ip":"10.244.1.1","role":"primary"}}`,
		"10.244.1.0/24,fd00:10:244:1::/64": `{"default":{"ip_addresses":["10.244.1.5/24","fd00:10:244:1::5/64"],"mac_address":"0a:58:0a:f4:01:05",` +
			`"gateway_ips":["10.244.1.1","fd00:10:244:1::1"],` +
			`"routes":[{"dest":"10.244.0.0/16","nextHop":"10.244.1.1"},{"dest":"10.96.0.0/16","nextHop":"10.244.1.1"},` +
			`{"dest":"169.254.0.5/32","nextHop":"10.244.1.1"},{"dest":"100.64.0.0/16","nextHop":"10.244.1.1"},` +
			`{"dest":"fd00:10:244::/48","nextHop":"fd00:10:244:1::1"},{"dest":"fd00:10:96::/112","nextHop":"fd00:10:244:1::1"},` +
			`{"dest":"fd69::5/128","nextHop":"fd00:10:244:1::1"},{"dest":"fd98::/64","nextHop":"fd00:10:244:1::1"}],"role":"primary"}}`,
		"fd00:10:244:1::/64": `{"default":{"ip_addresses":["fd00:10:244:1::5/64"],"mac_address":"0a:58:fc:09:1d:4e","gateway_ips":["fd00:10:244:1::1"],` +
			`"routes":[{"dest":"fd00:10:244::/48","nextHop":"fd00:10:244:1::1"},{"dest":"fd00:10:96::/112","nextHop":"fd00:10:244:1::1"},` +
			`{"dest":"fd69::5/128","nextHop":"fd00:10:244:1::1"},{"dest":"fd98::/64","nextHop":"fd00:10:244:1::1"}],` +
			`"ip_address":"fd00:10:244:1::5/64","gateway_ip":"fd00:10:244:1::1","role":"primary"}}`,
	} {
		var list []string
		for _, p := range prefixes(t, cluster) {
			list = append(list, map[bool]string{true: "10.244.0.0/16/24", false: "fd00:10:244::/48/64"}[p.Addr().Is4()])
		}
		a := newAllocator(t, plan(t, strings.Join(list, ",")))
		node := newNode("n", 1, contract.NodeSubnetsKey, `{"default":["`+strings.ReplaceAll(cluster, ",", `","`)+`"]}`)
		decideNode(t, a, node)
		decidePod(t, a, newPod("first", "n", 1), node)
		pod := newPod("second", "n", 2)
		decidePod(t, a, pod, node)
		if got := networkOf(t, pod); got != want {
			t.Errorf("%s:\n got %s\nwant %s", cluster, got, want)
		}
		network := a.Allocated(pod, "")
		if network == nil {
			t.Fatal("not allocated")
		}
		if again, err := contract.SetNetwork("", contract.DefaultNetwork, network); err != nil || again != want {
			t.Errorf("Allocated differs from the annotation: %s, %v", again, err)
		}
	}
}

func TestPod_HostNetworkOrCompletedGetsNothing(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node := newNode("n", 1)
	decideNode(t, a, node)
	for name, change := range map[string]func(*corev1.Pod){
		"host network": func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"unscheduled":  func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"succeeded":    func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"failed":       func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
	} {
		pod := newPod("p", "n", 1)
		change(pod)
		if d := decidePod(t, a, pod, node); d.Annotations != nil || len(a.Holders(owner(pod))) != 0 {
			t.Errorf("%s: %+v, %v", name, d, a.Holders(owner(pod)))
		}
	}
}

// TestPod_WaitsForAnnotationOfNode: until the node's own annotation says it, a subnet may
// still become another node's.
func TestPod_WaitsForAnnotationOfNode(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node, pod := newNode("n", 1), newPod("p", "n", 1)
	_, err := a.Pod(pod, nil)
	wantError(t, err, reconcile.ErrNotReady)
	if _, err := a.Node(node); err != nil {
		t.Fatal(err)
	}
	_, err = a.Pod(pod, node)
	wantError(t, err, reconcile.ErrNotReady)
	decideNode(t, a, node)
	decidePod(t, a, pod, node)
	wantAddress(t, a, pod, "10.244.0.4/24")
}

// TestPod_OfAnnotatedNodeDoesNotWait: a pod of a node that brings a right annotation
// does not wait for an event that would never come.
func TestPod_OfAnnotatedNodeDoesNotWait(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	pod := newPod("p", "n", 1)
	decidePod(t, a, pod, newNode("n", 1, contract.NodeSubnetsKey, subnets("10.244.3.0/24"), contract.NodeIDKey, "2"))
	wantAddress(t, a, pod, "10.244.3.4/24")
}

func TestPod_WaitsForReleasedAddress(t *testing.T) {
	for cluster, want := range map[string][]string{
		"10.0.0.0/28/29":   {"10.0.0.4/29", "10.0.0.5/29", "10.0.0.6/29"},
		"fd00:1::/124/125": {"fd00:1::4/125", "fd00:1::5/125", "fd00:1::6/125", "fd00:1::7/125"},
	} {
		a := newAllocator(t, plan(t, cluster))
		node := newNode("n", 1)
		decideNode(t, a, node)
		var pods []*corev1.Pod
		for i, addr := range want {
			pods = append(pods, newPod(fmt.Sprint("p", i), "n", i))
			decidePod(t, a, pods[i], node)
			wantAddress(t, a, pods[i], addr)
		}
		late := newPod("late", "n", 9)
		_, err := a.Pod(late, node)
		wantError(t, err, ErrExhausted)
		if retry := a.Addresses.Release(owner(pods[1]), pods[1].UID); !slices.Equal(retry, []contract.Owner{owner(late)}) {
			t.Errorf("to retry: %v", retry)
		}
		decidePod(t, a, late, node)
		wantAddress(t, a, late, want[1])
		check(t, a)
	}
}

// TestPod_FreedAddressIsReusedLast: next-fit goes once around before an address returns,
// also over a restart.
func TestPod_FreedAddressIsReusedLast(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node := newNode("n", 1)
	decideNode(t, a, node)
	kept := newPod("kept", "n", 0)
	decidePod(t, a, kept, node)
	seen := map[string]bool{address(a, kept): true}
	for i := range 250 {
		pod := newPod("p", "n", i+1)
		decidePod(t, a, pod, node)
		addr := address(a, pod)
		if addr == "" || seen[addr] {
			t.Fatalf("turn %d: address %q again", i, addr)
		}
		seen[addr] = true
		if i%100 == 99 {
			a.rebuild([]*corev1.Node{node}, []*corev1.Pod{kept, pod}, nil)
			wantAddress(t, a, pod, addr)
		}
		a.Addresses.Release(owner(pod), pod.UID)
	}
	pod := newPod("p", "n", 999)
	decidePod(t, a, pod, node)
	wantAddress(t, a, pod, "10.244.0.5/24")
}

// TestPod_RecreatedGetsAnotherAddress: the second web-0 never gets the address of the first while
// rows may use it, and releasing the first leaves the second alone.
func TestPod_RecreatedGetsAnotherAddress(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node := newNode("n", 1)
	decideNode(t, a, node)
	first, second := newPod("web-0", "n", 1), newPod("web-0", "n", 2)
	decidePod(t, a, first, node)
	second.Annotations[contract.PodNetworksKey] = networkOf(t, first)
	wantWarning(t, decidePod(t, a, second, node), "held by Pod/ns/web-0")
	wantAddress(t, a, first, "10.244.0.4/24")
	wantAddress(t, a, second, "10.244.0.5/24")
	if got := a.Holders(owner(first)); !slices.Equal(got, []types.UID{second.UID, first.UID}) {
		t.Errorf("holders %v", got)
	}
	a.Addresses.Release(owner(first), first.UID)
	wantAddress(t, a, first, "")
	wantAddress(t, a, second, "10.244.0.5/24")
	check(t, a)
}

func TestForgedAnnotation_IsReplacedWithWarning(t *testing.T) {
	network := func(addr, mac string) string {
		return fmt.Sprintf(`{"default":{"ip_addresses":[%q],"mac_address":%q,"role":"primary"}}`, addr, mac)
	}
	for _, tc := range []struct{ name, value, warning string }{
		{"foreign node", network("10.244.9.9/24", "0a:58:0a:f4:09:09"), "not in the node's subnets"},
		{"outside", network("8.8.8.8/24", "0a:58:08:08:08:08"), "not in the node's subnets"},
		{"other length", network("10.244.0.9/16", "0a:58:0a:f4:00:09"), "not in the node's subnets"},
		{"other family", network("fd00::9/64", "0a:58:0a:f4:00:09"), "not in the node's subnets"},
		{"network", network("10.244.0.0/24", "0a:58:0a:f4:00:00"), "reserved"},
		{"gateway", network("10.244.0.1/24", "0a:58:0a:f4:00:01"), "reserved"},
		{"management port", network("10.244.0.2/24", "0a:58:0a:f4:00:02"), "reserved"},
		{"hybrid overlay", network("10.244.0.3/24", "0a:58:0a:f4:00:03"), "reserved"},
		{"broadcast", network("10.244.0.255/24", "0a:58:0a:f4:00:ff"), "reserved"},
		{"held", network("10.244.0.4/24", "0a:58:0a:f4:00:04"), "held by Pod/ns/honest"},
		{"MAC", network("10.244.0.9/24", "0a:58:0a:f4:00:04"), "does not follow"},
		{"no MAC", `{"default":{"ip_addresses":["10.244.0.9/24"]}}`, "does not follow"},
		{"two", `{"default":{"ip_addresses":["10.244.0.9/24","10.244.0.10/24"],"mac_address":"0a:58:0a:f4:00:09"}}`, "second of its family"},
		{"none", `{"default":{}}`, "no address"},
		{"not JSON", `{"default":`, "unexpected end"},
		{"odd address", network("10.244.0.9", "0a:58:0a:f4:00:09"), "pod network"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
			node, honest, forger := newNode("n", 1), newPod("honest", "n", 1), newPod("forger", "n", 2)
			decideNode(t, a, node)
			decidePod(t, a, honest, node)
			forger.Annotations[contract.PodNetworksKey] = tc.value
			if a.Allocated(forger, "") != nil {
				t.Error("a forged annotation is a fact")
			}
			wantWarning(t, decidePod(t, a, forger, node), tc.warning)
			wantAddress(t, a, forger, "10.244.0.5/24")
			wantAddress(t, a, honest, "10.244.0.4/24")

			forger.Annotations[contract.PodNetworksKey] = tc.value
			wantAddress(t, a, forger, "10.244.0.5/24")
			wantWarning(t, decidePod(t, a, forger, node), "not what was allocated")
			wantAddress(t, a, forger, "10.244.0.5/24")
			check(t, a)
		})
	}
}

// TestForgedAnnotation_FamiliesInThePlansOrder: the MAC follows from the first address,
// which would be for the pod's author to choose.
func TestForgedAnnotation_FamiliesInThePlansOrder(t *testing.T) {
	six, four := "fd00:10:244::9/64", "10.244.0.9/24"
	for _, tc := range []struct {
		addrs   []string
		warning string
	}{
		{[]string{four, six}, ""},
		{[]string{four}, ""},
		{[]string{six, four}, "not in the order"},
		{[]string{six}, "not in the order"},
		{[]string{four, six, "fd00:10:244::a/64"}, "second of its family"},
	} {
		a := newAllocator(t, plan(t, "10.244.0.0/16/24,fd00:10:244::/48/64"))
		node, pod := newNode("n", 1), newPod("p", "n", 1)
		decideNode(t, a, node)
		pod.Annotations[contract.PodNetworksKey] = fmt.Sprintf(`{"default":{"ip_addresses":["%s"],"mac_address":%q}}`,
			strings.Join(tc.addrs, `","`), contract.MACFromAddress(netip.MustParsePrefix(tc.addrs[0]).Addr()))
		wantWarning(t, decidePod(t, a, pod, node), tc.warning)
		want := "10.244.0.4/24"
		if tc.warning == "" {
			want = four
		}
		wantAddress(t, a, pod, want)
		check(t, a)
	}
}

// sameMAC finds two addresses of a subnet from which one MAC follows: the hash of an
// IPv6 address in it has 32 bits.
func sameMAC(subnet netip.Prefix) (first, second netip.Addr) {
	seen := map[[6]byte]netip.Addr{}
	for offset := uint64(contract.FirstPodOffset); ; offset++ {
		addr := contract.AddressAt(subnet, offset)
		mac := macOf(addr)
		if other, ok := seen[mac]; ok {
			return other, addr
		}
		seen[mac] = addr
	}
}

// TestMAC_IsAnotherPodsOnce: no two ports of a switch have one MAC, neither by an
// annotation nor by what comes next.
func TestMAC_IsAnotherPodsOnce(t *testing.T) {
	subnet := netip.MustParsePrefix("fd00:10:244::/64")
	first, second := sameMAC(subnet)
	other := contract.AddressAt(subnet, 77)
	annotation := func(addr netip.Addr) string {
		return fmt.Sprintf(`{"default":{"ip_addresses":["%s/64"],"mac_address":%q}}`, addr, contract.MACFromAddress(addr))
	}
	a := newAllocator(t, plan(t, "fd00:10:244::/48/64"))
	node, victim, forger, honest := newNode("n", 1), newPod("victim", "n", 1), newPod("forger", "n", 2), newPod("honest", "n", 3)
	decideNode(t, a, node)
	victim.Annotations[contract.PodNetworksKey] = annotation(first)
	wantWarning(t, decidePod(t, a, victim, node), "")
	forger.Annotations[contract.PodNetworksKey] = annotation(second)
	wantWarning(t, decidePod(t, a, forger, node), "is in use on the node")
	honest.Annotations[contract.PodNetworksKey] = annotation(other)
	wantWarning(t, decidePod(t, a, honest, node), "")
	wantAddress(t, a, victim, first.String()+"/64")
	wantAddress(t, a, honest, other.String()+"/64")
	check(t, a)

	before := newPod("before", "n", 4)
	offset, _ := offsetOf(subnet, second)
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{victim, before}, []Held{
		held(victim, victim.UID, first.String()), held(before, before.UID, contract.AddressAt(subnet, offset-1).String())})
	next := newPod("next", "n", 5)
	decidePod(t, a, next, node)
	wantAddress(t, a, next, contract.AddressAt(subnet, offset+1).String()+"/64")
	a.Addresses.Release(owner(victim), victim.UID)
	check(t, a)
}

// TestAllocated_TheHoldingDecides: what was recorded once is the pod's network,
// whatever its annotation says later; what was not recorded is none.
func TestAllocated_TheHoldingDecides(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node, pod := newNode("n", 1), newPod("p", "n", 1)
	decideNode(t, a, node)
	d, err := a.Pod(pod, node)
	if err != nil {
		t.Fatal(err)
	}
	wantAddress(t, a, pod, "")
	maps.Copy(pod.Annotations, d.Annotations)
	wantAddress(t, a, pod, "10.244.0.4/24")
	for _, value := range []string{d.Annotations[contract.PodNetworksKey] + " ", "x", ""} {
		pod.Annotations[contract.PodNetworksKey] = value
		wantAddress(t, a, pod, "10.244.0.4/24")
		a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod}, []Held{held(pod, pod.UID, "10.244.0.4")})
		wantAddress(t, a, pod, "10.244.0.4/24")
	}
	if d, _ := a.Pod(pod, node); len(d.Annotations) != 1 {
		t.Errorf("the annotation is not written again: %v", d)
	}
	other := newPod("p", "n", 2)
	other.Annotations = pod.Annotations
	wantAddress(t, a, other, "")
}

// TestPod_AnnotationInOtherFormKeepsAddress: same addresses, other text (an older release, other
// routes) is no forgery, but becomes ours.
func TestPod_AnnotationInOtherFormKeepsAddress(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node, pod := newNode("n", 1), newPod("p", "n", 1)
	decideNode(t, a, node)
	pod.Annotations[contract.PodNetworksKey] = `{"default":{"ip_addresses":["10.244.0.77/24"],"mac_address":"0a:58:0a:f4:00:4d"}}`
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod}, nil)
	wantAddress(t, a, pod, "10.244.0.77/24")
	d := decidePod(t, a, pod, node)
	if len(d.Annotations) != 1 {
		t.Errorf("nothing is written: %v", d)
	}
	wantWarning(t, d, "")
	wantAddress(t, a, pod, "10.244.0.77/24")
}

func held(pod *corev1.Pod, uid types.UID, addrs ...string) Held {
	h := Held{Owner: owner(pod), UID: uid}
	for _, addr := range addrs {
		h.Addrs = append(h.Addrs, netip.MustParseAddr(addr))
	}
	return h
}

func annotated(pod *corev1.Pod, addr string) *corev1.Pod {
	ip := netip.MustParsePrefix(addr)
	pod.Annotations[contract.PodNetworksKey] = fmt.Sprintf(`{"default":{"ip_addresses":[%q],"mac_address":%q}}`, ip, contract.MACFromAddress(ip.Addr()))
	return pod
}

func TestRebuild_AnnotationsAndRowsDecideAddresses(t *testing.T) {
	node := newNode("n", 1, contract.NodeSubnetsKey, subnets("10.244.0.0/24"), contract.NodeIDKey, "2")
	other := newNode("other", 2, contract.NodeSubnetsKey, subnets("10.244.1.0/24"), contract.NodeIDKey, "3")
	running := func(pod *corev1.Pod, addr string) *corev1.Pod {
		pod.Status.PodIPs = []corev1.PodIP{{IP: netip.MustParsePrefix(addr).Addr().String()}}
		return annotated(pod, addr)
	}
	p, q := newPod("p", "n", 1), newPod("q", "n", 2)
	for _, tc := range []struct {
		name string
		pods []*corev1.Pod
		rows []Held
		want []string
	}{
		{"the older annotation wins", []*corev1.Pod{annotated(newPod("q", "n", 2), "10.244.0.9/24"), annotated(newPod("p", "n", 1), "10.244.0.9/24")},
			nil, []string{"10.244.0.10/24", "10.244.0.9/24"}},
		{"a row wins over an older annotation", []*corev1.Pod{annotated(newPod("p", "n", 1), "10.244.0.9/24"), newPod("q", "n", 2)},
			[]Held{held(q, q.UID, "10.244.0.9")}, []string{"10.244.0.10/24", "10.244.0.9/24"}},
		{"a row replaces a lost annotation", []*corev1.Pod{newPod("p", "n", 1)}, []Held{held(p, p.UID, "10.244.0.9")}, []string{"10.244.0.9/24"}},
		{"a row that does not tell its UID", []*corev1.Pod{annotated(newPod("p", "n", 1), "10.244.0.9/24")},
			[]Held{held(p, "", "10.244.0.9")}, []string{"10.244.0.9/24"}},
		{"the row of a former pod", []*corev1.Pod{newPod("p", "n", 1)}, []Held{held(p, "former", "10.244.0.9")}, []string{"10.244.0.10/24"}},
		{"the row of a pod that is gone wins over an annotation", []*corev1.Pod{annotated(newPod("p", "n", 1), "10.244.0.9/24")},
			[]Held{held(q, q.UID, "10.244.0.9")}, []string{"10.244.0.10/24"}},
		{"but not over a running pod: the rows are an older copy", []*corev1.Pod{running(newPod("p", "n", 1), "10.244.0.9/24"), newPod("q", "n", 3)},
			[]Held{held(q, q.UID, "10.244.0.9")}, []string{"10.244.0.9/24", "10.244.0.10/24"}},
		{"the row of a pod that is there wins over a running pod", []*corev1.Pod{running(newPod("p", "n", 1), "10.244.0.9/24"), newPod("q", "n", 2)},
			[]Held{held(q, q.UID, "10.244.0.9")}, []string{"10.244.0.10/24", "10.244.0.9/24"}},
		{"a row in another node's subnet", []*corev1.Pod{newPod("p", "n", 1)}, []Held{held(p, p.UID, "10.244.1.9")}, []string{"10.244.0.4/24"}},
		{"two rows with one address", []*corev1.Pod{newPod("p", "n", 1), newPod("q", "n", 2)},
			[]Held{held(q, q.UID, "10.244.0.9"), held(p, p.UID, "10.244.0.9")}, []string{"10.244.0.9/24", "10.244.0.10/24"}},
		{"a row with a reserved address", []*corev1.Pod{newPod("p", "n", 1)}, []Held{held(p, p.UID, "10.244.0.1")}, []string{"10.244.0.4/24"}},
		{"a row outside the plan", []*corev1.Pod{newPod("p", "n", 1)}, []Held{held(p, p.UID, "8.8.8.8")}, []string{"10.244.0.4/24"}},
		{"a row without address", []*corev1.Pod{newPod("p", "n", 1)}, []Held{held(p, p.UID)}, []string{"10.244.0.4/24"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
			a.rebuild([]*corev1.Node{node, other}, tc.pods, tc.rows)
			check(t, a)
			for i, pod := range tc.pods {
				decidePod(t, a, pod, node)
				wantAddress(t, a, pod, tc.want[i])
			}
			check(t, a)
		})
	}
}

// TestRebuild_SubnetOfDeletedNodeIsGivenLast: the subnet of a node that was deleted while no controller ran is
// the last to be given to another one, and the addresses of its pods stay held.
func TestRebuild_SubnetOfDeletedNodeIsGivenLast(t *testing.T) {
	a := newAllocator(t, plan(t, "10.0.0.0/28/29"))
	gone, first, second := annotated(newPod("gone", "old", 1), "10.0.0.4/29"), newNode("first", 1), newNode("second", 2)
	a.rebuild([]*corev1.Node{first, second}, []*corev1.Pod{gone}, []Held{held(gone, gone.UID, "10.0.0.4")})
	if got := a.Addresses.Owners(); !slices.Contains(got, owner(gone)) {
		t.Errorf("owners %v", got)
	}
	decideNode(t, a, first)
	decideNode(t, a, second)
	if got := second.Annotations[contract.NodeSubnetsKey]; got != subnets("10.0.0.0/29") {
		t.Errorf("second node has %s", got)
	}
	pod := newPod("p", "second", 1)
	decidePod(t, a, pod, second)
	wantAddress(t, a, pod, "10.0.0.5/29")
	a.Addresses.Release(owner(gone), a.Holders(owner(gone))...)
	check(t, a)
}

// TestRebuild_NodeGetsSubnetOfItsPodsBack: running pods keep their addresses because a node that lost its annotation
// gets back the subnet in which its pods have addresses.
func TestRebuild_NodeGetsSubnetOfItsPodsBack(t *testing.T) {
	a := newAllocator(t, plan(t, "10.244.0.0/16/24"))
	node, pod := newNode("n", 1), annotated(newPod("p", "n", 1), "10.244.6.9/24")
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod}, []Held{held(pod, pod.UID, "10.244.6.9")})
	decideNode(t, a, node)
	if got := node.Annotations[contract.NodeSubnetsKey]; got != subnets("10.244.6.0/24") {
		t.Errorf("subnet %s", got)
	}
	decidePod(t, a, pod, node)
	wantAddress(t, a, pod, "10.244.6.9/24")
}
