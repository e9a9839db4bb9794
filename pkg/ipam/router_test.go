package ipam

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// gatewayed gives a network of topology layer2 a router with an address in each subnet, and an exit.
func gatewayed(network contract.Network, gateways ...string) contract.Network {
	network.ID, network.Gateways, network.Exits = 3, nil, []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	for _, text := range gateways {
		gateway := netip.MustParsePrefix(text)
		network.Gateways = append(network.Gateways, gateway)
		network.Excluded = append(network.Excluded, netip.PrefixFrom(gateway.Addr(), gateway.Addr().BitLen()))
	}
	return network
}

// TestRouter_MACIsNoPods: no pod, pod of a claim or pod of a virtual machine gets a MAC of a router or node, by asking for
// it or by its address. Each gets another MAC.
func TestRouter_MACIsNoPods(t *testing.T) {
	like := netip.MustParseAddr("fd00:1::77")
	mac := contract.MACFromAddress(like) // is that of the gateway, too
	twin := netip.AddrFrom4([4]byte(mac[2:6]))
	flat := gatewayed(tenant(t, "flat", contract.Layer2, "fd00:1::/64,10.1.0.0/24"), "fd00:1::1/64", "10.1.0.1/24")
	twins := gatewayed(tenant(t, "twins", contract.Layer2, "fd00:1::/64,"+netip.PrefixFrom(twin, 24).Masked().String()), "fd00:1::1/64", twin.String()+"/24")
	chained := tenant(t, "chained", contract.Localnet, "10.2.0.0/24")
	chained.Gateways = prefixes(t, "10.2.0.0/24")
	chained.Gateways[0] = netip.MustParsePrefix("10.2.0.9/24")
	m := machines{tenants{"flat": flat, "twins": twins, "chained": chained, "routed": tenant(t, "routed", contract.Layer3, "10.3.0.0/16/24")}, map[string]*Claim{
		"vm": {Owner: contract.Owner{Kind: contract.KindIPAMClaim, Namespace: "ns", Name: "vm"}, UID: "claim", Network: "flat"},
	}}
	cfg := plan(t, "10.0.0.0/16/24")
	cfg.Further = m
	a := newAllocator(t, cfg)
	node := newNode("n1", 1)
	decideNode(t, a, node)
	for i, tc := range []struct {
		network, asks string
		free          bool
	}{
		{"flat", `"mac":"` + contract.MACFromAddress(netip.MustParseAddr("fd00:1::1")).String() + `"`, false},
		{"flat", `"mac":"0a:58:0a:01:00:01"`, false},
		{"flat", `"mac":"0a:58:0a:01:00:02"`, false},
		{"flat", `"mac":"0a:58:a9:fe:10:03"`, false}, // on the links to nodes
		{"flat", `"mac":"0a:58:0a:01:00:03"`, true},
		{"flat", `"mac":"0a:58:0a:01:00:01","ipam-claim-reference":"vm"`, false},
		{"flat", `"mac":"0a:58:0a:01:00:04","ipam-claim-reference":"vm"`, true},
		{"twins", `"ips":["fd00:1::77"]`, false},
		{"twins", `"ips":["fd00:1::78"]`, true},
		{"chained", `"mac":"0a:58:0a:02:00:09"`, false},
		{"chained", `"mac":"0a:58:0a:02:00:01"`, true},
		{"routed", `"mac":"0a:58:0a:03:00:01"`, false},
		{"routed", `"mac":"0a:58:0a:03:00:02"`, false},
		{"routed", `"mac":"0a:58:0a:03:00:03"`, true},
	} {
		for _, vm := range []string{"", "db"} {
			pod := attached(newPod(fmt.Sprint("p", i, vm), "n1", 2+i), fmt.Sprintf(`[{"name":%q,%s}]`, tc.network, tc.asks))
			if vm != "" {
				if tc.free {
					continue
				}
				pod.Labels = map[string]string{contract.VMLabel: vm}
			}
			_, err := a.Pod(pod, node)
			if tc.free && err != nil || !tc.free && (!errors.Is(err, ErrMACTaken) || !strings.Contains(err.Error(), "is a router's or a node's on network")) {
				t.Errorf("%s %s: %v", tc.network, tc.asks, err)
			}
		}
	}
	for i := range 0x80 { // none is derived from an address that is handed out
		pod := attached(newPod(fmt.Sprint("any", i), "n1", 50), "twins")
		decidePod(t, a, pod, node)
		if entry(t, pod, "ns/twins").MAC.String() == mac.String() {
			t.Fatalf("a pod has the router's MAC: %s", networkOf(t, pod))
		}
	}
}

// TestRouter_ComesToARunningPod: a network gets a gateway, whose address or MAC a pod has already, or had at an upgrade.
// The pod keeps what its interface has, and has an error that says what to do, also after a restart from rows and from
// annotations. A new pod gets another address, and one beside it has no error.
func TestRouter_ComesToARunningPod(t *testing.T) {
	a, networks := withTenants(t, tenant(t, "blue", contract.Layer2, "10.1.0.0/24"))
	node := newNode("n1", 1)
	decideNode(t, a, node)
	mac := attached(newPod("mac", "n1", 2), `[{"name":"blue","mac":"0a:58:0a:01:00:01","ips":["10.1.0.7"]}]`)
	addr := attached(newPod("addr", "n1", 3), `[{"name":"blue","mac":"02:00:00:00:00:01","ips":["10.1.0.1"]}]`)
	other := attached(newPod("other", "n1", 4), "blue")
	for _, pod := range []*corev1.Pod{mac, addr, other} {
		decidePod(t, a, pod, node)
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.4"}}
	}
	networks["blue"] = gatewayed(tenant(t, "blue", contract.Layer2, "10.1.0.0/24"), "10.1.0.1/24")
	row := func(pod *corev1.Pod) Held {
		has := entry(t, pod, "ns/blue")
		return Held{Owner: owner(pod).On("ns/blue"), Network: "blue", UID: pod.UID, Addrs: addressesOf(has), MAC: has.MAC}
	}
	for _, rows := range [][]Held{nil, {row(mac), row(addr), row(other)}, nil} {
		for pod, what := range map[*corev1.Pod]string{mac: "MAC 0a:58:0a:01:00:01", addr: "address 10.1.0.1"} {
			had := entry(t, pod, "ns/blue")
			d, err := a.Pod(pod, node)
			if !errors.Is(err, ErrRequest) || !strings.Contains(fmt.Sprint(err), what+" of the pod is also that of the router of network blue") || d.Warning != "" {
				t.Errorf("pod %s: %+v, %v", pod.Name, d, err)
			}
			maps.Copy(pod.Annotations, d.Annotations) // with the routes by the gateway
			if got := a.Allocated(pod, "ns/blue"); got == nil || got.Addresses[0] != had.Addresses[0] || got.MAC.String() != had.MAC.String() {
				t.Errorf("pod %s has lost what its interface has: %+v", pod.Name, got)
			}
		}
		if d := decidePod(t, a, other, node); d.Warning != "" {
			t.Errorf("the pod beside them: %+v", d)
		}
		wantEntry(t, other, "ns/blue", "10.1.0.2/24")
		a.rebuild([]*corev1.Node{node}, []*corev1.Pod{mac, addr, other}, rows)
	}
	fresh := attached(newPod("fresh", "n1", 5), "blue")
	decidePod(t, a, fresh, node)
	wantEntry(t, fresh, "ns/blue", "10.1.0.3/24")
	networks["blue"] = tenant(t, "blue", contract.Layer2, "10.1.0.0/24")
	decidePod(t, a, mac, node)
	decidePod(t, a, addr, node)
}
