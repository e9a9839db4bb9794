package ipam

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// tenants are further networks by name; a pod has those of NADs that are named like them.
type tenants map[string]contract.Network

func (n tenants) Networks() (all []contract.Network) {
	for _, network := range n {
		all = append(all, network)
	}
	return all
}

func (n tenants) Network(name string) *contract.Network {
	network, ok := n[name]
	if !ok {
		return nil
	}
	return &network
}

func (n tenants) Claims(string) []Claim { return nil }

func (n tenants) NamespaceSubnets() []contract.NamespaceSubnet { return nil }

func (n tenants) SubnetOf(*corev1.Pod) *contract.NamespaceSubnet { return nil }

func (n tenants) Locked(pod *corev1.Pod) bool {
	return slices.ContainsFunc(n.Requests(pod), func(r Request) bool { return r.Network.IsPrimary() })
}

func (n tenants) Requests(pod *corev1.Pod) (out []Request) {
	attachments, _ := contract.Attachments(pod)
	for _, a := range attachments {
		if network, ok := n[strings.TrimPrefix(a.NAD, "ns/")]; ok {
			out = append(out, Request{Attachment: a, Network: network})
		}
	}
	return out
}

func tenant(t testing.TB, name string, topology contract.Topology, subnets string) contract.Network {
	t.Helper()
	network := contract.Network{Name: name, Role: contract.RoleSecondary, Topology: topology}
	if topology == contract.Layer3 {
		network.Subnets = clusters(t, subnets)
		return network
	}
	for _, prefix := range prefixes(t, subnets) {
		network.Subnets = append(network.Subnets, contract.Subnet{Prefix: prefix, NodeBits: prefix.Bits()})
	}
	return network
}

// attached asks for further networks.
func attached(pod *corev1.Pod, networks string) *corev1.Pod {
	pod.Annotations[contract.NetworksKey] = networks
	return pod
}

func withTenants(t testing.TB, networks ...contract.Network) (allocator, tenants) {
	t.Helper()
	all := tenants{}
	for _, network := range networks {
		all[network.Name] = network
	}
	cfg := plan(t, "10.0.0.0/16/24")
	cfg.Further = all
	return newAllocator(t, cfg), all
}

func entry(t testing.TB, pod *corev1.Pod, key string) *contract.PodNetwork {
	t.Helper()
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], key)
	if err != nil {
		t.Fatal(err)
	}
	if network == nil {
		return &contract.PodNetwork{}
	}
	return network
}

func wantEntry(t testing.TB, pod *corev1.Pod, key, want string) {
	t.Helper()
	var texts []string
	for _, prefix := range entry(t, pod, key).Addresses {
		texts = append(texts, prefix.String())
	}
	if got := strings.Join(texts, " "); got != want {
		t.Errorf("pod %s has %q on %s, want %q: %s", pod.Name, got, key, want, pod.Annotations[contract.PodNetworksKey])
	}
}

