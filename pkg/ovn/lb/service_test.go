package lb

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
)

// oneService is a View of nothing but a service and its endpoints.
type oneService struct {
	View
	service *corev1.Service
	slices  []*discoveryv1.EndpointSlice
}

func (v *oneService) Service(string, string) *corev1.Service                     { return v.service }
func (v *oneService) EndpointSlices(string, string) []*discoveryv1.EndpointSlice { return v.slices }
func (v *oneService) OnNodes(*discoveryv1.EndpointSlice) (bool, bool)            { return false, false }
func (v *oneService) NodeAddresses(contract.Family) ([]netip.Addr, bool)         { return nil, true }
func (v *oneService) IsHostAddress(netip.Addr) bool                              { return false }
func (v *oneService) NetworkOf(*corev1.Service) (string, *contract.Network, error) {
	return "", nil, nil
}
func (v *oneService) IsForeign(string, netip.Addr) bool { return false }
func (v *oneService) Zone() contract.Zone               { return contract.Zone{} }
func (v *oneService) ServiceSubnets() []netip.Prefix    { return nil }

// FuzzServiceAddresses: whatever stands where users write addresses, a service
// either fails or has frontends and backends that are addresses and ports.
func FuzzServiceAddresses(f *testing.F) {
	for _, text := range []string{"192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "fe80::1%eth0", "010.0.0.1", "", "^X", "1.2.3.4:80,5.6.7.8", "1.2.3.4\n"} {
		f.Add(text, "10.244.1.5", uint16(80))
		f.Add("192.0.2.1", text, uint16(0))
	}
	f.Fuzz(func(t *testing.T, external, behind string, number uint16) {
		port, name := int32(number), ""
		view := &oneService{service: &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"},
			Spec: corev1.ServiceSpec{
				ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10", "fd00:10:96::10"}, ExternalIPs: []string{external},
				Ports: []corev1.ServicePort{{Port: 80}},
			},
		}}
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			view.slices = append(view.slices, &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Namespace: "d", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
				AddressType: family, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{behind}}},
			})
		}
		rows, err := BuildService(view, contract.Network{}, contract.ServiceOwner("d", "web"))
		if err != nil {
			return
		}
		for _, row := range rows {
			for vip, some := range row.Model.(*nb.LoadBalancer).Vips {
				front := netip.MustParseAddrPort(vip)
				for text := range strings.SplitSeq(some, ",") {
					if text == "" {
						continue
					}
					if back := netip.MustParseAddrPort(text); back.Addr().Is4() != front.Addr().Is4() || back.Port() == 0 {
						t.Errorf("frontend %s with backend %s", vip, text)
					}
				}
			}
		}
	})
}

// onNodes is oneService with endpoints on the network of nodes.
type onNodes struct{ oneService }

func (v *onNodes) OnNodes(*discoveryv1.EndpointSlice) (bool, bool) { return true, false }

// TestService_LoadBalancersHaveDifferentIDs, whatever the policies of a service: two rows
// of one id would take turns in the database for ever.
func TestService_LoadBalancersHaveDifferentIDs(t *testing.T) {
	yes, port, name := true, int32(80), ""
	for _, local := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.10", ExternalIPs: []string{"192.0.2.1"},
				Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}},
			},
		}
		if inside := corev1.ServiceInternalTrafficPolicyLocal; local[0] {
			service.Spec.InternalTrafficPolicy = &inside
		}
		if local[1] {
			service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "d", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"172.18.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
		}
		one := oneService{service: service, slices: []*discoveryv1.EndpointSlice{slice}}
		for _, view := range []View{&one, &onNodes{one}} {
			rows, err := BuildService(view, contract.Network{}, contract.ServiceOwner("d", "web"))
			if err != nil || len(rows) == 0 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			ids := map[string]bool{}
			for _, row := range rows {
				if ids[row.ID] {
					t.Errorf("%T, internal and external policy local %t: two rows %s", view, local, row.ID)
				}
				ids[row.ID] = true
			}
		}
	}
}

