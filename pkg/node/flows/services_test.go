package flows

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

func addrPorts(texts ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, text := range texts {
		out = append(out, netip.MustParseAddrPort(text))
	}
	return out
}

// unserved has addresses and node ports that are not ours.
func unserved(spec corev1.ServiceSpec, labels map[string]string) *corev1.Service {
	spec.ExternalIPs, spec.Ports = []string{"203.0.113.50"}, []corev1.ServicePort{{Port: 2222, NodePort: 30222}}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
}

// TestPortsOf_NodePortsHostPortsAndExternalAddresses: the service's own address is not one of them;
// what cannot be read is left out, the rest is not.
func TestPortsOf_NodePortsHostPortsAndExternalAddresses(t *testing.T) {
	proxy := corev1.LoadBalancerIPModeProxy
	services := []*corev1.Service{
		{Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIPs: []string{"10.96.0.10", "fd00:10:96::10"},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053}, {Port: 80, NodePort: 30080}},
		}},
		{Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.11"}, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			ExternalIPs:              []string{"198.51.100.1", "nonsense", "fe80::1%eth0", "2001:db8::1"},
			LoadBalancerSourceRanges: []string{"2001:db8:1::9/64", " 192.0.2.0/24", "nonsense"},
			Ports:                    []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 443}},
		}, Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
			{IP: "2001:db8::1"}, {IP: "203.0.113.1", IPMode: &proxy}, {Hostname: "example.org"},
		}}}},
		{Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{"10.96.0.12"}, ExternalIPs: []string{"198.51.100.1"},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolSCTP, Port: 443}, {Protocol: corev1.ProtocolTCP, Port: 443}},
		}, Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}}}},
		// The router does not answer for these, so the node and its bridge must not lead anything to it.
		unserved(corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}}, nil),
		unserved(corev1.ServiceSpec{ClusterIPs: []string{"None"}}, nil),
		unserved(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "x.example"}, nil),
		unserved(corev1.ServiceSpec{}, nil),
		unserved(corev1.ServiceSpec{ClusterIP: "10.96.0.13", ClusterIPs: []string{"10.96.0.13"}}, map[string]string{"service.kubernetes.io/service-proxy-name": "mine"}),
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
		{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 81}, {ContainerPort: 53, HostPort: 5353, Protocol: corev1.ProtocolUDP, HostIP: "172.18.0.2"},
	}}}}}
	pod.Annotations = map[string]string{contract.PodNetworksKey: `{"default":{"ip_addresses":["10.244.1.5/24","fd00:10:244:1::5/64"],"mac_address":"0a:58:0a:f4:01:05"}}`}
	hostNetwork, without := pod.DeepCopy(), pod.DeepCopy()
	hostNetwork.Spec.HostNetwork, without.Annotations = true, nil
	pods := []*corev1.Pod{hostNetwork, pod, without}
	if !HasHostPorts(pod) || HasHostPorts(hostNetwork) || HasHostPorts(without) {
		t.Error("pods with host ports are missing")
	}
	want := Services{
		NodePorts: []NodePort{
			{Port{"tcp", 8080}, addrPorts("10.244.1.5:80", "[fd00:10:244:1::5]:80")},
			{Port{"tcp", 30080}, addrPorts("10.96.0.10:80", "[fd00:10:96::10]:80")},
			{Port{"udp", 30053}, addrPorts("10.96.0.10:53", "[fd00:10:96::10]:53")},
		},
		HostPorts: []Endpoint{{Addr: netip.MustParseAddr("172.18.0.2"), Port: Port{"udp", 5353}, Target: netip.MustParseAddrPort("10.244.1.5:53")}},
		External: []Endpoint{
			{Addr: netip.MustParseAddr("198.51.100.1"), Chosen: true, Port: Port{"sctp", 443}, Target: netip.MustParseAddrPort("10.96.0.12:443")},
			{Addr: netip.MustParseAddr("198.51.100.1"), Chosen: true, Port: Port{"tcp", 443}, Target: netip.MustParseAddrPort("10.96.0.11:443"), Local: true},
			{
				Addr: netip.MustParseAddr("2001:db8::1"), Port: Port{"tcp", 443}, Limited: true, Local: true,
				Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:1::/64")},
			},
		},
	}
	comparer := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	prefixes := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	ports := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
	if diff := cmp.Diff(want, PortsOf(services, pods, Elsewhere{}), comparer, prefixes, ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

// own are the addresses of a node.
var own = []netip.Prefix{netip.MustParsePrefix("172.18.0.2/16"), netip.MustParsePrefix("fc00:18::2/64")}

// TestPortsOf_Elsewhere: a node port whose service has no endpoint on the node answers
// the node's own processes where the router has those of other nodes, by its own number.
// Other services' answer by their own addresses.
func TestPortsOf_Elsewhere(t *testing.T) {
	object := func(name string, nodePort int32) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Spec: corev1.ServiceSpec{
			ClusterIPs: []string{"10.96.0.10", "fd00:10:96::10"}, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}},
		}}
	}
	got := PortsOf([]*corev1.Service{object("here", 30080), object("away", 30081)}, nil, Elsewhere{
		Services:   map[types.NamespacedName]bool{{Namespace: "d", Name: "away"}: true},
		Masquerade: nodetest.Prefixes("169.254.0.0/17", "fd69::/112"),
	})
	want := Services{NodePorts: []NodePort{
		{Port{"tcp", 30080}, addrPorts("10.96.0.10:80", "[fd00:10:96::10]:80")},
		{Port{"tcp", 30081}, addrPorts("169.254.0.8:30081", "[fd69::8]:30081")},
	}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

// TestPortsOf_HostIPIsAddressOfNode: the API server takes any text for a host port's address. One
// that is not the node's would lead the node's own packets to the router, say those
// to the API server.
func TestPortsOf_HostIPIsAddressOfNode(t *testing.T) {
	for address, want := range map[string]int{
		"172.18.0.2": 1, "::ffff:172.18.0.2": 1, "fc00:18::2": 1,
		"172.18.0.3": 0, "fe80::1%x": 0, "fc00:18::2%x": 0, "nonsense": 0,
	} {
		ports := PortsOf(nil, []*corev1.Pod{podAt(address)}, Elsewhere{}).At(own)
		if len(ports.External) != want || len(ports.HostPorts)+len(ports.NodePorts) != 0 {
			t.Errorf("%s: %+v", address, ports)
		}
	}
}

// podAt has a host port of an address.
func podAt(hostIP string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 6443, HostIP: hostIP}}}}}}
	pod.Annotations = map[string]string{contract.PodNetworksKey: `{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05"}}`}
	return pod
}