// TestFurther_NetworksAreOneDecision: two networks with the same subnets have the same addresses for different pods, and
// what one network says of a pod changes nothing on the other. All are in one annotation.
func TestFurther_NetworksAreOneDecision(t *testing.T) {
	a, _ := withTenants(t, tenant(t, "blue", contract.Layer3, "10.0.0.0/16/24"))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	if want := `{"blue":["10.0.0.0/24"],"default":["10.0.0.0/24"]}`; node.Annotations[contract.NodeSubnetsKey] != want {
		t.Errorf("subnets %s, want %s", node.Annotations[contract.NodeSubnetsKey], want)
	}
	one, both := newPod("one", "n1", 2), attached(newPod("both", "n1", 3), "blue")
	both.Annotations[contract.PodNetworksKey] = `{"ns/foreign":{"mac_address":"0a:58:00:00:00:01"}}`
	decidePod(t, a, one, node)
	decidePod(t, a, both, node)
	wantAddress(t, a, one, "10.0.0.4/24")
	wantAddress(t, a, both, "10.0.0.5/24")
	if got := a.Allocated(both, "ns/blue"); got == nil || got.Addresses[0].String() != "10.0.0.4/24" || a.Allocated(one, "ns/blue") != nil {
		t.Errorf("on the other network: %v and %v", got, a.Allocated(one, "ns/blue"))
	}
	want := `"ns/blue":{"ip_addresses":["10.0.0.4/24"],"mac_address":"0a:58:0a:00:00:04","routes":[{"dest":"10.0.0.0/16","nextHop":"10.0.0.1"}],` +
		`"ip_address":"10.0.0.4/24","role":"secondary","interface":"net1","network":"blue"},"ns/foreign":{"mac_address"`
	if got := both.Annotations[contract.PodNetworksKey]; !strings.Contains(got, want) {
		t.Errorf("annotation %s, want in it %s", got, want)
	}
	if d := decidePod(t, a, both, node); d.Annotations != nil {
		t.Errorf("decided again: %v", d.Annotations)
	}
	blueOwner := owner(both).On("ns/blue")
	rows := []Held{
		{Owner: owner(one), UID: one.UID, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.4")}},
		{Owner: blueOwner, Network: "blue", UID: both.UID, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.4")}},
	}
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{one, both}, rows)
	if d := decidePod(t, a, both, node); d.Annotations != nil || d.Warning != "" {
		t.Errorf("after a restart: %+v", d)
	}
	a.Addresses.Release(blueOwner, a.Holders(blueOwner)...)
	wantAddress(t, a, both, "10.0.0.5/24")
	if a.Allocated(both, "ns/blue") != nil {
		t.Error("the released network has its address still")
	}
}

// TestFurther_SharedSubnets: all nodes have one layer2 subnet, whose first address a pod may have; the excluded parts
// are left out, the second subnet of a family follows when the first is used up, and a freed address is given to a pod
// that waits.
func TestFurther_SharedSubnets(t *testing.T) {
	blue := tenant(t, "blue", contract.Layer2, "10.1.0.0/29,fd00:1::/64,10.2.0.0/30")
	blue.Excluded = prefixes(t, "10.1.0.2/31,10.1.0.5/32")
	a, _ := withTenants(t, blue)
	nodes := []*corev1.Node{newNode("n1", 1), newNode("n2", 2)}
	var pods []*corev1.Pod
	for i, want := range []string{"10.1.0.1/29 fd00:1::1/64", "10.1.0.4/29 fd00:1::2/64", "10.1.0.6/29 fd00:1::3/64", "10.2.0.1/30 fd00:1::4/64", "10.2.0.2/30 fd00:1::5/64"} {
		node := nodes[i%2]
		decideNode(t, a, node)
		pod := attached(newPod(string(rune('a'+i)), node.Name, 3+i), "blue")
		decidePod(t, a, pod, node)
		wantEntry(t, pod, "ns/blue", want)
		pods = append(pods, pod)
	}
	late := attached(newPod("late", "n1", 20), "blue")
	d, err := a.Pod(late, nodes[0])
	wantError(t, err, ErrExhausted)
	if !strings.Contains(d.Annotations[contract.PodNetworksKey], `{"default":`) {
		t.Errorf("the default network waits for the other: %+v", d)
	}
	if retry := a.Addresses.Release(owner(pods[1]).On("ns/blue"), pods[1].UID); !slices.Contains(retry, owner(late).On("ns/blue")) {
		t.Errorf("the waiting pod is not tried again: %v", retry)
	}
	decidePod(t, a, late, nodes[0])
	wantEntry(t, late, "ns/blue", "10.1.0.4/29 fd00:1::6/64")
}

// TestFurther_ReservedOnRequest: pods get addresses of the reserved parts when they ask for them, and keep them over a restart;
// others do not get them, also when no other is left.
func TestFurther_ReservedOnRequest(t *testing.T) {
	blue := tenant(t, "blue", contract.Layer2, "10.1.0.0/29")
	blue.Reserved, blue.Excluded = prefixes(t, "10.1.0.0/30"), prefixes(t, "10.1.0.4/31")
	a, _ := withTenants(t, blue)
	node := newNode("n1", 1)
	decideNode(t, a, node)
	plain, asks := attached(newPod("plain", "n1", 2), "blue"), attached(newPod("asks", "n1", 3), `[{"name":"blue","ips":["10.1.0.2"]}]`)
	for range 2 {
		decidePod(t, a, plain, node)
		decidePod(t, a, asks, node)
		wantEntry(t, plain, "ns/blue", "10.1.0.6/29")
		wantEntry(t, asks, "ns/blue", "10.1.0.2/29")
		a.rebuild([]*corev1.Node{node}, []*corev1.Pod{plain, asks}, nil)
	}
	_, err := a.Pod(attached(newPod("late", "n1", 4), "blue"), node)
	wantError(t, err, ErrExhausted)
}

// TestFurther_Requests: what a pod asks for it gets, or it gets nothing on that network.
func TestFurther_Requests(t *testing.T) {
	blue := tenant(t, "blue", contract.Layer2, "10.1.0.0/24")
	blue.Excluded = prefixes(t, "10.1.0.128/25")
	bare := tenant(t, "bare", contract.Localnet, "")
	bare.PhysicalNetwork, bare.MTU = "phys", 9000
	a, _ := withTenants(t, blue, bare, tenant(t, "red", contract.Layer3, "10.3.0.0/16/24"))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	for i, tc := range []struct{ networks, key, want, mac, err string }{
		{networks: `[{"name":"blue","ips":["10.1.0.9"],"mac":"02:00:00:00:00:09"}]`, key: "ns/blue", want: "10.1.0.9/24", mac: "02:00:00:00:00:09"},
		{networks: `[{"name":"blue","ips":["10.1.0.9"]}]`, err: "address 10.1.0.9 is held by Pod/ns/p0@ns/blue"},
		{networks: `[{"name":"blue","mac":"02:00:00:00:00:09"}]`, err: "MAC 02:00:00:00:00:09 is another pod's on network blue"},
		{networks: `[{"name":"blue","ips":["10.1.0.130"]}]`, err: "10.1.0.130 is excluded from the subnets [10.1.0.0/24]"},
		{networks: `[{"name":"blue","ips":["10.1.0.0"]}]`, err: "or in none of them"},
		{networks: `[{"name":"blue","ips":["10.9.0.1"]}]`, err: "or in none of them"},
		{networks: `[{"name":"blue","ips":["10.1.0.20","10.1.0.21/24"]}]`, key: "ns/blue", want: "10.1.0.20/24 10.1.0.21/24", mac: "0a:58:0a:01:00:14"},
		{networks: "blue,blue", key: "ns/blue/1", want: "10.1.0.3/24", mac: "0a:58:0a:01:00:03"},
		{networks: `[{"name":"bare","ips":["192.0.2.7/26"]}]`, key: "ns/bare", want: "192.0.2.7/26", mac: "0a:58:c0:00:02:07"},
		{networks: `[{"name":"bare","ips":["192.0.2.7/26"]}]`, err: "address 192.0.2.7 is held by Pod/ns/p8@ns/bare"},
		{networks: "bare", key: "ns/bare", mac: "0a:58:f8:f9:3d:59"},
		{networks: `[{"name":"red","ips":["10.3.0.77"]}]`, key: "ns/red", want: "10.3.0.77/24", mac: "0a:58:0a:03:00:4d"},
		{networks: `[{"name":"red","ips":["10.3.7.77"]}]`, err: "or in none of them"},
		{networks: `[{"name":"red","ips":["10.3.0.2"]}]`, err: "or in none of them"},
	} {
		pod := attached(newPod("p"+string(rune('0'+i)), "n1", 2+i), tc.networks)
		d, err := a.Pod(pod, node)
		if (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) || !errors.Is(err, ErrRequest)) {
			t.Errorf("%s: error %v, want %q", tc.networks, err, tc.err)
		}
		pod.Annotations[contract.PodNetworksKey] = d.Annotations[contract.PodNetworksKey]
		if tc.err != "" {
			if keys := contract.NetworkKeys(pod.Annotations[contract.PodNetworksKey]); !cmp.Equal(keys, []string{"default"}) {
				t.Errorf("%s: networks %v", tc.networks, keys)
			}
			continue
		}
		wantEntry(t, pod, tc.key, tc.want)
		if got := entry(t, pod, tc.key); got.MAC.String() != tc.mac {
			t.Errorf("%s: MAC %s, want %s", tc.networks, got.MAC, tc.mac)
		}
		if got := entry(t, pod, tc.key).Further; tc.key == "ns/bare" && (got.MTU != 9000 || got.PhysicalNetwork != "phys" || got.Network != "bare") {
			t.Errorf("%s: %+v", tc.networks, got)
		}
	}
}