// FuzzHostPorts: a pod's port on its node is at addresses of the node alone, at the
// one that the pod names if it is one, and leads to the pod.
func FuzzHostPorts(f *testing.F) {
	for _, text := range []string{"", "0.0.0.0", "::", "172.18.0.2", "::ffff:172.18.0.2", "fc00::2", "fc00::2%eth0", "127.0.0.1", "x"} {
		f.Add(text, int32(8080), int32(80))
		f.Add(text, int32(65536+22), int32(0))
	}
	f.Add("", int32(-1), int32(65536+22))
	own := []netip.Addr{netip.MustParseAddr("172.18.0.2"), netip.MustParseAddr("fc00::2")}
	network := &contract.PodNetwork{Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.5/24"), netip.MustParsePrefix("fd00:10:244:1::5/64")}}
	f.Fuzz(func(t *testing.T, hostIP string, hostPort, containerPort int32) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{HostIP: hostIP, HostPort: hostPort, ContainerPort: containerPort},
		}}}}}
		at := map[netip.Addr]bool{}
		for _, row := range HostPorts(contract.Network{}, contract.Zone{}, pod, own, network) {
			for vip, behind := range row.Model.(*nb.LoadBalancer).Vips {
				front, back := netip.MustParseAddrPort(vip), netip.MustParseAddrPort(behind)
				if int32(front.Port()) != hostPort || hostPort == 0 || int32(back.Port()) != containerPort || containerPort == 0 {
					t.Errorf("port %d at %d is %s to %s", containerPort, hostPort, vip, behind)
				}
				if own, _ := contract.FamilyOf(front.Addr()).Pick(network.Addresses); own.Addr() != back.Addr() {
					t.Errorf("%s leads to %s, which is not the pod", vip, behind)
				}
				at[front.Addr()] = true
			}
		}
		want := map[netip.Addr]bool{}
		only, _ := netip.ParseAddr(hostIP)
		for _, address := range own {
			valid := min(hostPort, containerPort) > 0 && max(hostPort, containerPort) < 65536
			if valid && (hostIP == "" || only.IsUnspecified() || only.Unmap() == address) {
				want[address] = true
			}
		}
		if !maps.Equal(at, want) {
			t.Errorf("port %d at %q port %d is at %v, want %v", containerPort, hostIP, hostPort, at, want)
		}
	})
}

// manyNodes is oneService in a cluster with more nodes than have frontends of their own.
type manyNodes struct{ oneService }

func (v *manyNodes) NodeAddresses(contract.Family) ([]netip.Addr, bool) { return nil, false }

// TestNodePort_AffinityOnManyNodesIsByHash: one frontend in place of one for each node.
func TestNodePort_AffinityOnManyNodesIsByHash(t *testing.T) {
	port, name := int32(80), ""
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.10", SessionAffinity: corev1.ServiceAffinityClientIP,
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}},
		},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "d", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.5"}}},
	}
	rows, err := BuildService(&manyNodes{oneService{service: service, slices: []*discoveryv1.EndpointSlice{slice}}}, contract.Network{}, contract.ServiceOwner("d", "web"))
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		lb := row.Model.(*nb.LoadBalancer)
		byHash, timed := len(lb.SelectionFields) > 0, lb.Options["affinity_timeout"] != ""
		_, atNodes := lb.Vips["^NODEIP_IPv4_0:30080"]
		if len(lb.Vips) != 1 || byHash != atNodes || timed == atNodes {
			t.Errorf("%s: %v, by hash %t, timed %t", lb.Name, lb.Vips, byHash, timed)
		}
	}
}

// TestService_ManyNodeEndpointsAreNotListed: a router lists every endpoint while they are few; a
// service with one on every node is not a list of all nodes for each.
func TestService_ManyNodeEndpointsAreNotListed(t *testing.T) {
	net := scope{Zone: contract.Zone{MasqueradeSubnets: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/17")}}}
	var all []endpoint
	for i := range 5 {
		all = append(all, endpoint{address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 18, 0, byte(i + 2)}), 9100), ready: true})
	}
	if got := seenByRouter(net, nil, all, true); len(got) != len(all) {
		t.Errorf("a node without one sees %d of %d", len(got), len(all))
	}
	own := []netip.Addr{all[3].address.Addr()}
	if got := backends(seenByRouter(net, own, all, true)); got != "169.254.0.2:9100" {
		t.Errorf("a node with one of many sees %s", got)
	}
	if got := seenByRouter(net, own, all, false); len(got) != len(all) || backends(got[:1]) != "169.254.0.2:9100" {
		t.Errorf("a node with one of few sees %s", backends(got))
	}
}