// FuzzPortsOf: whatever users write, every flow has addresses that ovs-ofctl reads,
// for it refuses a table as a whole.
func FuzzPortsOf(f *testing.F) {
	f.Add("172.18.0.2", "198.51.100.1", "203.0.113.1", "192.0.2.0/24")
	f.Add("fe80::1%x", "fe80::1%x", "::ffff:10.0.0.1%x", "2001:db8::%x/64")
	f.Add("fc00:18::2", "2001:db8::1", "0.0.0.0", "::ffff:192.0.2.0/120")
	address := regexp.MustCompile(`(?:nw|ipv6)_(?:src|dst)=([^, ]*)|set_field:([^-]*)->(?:nw|ipv6)_`)
	f.Fuzz(func(t *testing.T, hostIP, external, balanced, source string) {
		service := &corev1.Service{Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ExternalIPs: []string{external}, LoadBalancerSourceRanges: []string{source},
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}},
		}}
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: balanced}}
		w := Bridge{MAC: "02:42:ac:12:00:02", Uplink: 1, Routers: []Router{{Port: 2, Mark: MarkDefault}}, Addresses: own}
		w.Services = PortsOf([]*corev1.Service{service}, []*corev1.Pod{podAt(hostIP)}, Elsewhere{}).At(own)
		table := Table(w)
		for _, flow := range table {
			for _, found := range address.FindAllStringSubmatch(flow, -1) {
				text, _, _ := strings.Cut(found[1]+found[2], "/")
				if addr, err := netip.ParseAddr(text); err != nil || addr.Zone() != "" {
					t.Errorf("%q is no address: %s", text, flow)
				}
			}
		}
	})
}

// TestServicePorts_ChosenAddressOfOthersIsLeftOut: of addresses that the author of a
// service has chosen those are left out that are taken; those that a load balancer has
// given stay, also where both name the same.
func TestServicePorts_ChosenAddressOfOthersIsLeftOut(t *testing.T) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.10"}, Ports: []corev1.ServicePort{{Port: 80}},
		ExternalIPs: []string{"172.18.0.2", "10.96.0.1", "192.0.2.1", "10.244.1.5", "10.96.0.7"},
	}}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "172.18.0.9"}, {IP: "10.96.0.7"}}
	taken := []netip.Prefix{netip.MustParsePrefix("172.18.0.2/32"), netip.MustParsePrefix("172.18.0.9/32"), netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.244.0.0/16")}
	var got []string
	for _, e := range PortsOf([]*corev1.Service{service}, nil, Elsewhere{}).Without(taken).External {
		got = append(got, e.Addr.String())
	}
	nodetest.Equal(t, "addresses", strings.Join(got, " "), "10.96.0.7 172.18.0.9 192.0.2.1")
}

// TestServicePorts_ChosenAddressOnLinkIsAskedOnTheUplink: the node's own processes ask the
// router for a chosen address of another network only; external clients get all from it.
func TestServicePorts_ChosenAddressOnLinkIsAskedOnTheUplink(t *testing.T) {
	target := netip.MustParseAddrPort("10.96.0.10:80")
	at := func(addr string, chosen bool) Endpoint {
		return Endpoint{Addr: netip.MustParseAddr(addr), Port: Port{"tcp", 80}, Chosen: chosen, Local: true, Target: target}
	}
	services := Services{External: []Endpoint{at("172.18.0.3", true), at("172.18.0.4", false), at("192.0.2.1", true)}}
	router := Router{Port: 2, Mark: MarkDefault, Masquerade: Masquerades(nodetest.Prefixes("169.254.0.0/17"), nodetest.Prefixes("10.96.0.0/16"), own[:1])}
	w := Bridge{MAC: "02:00:00:00:00:01", Uplink: 1, Routers: []Router{router}, Addresses: own[:1], Services: services}
	var turned []string
	for _, e := range services.Redirected(own) {
		turned = append(turned, e.Addr.String())
	}
	nodetest.Equal(t, "turned by the kernel", strings.Join(turned, " "), "172.18.0.4 192.0.2.1")
	table := Table(w)
	for addr, want := range map[string]int{"172.18.0.3": 2, "172.18.0.4": 4, "192.0.2.1": 4} {
		n := 0
		for _, flow := range table {
			if strings.Contains(flow, "nw_dst="+addr+",") {
				n++
			}
		}
		if n != want {
			t.Errorf("%d flows to %s, want %d", n, addr, want)
		}
	}
}