// TestFurther_ReleaseWakesWhoAskedForIt: a freed address goes to the pod that waits for this one, and a MAC too. A pod that
// waits for another address is left alone, and one that takes any address is woken beside it.
func TestFurther_ReleaseWakesWhoAskedForIt(t *testing.T) {
	a, _ := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/30"), tenant(t, "bare", contract.Layer2, ""))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	holder := attached(newPod("holder", "n1", 2), `[{"name":"blue","ips":["10.1.0.1"]},{"name":"bare","ips":["10.9.0.1/24"],"mac":"02:00:00:00:00:09"}]`)
	decidePod(t, a, holder, node)
	decidePod(t, a, attached(newPod("other", "n1", 3), `[{"name":"blue","ips":["10.1.0.2"]}]`), node)
	for name, networks := range map[string]string{
		"same": `[{"name":"blue","ips":["10.1.0.1"]}]`, "another": `[{"name":"blue","ips":["10.1.0.2"]}]`, "any": "blue",
		"address": `[{"name":"bare","ips":["10.9.0.1/24"]}]`, "mac": `[{"name":"bare","mac":"02:00:00:00:00:09"}]`,
	} {
		if _, err := a.Pod(attached(newPod(name, "n1", 4), networks), node); err == nil {
			t.Errorf("%s does not wait", name)
		}
	}
	for network, want := range map[string][]string{"blue": {"any", "same"}, "bare": {"address", "mac"}} {
		var woken []string
		for _, o := range a.Addresses.Release(owner(holder).On("ns/"+network), holder.UID) {
			woken = append(woken, o.Name)
		}
		slices.Sort(woken)
		if !cmp.Equal(woken, want) {
			t.Errorf("network %s: %v are tried again, want %v", network, woken, want)
		}
	}
}