// large is a service with ports, external addresses and endpoints.
func large(ports, external, endpoints int) *oneService {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"}},
	}
	view := &oneService{service: service}
	for i := range external {
		service.Spec.ExternalIPs = append(service.Spec.ExternalIPs, netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}).String())
	}
	for i := 0; i < endpoints; i += 1000 {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "d"}, AddressType: discoveryv1.AddressTypeIPv4}
		for j := i; j < min(i+1000, endpoints); j++ {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{netip.AddrFrom4([4]byte{10, 8, byte(j >> 8), byte(j)}).String()}})
		}
		view.slices = append(view.slices, slice)
	}
	for i := range ports {
		number, name := int32(i+1), fmt.Sprint("p", i)
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: name, Port: number})
		for _, slice := range view.slices {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number})
		}
	}
	return view
}

// TestService_BeyondTheLimitIsNotServed: the first ports that fit are. Cluster address, nodes and 18 external addresses count
// 20 times for each of 5,000 endpoints, so ten ports fit. Ports, endpoints or addresses alone do not reach the limit.
func TestService_BeyondTheLimitIsNotServed(t *testing.T) {
	for name, tc := range map[string]struct {
		view    *oneService
		vips    int
		refused string
	}{
		"at the limit":            {large(10, 18, 5000), 10 * 19, ""},
		"beyond the limit":        {large(12, 18, 5000), 10 * 19, "11/TCP (IPv4), 12/TCP (IPv4)"},
		"many ports":              {large(20000, 0, 1), 20000, ""},
		"many endpoints":          {large(1, 0, 60000), 1, ""},
		"many addresses":          {large(1, 60000, 1), 60001, ""},
		"addresses and endpoints": {large(2, 49998, 100), 0, "1/TCP (IPv4), 2/TCP (IPv4)"},
	} {
		rows, err := BuildService(tc.view, contract.Network{}, contract.ServiceOwner("d", "web"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		vips := 0
		for _, row := range rows {
			vips += len(row.Model.(*nb.LoadBalancer).Vips)
		}
		refused := RefusedPorts(tc.view, contract.Network{}, types.NamespacedName{Namespace: "d", Name: "web"})
		if vips != tc.vips || refused != tc.refused {
			t.Errorf("%s: %d frontends, want %d; not served %q, want %q", name, vips, tc.vips, refused, tc.refused)
		}
	}
}

// TestService_TimeGrowsWithItsLists: 64 times the external addresses, endpoints of others or ports may take about 64 times the
// time of the processor, and not 4,096 times.
func TestService_TimeGrowsWithItsLists(t *testing.T) {
	used := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	build := func(view View, times int) time.Duration {
		began := used()
		for range times {
			if _, err := BuildService(view, contract.Network{}, contract.ServiceOwner("d", "web")); err != nil {
				t.Fatal(err)
			}
		}
		return used() - began
	}
	for name, of := range map[string]func(n int) View{
		"external addresses": func(n int) View { return large(1, n, 1) },
		"foreign endpoints":  func(n int) View { return &foreignOnly{large(1, 0, n)} },
		"ports":              func(n int) View { return large(n, 0, 1) },
	} {
		some, many := build(of(1000), 64), build(of(64000), 1)
		t.Logf("%s: 64 times 1,000 take %s, 64,000 take %s", name, some, many)
		if many > 8*some {
			t.Errorf("%s: 64 times 1,000 take %s, 64,000 take %s", name, some, many)
		}
	}
}

// BenchmarkService_AtTheLimit is what a service with 1,000,000 backends costs: docs/limits.md has the time.
func BenchmarkService_AtTheLimit(b *testing.B) {
	view := large(10, 18, 5000)
	for b.Loop() {
		if _, err := BuildService(view, contract.Network{}, contract.ServiceOwner("d", "web")); err != nil {
			b.Fatal(err)
		}
	}
}

// foreignOnly has endpoints in the subnets of networks of others.
type foreignOnly struct{ *oneService }

func (v *foreignOnly) IsForeign(string, netip.Addr) bool { return true }