// TestFurther_DefaultRoute: the default route through a further network takes the gateway of its family from the default
// network, whose own subnets stay reachable.
func TestFurther_DefaultRoute(t *testing.T) {
	a, _ := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/24"))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	pod := attached(newPod("p", "n1", 2), `[{"name":"blue","default-route":["10.1.0.254"]}]`)
	decidePod(t, a, pod, node)
	if got := entry(t, pod, "default"); got.Gateways != nil || got.GatewayIP != nil || len(got.Routes) == 0 {
		t.Errorf("default network: %+v", got)
	}
	if got := entry(t, pod, "ns/blue"); len(got.Gateways) != 1 || got.Gateways[0].String() != "10.1.0.254" {
		t.Errorf("blue: %+v", got)
	}
	a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod}, nil)
	if d := decidePod(t, a, pod, node); d.Annotations != nil || d.Warning != "" {
		t.Errorf("after a restart: %+v", d)
	}
}

// TestFurther_ChangedNetwork: running pods keep their addresses, new ones get those of the new subnets, also after a
// restart; a network that is gone has neither subnets on nodes nor memory.
func TestFurther_ChangedNetwork(t *testing.T) {
	a, networks := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/24"), tenant(t, "red", contract.Layer3, "10.3.0.0/16/24"))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	old := attached(newPod("old", "n1", 2), "blue,red")
	decidePod(t, a, old, node)
	old.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.4"}}
	networks["blue"] = tenant(t, "blue", contract.Layer2, "10.2.0.0/24")
	networks["red"] = tenant(t, "red", contract.Layer3, "10.4.0.0/16/24")
	decideNode(t, a, node)
	if want := `{"default":["10.0.0.0/24"],"red":["10.4.0.0/24"]}`; node.Annotations[contract.NodeSubnetsKey] != want {
		t.Errorf("subnets %s, want %s", node.Annotations[contract.NodeSubnetsKey], want)
	}
	fresh := attached(newPod("fresh", "n1", 3), "blue,red")
	for range 2 {
		if d := decidePod(t, a, old, node); d.Annotations != nil || d.Warning != "" {
			t.Errorf("the running pod: %+v", d)
		}
		decidePod(t, a, fresh, node)
		wantEntry(t, old, "ns/blue", "10.1.0.1/24")
		wantEntry(t, old, "ns/red", "10.3.0.4/24")
		wantEntry(t, fresh, "ns/blue", "10.2.0.1/24")
		wantEntry(t, fresh, "ns/red", "10.4.0.4/24")
		a.rebuild([]*corev1.Node{node}, []*corev1.Pod{old, fresh}, nil)
	}
	clear(networks)
	decideNode(t, a, node)
	if want := `{"default":["10.0.0.0/24"]}`; node.Annotations[contract.NodeSubnetsKey] != want {
		t.Errorf("subnets %s, want %s", node.Annotations[contract.NodeSubnetsKey], want)
	}
	for _, pod := range []*corev1.Pod{old, fresh} {
		for _, key := range []string{"ns/blue", "ns/red"} {
			a.Addresses.Release(owner(pod).On(key), pod.UID)
		}
	}
	a.Forget(func(name string) bool { return networks.Network(name) != nil })
	if len(a.pools) != 1 || len(a.newest) != 2 {
		t.Errorf("%d pools and %d holdings are left", len(a.pools), len(a.newest))
	}
}

// TestFurther_RunningPodStaysOnItsNetwork: when its NetworkAttachmentDefinition names another network, it has nothing there,
// although its address would fit, also after a restart. A pod that has not started gets an address of the other network.
func TestFurther_RunningPodStaysOnItsNetwork(t *testing.T) {
	a, networks := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/24"))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	pod, fresh := attached(newPod("old", "n1", 2), "blue"), attached(newPod("fresh", "n1", 3), "blue")
	decidePod(t, a, pod, node)
	decidePod(t, a, fresh, node)
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.4"}}
	networks["blue"] = tenant(t, "other", contract.Layer2, "10.1.0.0/24")
	for _, p := range []*corev1.Pod{pod, fresh} { // as after a commit without their rows
		a.Addresses.Release(owner(p).On("ns/blue"), p.UID)
	}
	for range 2 {
		if d := decidePod(t, a, pod, node); d.Annotations != nil || d.Warning != "" || a.Allocated(pod, "ns/blue") != nil {
			t.Errorf("the running pod: %+v, %v", d, a.Allocated(pod, "ns/blue"))
		}
		decidePod(t, a, fresh, node)
		if on := a.NetworkOf(fresh, "ns/blue"); on == nil || on.Name != "other" {
			t.Errorf("the fresh pod is on %+v", on)
		}
		a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod, fresh}, nil)
	}
}

// TestFurther_AnotherPodHasWhatWasRecorded: while a network was absent a pod lost what its annotation says, and another has it now. A
// controller that begins anew gives it to no other pod. A pod that runs keeps the entry, which it uses.
func TestFurther_AnotherPodHasWhatWasRecorded(t *testing.T) {
	for _, runs := range []bool{false, true} {
		a, _ := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/24"))
		node := newNode("n1", 1)
		decideNode(t, a, node)
		first := attached(newPod("first", "n1", 2), `[{"name":"blue","ips":["10.1.0.8"]}]`)
		second := attached(newPod("second", "n1", 3), `[{"name":"blue","ips":["10.1.0.8"]}]`)
		decidePod(t, a, first, node)
		a.Addresses.Release(owner(first).On("ns/blue"), first.UID)
		decidePod(t, a, second, node)
		if runs {
			first.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.4"}}
		}
		d, err := a.Pod(first, node)
		if err == nil || runs != (d.Annotations == nil) {
			t.Fatalf("runs %t: %+v, %v", runs, d, err)
		}
		maps.Copy(first.Annotations, d.Annotations)
		if is := first.Annotations[contract.PodNetworksKey]; contract.HasKey(is, "ns/blue") != runs || !contract.HasKey(is, contract.DefaultNetwork) {
			t.Errorf("runs %t: %s", runs, is)
		}
		if a.rebuild([]*corev1.Node{node}, []*corev1.Pod{first, second}, nil); !runs && a.Allocated(second, "ns/blue") == nil {
			t.Error("a new controller takes the address from the pod that has it")
		}
	}
}

// TestFurther_NetworkComesBack: a node's annotation still has its subnet on a network that was deleted. No write follows the
// network's return, and so no event: the subnet is recorded before the node is decided again.
func TestFurther_NetworkComesBack(t *testing.T) {
	red := tenant(t, "red", contract.Layer3, "10.3.0.0/16/24")
	a, networks := withTenants(t, red)
	node := newNode("n1", 1)
	decideNode(t, a, node)
	former := node.DeepCopy()
	delete(networks, "red")
	decideNode(t, a, node)
	if got := a.Recorded(former, "red"); got != nil {
		t.Errorf("on a network that is gone: %v", got)
	}
	networks["red"] = red
	if got := a.Recorded(former, "red"); len(got) != 1 || got[0].String() != "10.3.0.0/24" {
		t.Errorf("after its return: %v", got)
	}
	if d := decideNode(t, a, former); len(d.Annotations) != 0 {
		t.Errorf("written after its return: %v", d.Annotations)
	}
}

// TestFurther_NodeWithoutSubnet: a network that is used up stops neither the default network nor the others.
func TestFurther_NodeWithoutSubnet(t *testing.T) {
	a, _ := withTenants(t, tenant(t, "red", contract.Layer3, "10.3.0.0/24/24"))
	decideNode(t, a, newNode("n1", 1))
	second := newNode("n2", 2)
	d := decideNode(t, a, second)
	wantError(t, d.Failed["red"], ErrExhausted)
	if want := `{"default":["10.0.1.0/24"]}`; second.Annotations[contract.NodeSubnetsKey] != want {
		t.Errorf("subnets %s, want %s", second.Annotations[contract.NodeSubnetsKey], want)
	}
	if retry := a.Subnets.Release("n1"); !cmp.Equal(retry, []contract.Owner{contract.NodeOwner("n2")}) {
		t.Errorf("released: %v", retry)
	}
}

// TestFurther_PrimaryHasTheDefaultRoute: with a primary network the default network leads to its own subnets alone, and the
// router of the primary network to all else. A secondary network changes neither.
func TestFurther_PrimaryHasTheDefaultRoute(t *testing.T) {
	flat := tenant(t, "flat", contract.Layer2, "10.2.0.0/24")
	flat.Role, flat.Gateways = contract.RolePrimary, []netip.Prefix{netip.MustParsePrefix("10.2.0.9/24")}
	routed := tenant(t, "routed", contract.Layer3, "10.1.0.0/16/24")
	routed.Role = contract.RolePrimary
	a, _ := withTenants(t, flat, routed, tenant(t, "blue", contract.Layer2, "10.3.0.0/24"))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	for name, want := range map[string]struct{ gateway, locked string }{
		"routed": {"10.1.0.1", string(contract.RoleLocked)}, "flat": {"10.2.0.9", string(contract.RoleLocked)}, "blue": {"", string(contract.RolePrimary)},
	} {
		pod := attached(newPod(name, "n1", 2), name)
		decidePod(t, a, pod, node)
		first, own := entry(t, pod, "default"), entry(t, pod, "ns/"+name)
		if first.Role != want.locked || (len(first.Gateways) == 0) != (want.gateway != "") {
			t.Errorf("%s: the default network has the role %s and gateways %v", name, first.Role, first.Gateways)
		}
		if want.gateway != "" && (own.GatewayIP == nil || own.GatewayIP.String() != want.gateway) {
			t.Errorf("%s: gateways %v, want %s", name, own.Gateways, want.gateway)
		}
		services := slices.ContainsFunc(first.Routes, func(r contract.Route) bool { return r.Dest == a.Addresses.cfg.Services[0] })
		if services != (want.gateway == "") {
			t.Errorf("%s: routes of the default network %v", name, first.Routes)
		}
		a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod}, nil)
		if d := decidePod(t, a, pod, node); d.Annotations != nil || d.Warning != "" {
			t.Errorf("%s after a restart: %+v", name, d)
		}
	}
}

// led are tenants with a route in each request.
type led struct {
	tenants
	routes []contract.Route
}

func (l led) Requests(pod *corev1.Pod) []Request {
	requests := l.tenants.Requests(pod)
	for i := range requests {
		requests[i].Routes = l.routes
	}
	return requests
}

// TestFurther_RoutesOfAChain: a pod gets a route by the router in its subnet, one for each destination. It loses the route and
// has it again while it runs, also after a restart; nothing else changes.
func TestFurther_RoutesOfAChain(t *testing.T) {
	route := func(dest, via string) contract.Route {
		return contract.Route{Dest: netip.MustParsePrefix(dest), NextHop: netip.MustParseAddr(via)}
	}
	networks := &led{tenants{"blue": tenant(t, "blue", contract.Layer2, "10.1.0.0/24")}, []contract.Route{
		route("10.9.0.0/24", "10.2.0.1"), route("10.9.0.0/24", "10.1.0.1"), route("10.9.0.0/24", "10.1.0.2"),
	}}
	cfg := plan(t, "10.0.0.0/16/24")
	cfg.Further = networks
	a := newAllocator(t, cfg)
	node := newNode("n1", 1)
	decideNode(t, a, node)
	pod := attached(newPod("p", "n1", 2), "blue")
	decidePod(t, a, pod, node)
	want := []contract.Route{route("10.9.0.0/24", "10.1.0.1")}
	if diff := cmp.Diff(want, entry(t, pod, "ns/blue").Routes, cmp.Comparer(func(x, y contract.Route) bool { return x == y })); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.4"}}
	with, chain := pod.Annotations[contract.PodNetworksKey], networks.routes
	for range 2 {
		networks.routes = nil
		if d := decidePod(t, a, pod, node); d.Warning != "" || len(entry(t, pod, "ns/blue").Routes) > 0 {
			t.Errorf("without the chain: %s (%s)", pod.Annotations[contract.PodNetworksKey], d.Warning)
		}
		if got := a.Allocated(pod, "ns/blue"); got == nil || got.Routes != nil {
			t.Errorf("allocated without the chain: %+v", got)
		}
		a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod}, nil)
		networks.routes = chain
		decidePod(t, a, pod, node)
		if is := pod.Annotations[contract.PodNetworksKey]; is != with {
			t.Errorf("with the chain again: %s, want %s", is, with)
		}
	}
}

// TestFurther_EnlargedNetwork: a running pod gets a route to the subnets that its network has got.
func TestFurther_EnlargedNetwork(t *testing.T) {
	a, networks := withTenants(t, tenant(t, "red", contract.Layer3, "10.3.0.0/16/24"))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	pod := attached(newPod("p", "n1", 2), "red")
	decidePod(t, a, pod, node)
	networks["red"] = tenant(t, "red", contract.Layer3, "10.3.0.0/16/24,10.4.0.0/16/24")
	decideNode(t, a, node)
	for range 2 {
		decidePod(t, a, pod, node)
		if got := entry(t, pod, "ns/red").Routes; len(got) != 2 || got[1].Dest != netip.MustParsePrefix("10.4.0.0/16") {
			t.Errorf("routes %v", got)
		}
		a.rebuild([]*corev1.Node{node}, []*corev1.Pod{pod}, nil)
	}
}

// TestFurther_ExitsAreRoutes: a pod has a route to each exit, by the router of its own subnet, and its default route as ever.
func TestFurther_ExitsAreRoutes(t *testing.T) {
	flat, routed := tenant(t, "flat", contract.Layer2, "10.2.0.0/24"), tenant(t, "routed", contract.Layer3, "10.1.0.0/16/24")
	flat.Gateways, flat.Exits = []netip.Prefix{netip.MustParsePrefix("10.2.0.9/24")}, prefixes(t, "203.0.113.0/24,fd01::/64")
	routed.Exits = prefixes(t, "0.0.0.0/1,128.0.0.0/1")
	a, _ := withTenants(t, flat, routed)
	node := newNode("n1", 1)
	decideNode(t, a, node)
	pod := attached(newPod("p", "n1", 2), "flat,routed")
	decidePod(t, a, pod, node)
	for key, want := range map[string]string{
		"ns/flat": "203.0.113.0/24 10.2.0.9", "ns/routed": "10.1.0.0/16 10.1.0.1, 0.0.0.0/1 10.1.0.1, 128.0.0.0/1 10.1.0.1",
	} {
		var routes []string
		for _, route := range entry(t, pod, key).Routes {
			routes = append(routes, route.Dest.String()+" "+route.NextHop.String())
		}
		if got := strings.Join(routes, ", "); got != want || len(entry(t, pod, key).Gateways) > 0 {
			t.Errorf("routes on %s: %s, want %s", key, got, want)
		}
	}
	if first := entry(t, pod, "default"); len(first.Gateways) != 1 {
		t.Errorf("default network: %+v", first)
	}
}

// TestFurther_PodsOfAVirtualMachineShareItsMAC while it moves from one to the other, also after a restart; others do not, and
// not when one of the two is gone.
func TestFurther_PodsOfAVirtualMachineShareItsMAC(t *testing.T) {
	a, _ := withTenants(t, tenant(t, "bare", contract.Localnet, ""))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	const networks = `[{"name":"bare","mac":"02:00:00:00:00:09"}]`
	machine := func(name, of string, second int) *corev1.Pod {
		pod := attached(newPod(name, "n1", second), networks)
		pod.Labels = map[string]string{contract.VMLabel: of}
		return pod
	}
	source, target, thief := machine("source", "db", 2), machine("target", "db", 3), machine("thief", "web", 4)
	for range 2 {
		decidePod(t, a, source, node)
		decidePod(t, a, target, node)
		for _, pod := range []*corev1.Pod{thief, attached(newPod("plain", "n1", 5), networks)} {
			if _, err := a.Pod(pod, node); !errors.Is(err, ErrRequest) {
				t.Errorf("pod %s has the MAC of the virtual machine: %v", pod.Name, err)
			}
		}
		a.rebuild([]*corev1.Node{node}, []*corev1.Pod{source, target}, nil)
	}
	if retry := a.Addresses.Release(owner(source).On("ns/bare"), source.UID); len(retry) > 0 {
		t.Errorf("%v are tried again", retry)
	}
	if _, err := a.Pod(thief, node); !errors.Is(err, ErrRequest) {
		t.Errorf("the target has lost its MAC: %v", err)
	}
	a.Addresses.Release(owner(target).On("ns/bare"), target.UID)
	decidePod(t, a, thief, node)
}

// TestFurther_PodsOfAVirtualMachineShareWhatItAsksFor: two pods of a virtual machine that ask for one address have it, with and
// without subnets, also after a restart that finds the row of either one. Pods of another virtual machine, or with another MAC,
// do not have it, also when the first of the two is gone.
func TestFurther_PodsOfAVirtualMachineShareWhatItAsksFor(t *testing.T) {
	for _, subnets := range []string{"", "10.7.0.0/24"} {
		t.Run("subnets "+subnets, func(t *testing.T) {
			a, _ := withTenants(t, tenant(t, "lan", contract.Localnet, subnets))
			node := newNode("n1", 1)
			decideNode(t, a, node)
			machine := func(name, of, mac string, second int) *corev1.Pod {
				pod := attached(newPod(name, "n1", second), fmt.Sprintf(`[{"name":"lan","mac":%q,"ips":["10.7.0.9/24"]}]`, mac))
				pod.Labels = map[string]string{contract.VMLabel: of}
				return pod
			}
			const mac = "02:00:00:00:00:09"
			source, target := machine("source", "db", mac, 2), machine("target", "db", mac, 3)
			thief, plain := machine("thief", "web", mac, 4), machine("plain", "", mac, 5)
			refused := func() {
				t.Helper()
				for _, pod := range []*corev1.Pod{thief, plain, machine("other", "db", "02:00:00:00:00:08", 6)} {
					if _, err := a.Pod(pod, node); !errors.Is(err, ErrRequest) {
						t.Errorf("pod %s has the address of the virtual machine: %v", pod.Name, err)
					}
				}
			}
			for _, row := range []*corev1.Pod{source, target, source} {
				for _, pod := range []*corev1.Pod{source, target} {
					decidePod(t, a, pod, node)
					wantEntry(t, pod, "ns/lan", "10.7.0.9/24")
				}
				refused()
				a.rebuild([]*corev1.Node{node}, []*corev1.Pod{source, target}, []Held{{
					Owner: owner(row).On("ns/lan"), Network: "lan", UID: row.UID, Addrs: []netip.Addr{netip.MustParseAddr("10.7.0.9")}, MAC: entry(t, row, "ns/lan").MAC,
				}})
				for _, pod := range []*corev1.Pod{source, target} {
					if d := decidePod(t, a, pod, node); d.Annotations != nil || d.Warning != "" || a.Allocated(pod, "ns/lan") == nil {
						t.Errorf("pod %s after a restart: %+v", pod.Name, d)
					}
				}
			}
			a.Addresses.Release(owner(source).On("ns/lan"), source.UID)
			refused()
			again := machine("again", "db", mac, 7)
			decidePod(t, a, again, node)
			a.Addresses.Release(owner(target).On("ns/lan"), target.UID)
			refused()
			a.Addresses.Release(owner(again).On("ns/lan"), again.UID)
			decidePod(t, a, thief, node)
			wantEntry(t, thief, "ns/lan", "10.7.0.9/24")
		})
	}
}
