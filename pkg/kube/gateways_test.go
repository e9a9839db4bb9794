package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

// byHand is a View without an API: put is an event, and marked are the owners that it marked.
type byHand struct {
	*ClusterView
	marked []string
}

func newByHand(t testing.TB) *byHand {
	t.Helper()
	view, err := NewClusterView(apitest.Client(fake.NewClientset()))
	if err != nil {
		t.Fatal(err)
	}
	v := &byHand{ClusterView: view}
	view.OnChange(func(owners ...contract.Owner) {
		for _, owner := range owners {
			v.marked = append(v.marked, owner.String())
		}
	})
	return v
}

// put makes objects what they are now, and forgets what it marked before.
func (v *byHand) put(t testing.TB, objects ...any) {
	t.Helper()
	v.marked = nil
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.Node:
			v.notify(v.nodeOwners(set(t, v.nodes, object), object)...)
		case *corev1.Service:
			v.notify(v.ServiceChanged(set(t, v.services, object), object)...)
		case *discoveryv1.EndpointSlice:
			v.notify(v.SliceChanged(set(t, v.endpoints, object), object)...)
		}
	}
}

// set puts an object into an informer's cache and returns the one before.
func set[T any](t testing.TB, s store[T], object *T) *T {
	t.Helper()
	old, _, err := s.GetIndexer().Get(object)
	if err == nil {
		err = s.GetIndexer().Update(object)
	}
	if err != nil {
		t.Fatal(err)
	}
	before, _ := old.(*T)
	return before
}

// onNodes are the services with an EndpointSlice on the network of nodes.
func (v *byHand) onNodes() map[types.NamespacedName]bool {
	found := map[types.NamespacedName]bool{}
	for _, slice := range v.endpoints.All() {
		if on, _ := v.OnNodes(slice); on {
			found[service.Of(slice)] = true
		}
	}
	return found
}

// want compares the owners that the last put marked.
func (v *byHand) want(t testing.TB, what string, owners ...string) {
	t.Helper()
	slices.Sort(owners)
	if diff := cmp.Diff(owners, slices.Compact(slices.Sorted(slices.Values(v.marked)))); diff != "" {
		t.Errorf("%s marked (-want +got):\n%s", what, diff)
	}
}

// gatewayNode has these addresses at its gateway.
func gatewayNode(name string, addresses ...string) *corev1.Node {
	if len(addresses) == 0 {
		return newNode(name, nil)
	}
	node := newNode(name, map[string]string{
		contract.GatewayConfigKey: `{"default":{"mode":"shared","ip-addresses":["` + strings.Join(addresses, `/16","`) + `/16"]}}`,
	})
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return node
}

// addressNode is a gatewayNode with other addresses in its status.
func addressNode(name string, claims, status []string) *corev1.Node {
	node := gatewayNode(name, claims...)
	node.Status.Addresses = nil
	for _, address := range status {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return node
}

// TestGatewayAddresses_AreOneOfEachFamilyThatNoOtherNodeHas, however many a node claims.
func TestGatewayAddresses_AreOneOfEachFamilyThatNoOtherNodeHas(t *testing.T) {
	var many []string
	for i := range 8000 {
		many = append(many, fmt.Sprintf("10.%d.%d.1", i/250, i%250))
	}
	for name, c := range map[string]struct {
		claims, status, others []string
		dpu                    bool
		want                   string
	}{
		"as in the status":              {[]string{"172.18.0.2", "fd00::2"}, []string{"172.18.0.2", "fd00::2"}, nil, false, "[172.18.0.2 fd00::2]"},
		"another form":                  {[]string{"fd00::1", "fd00::2"}, []string{"FD00:0::2"}, nil, false, "[fd00::2]"},
		"the second is in the status":   {[]string{"172.18.0.9", "172.18.0.2"}, []string{"172.18.0.2"}, nil, false, "[172.18.0.2]"},
		"on another NIC":                {[]string{"10.9.0.1", "10.9.0.2"}, []string{"172.18.0.2"}, []string{"172.18.0.3"}, false, "[10.9.0.1]"},
		"a family without status":       {[]string{"172.18.0.2", "fd00::2"}, []string{"172.18.0.2"}, nil, false, "[172.18.0.2 fd00::2]"},
		"another node's":                {[]string{"172.18.0.3"}, []string{"172.18.0.2"}, []string{"172.18.0.3"}, false, "[]"},
		"another node's, one family":    {[]string{"172.18.0.2", "fd00::3"}, []string{"172.18.0.2"}, []string{"fd00::3"}, false, "[172.18.0.2]"},
		"another node's, then one free": {[]string{"172.18.0.3", "10.9.0.1"}, []string{"172.18.0.2"}, []string{"172.18.0.3"}, false, "[]"},
		"another claims its status":     {[]string{"172.18.0.2"}, []string{"172.18.0.2"}, []string{"172.18.0.2"}, false, "[172.18.0.2]"},
		"many":                          {many, many, nil, false, "[10.0.0.1]"},
		"many without status":           {many, nil, nil, false, "[10.0.0.1]"},
		"a DPU's":                       {[]string{"172.18.0.9", "172.18.0.10"}, []string{"172.18.0.2"}, []string{"172.18.0.9"}, true, "[172.18.0.9]"},
	} {
		node := addressNode("n1", c.claims, c.status)
		if c.dpu {
			node.Labels = map[string]string{contract.DPUHostLabel: ""}
		}
		v := newByHand(t)
		v.put(t, node, addressNode("n2", nil, c.others))
		if got := fmt.Sprint(v.GatewayAddresses(node)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestGatewayAddresses_AnotherNodesStatusIsShown to the node that claims the address, and
// to the owners that it concerns, when it comes and when it goes.
func TestGatewayAddresses_AnotherNodesStatusIsShown(t *testing.T) {
	v := newByHand(t)
	claims := addressNode("n1", []string{"10.9.0.1"}, []string{"172.18.0.2"})
	v.put(t, portService("clings", 30002, corev1.ServiceAffinityClientIP), portService("agent", 0, ""), portSlice("agent", "agent-1", 9100, "10.9.0.1"),
		newNode("n2", nil), claims)
	v.put(t, newNode("n3", nil))
	look := func(when, own, all string, on bool, marked ...string) {
		t.Helper()
		v.want(t, when, marked...)
		addresses, _ := v.NodeAddresses(contract.IPv4)
		if got := fmt.Sprint(v.GatewayAddresses(claims), addresses); got != own+" "+all {
			t.Errorf("%s: %s, want %s %s", when, got, own, all)
		}
		if got, _ := v.OnNodes(portSlice("agent", "agent-1", 9100, "10.9.0.1")); got != on {
			t.Errorf("%s: on nodes %t", when, got)
		}
	}
	look("nothing", "[10.9.0.1]", "[10.9.0.1]", true, "Node/n3")
	v.put(t, addressNode("n2", nil, []string{"10.9.0.1"}))
	look("the other's status", "[]", "[]", false,
		"Node/n2", "NodeServices/n1", "NodeServices/n2", "NodeServices/n3", "Service/ns/agent", "Service/ns/clings")
	v.put(t, addressNode("n2", nil, []string{"172.18.0.3"}))
	look("without it", "[10.9.0.1]", "[10.9.0.1]", true,
		"Node/n2", "NodeServices/n1", "NodeServices/n2", "NodeServices/n3", "Service/ns/agent", "Service/ns/clings")
}

// TestNodeAddresses_OfFewNodesOnly: beyond, nodes that come concern no service.
func TestNodeAddresses_OfFewNodesOnly(t *testing.T) {
	v := newByHand(t)
	v.put(t, portService("clings", 30002, corev1.ServiceAffinityClientIP))
	for i := range 32 + 2 {
		v.put(t, gatewayNode(fmt.Sprint("n", i), nodeAddress(i)))
		marked := slices.Contains(v.marked, "Service/ns/clings")
		addresses, few := v.NodeAddresses(contract.IPv4)
		if n := i + 1; few != (n <= 32) || few && len(addresses) != n || marked != (n <= 32+1) {
			t.Errorf("%d nodes: %d addresses, few %t, service marked %t", n, len(addresses), few, marked)
		}
	}
	v.put(t, gatewayNode("n0"))
	v.put(t, gatewayNode("n1"))
	if _, few := v.NodeAddresses(contract.IPv4); !few || !slices.Contains(v.marked, "Service/ns/clings") {
		t.Errorf("few again: %t, marked %v", few, v.marked)
	}
}

func portService(name string, nodePort int32, affinity corev1.ServiceAffinity) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", SessionAffinity: affinity, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}}},
	}
}

// portSlice has endpoints at one port.
func portSlice(service, name string, port int32, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}

func nodeAddress(i int) string { return fmt.Sprintf("172.18.%d.%d", i/250, 1+i%250) }

// manyServices is a View with many services, such as answer at ports of nodes, and one of
// them for each of ten with affinity, and an agent with an endpoint on every node to come.
func manyServices(t testing.TB, services, nodes int) *byHand {
	t.Helper()
	v := newByHand(t)
	for i := range services {
		affinity := corev1.ServiceAffinityNone
		if i%10 == 0 {
			affinity = corev1.ServiceAffinityClientIP
		}
		v.put(t, portService(fmt.Sprint("web-", i), int32(30000+i), affinity), portSlice(fmt.Sprint("web-", i), fmt.Sprint("web-", i), 80, "10.244.0.5"))
	}
	v.put(t, portService("agent", 0, corev1.ServiceAffinityNone))
	for from := 0; from < nodes; from += 100 {
		var addresses []string
		for i := from; i < min(from+100, nodes); i++ {
			addresses = append(addresses, nodeAddress(i))
		}
		v.put(t, portSlice("agent", fmt.Sprint("agent-", from), 9100, addresses...))
	}
	return v
}

// TestView_NewNodeMarksFewOwners: the owners that new nodes concern are in
// proportion to their number.
func TestView_NewNodeMarksFewOwners(t *testing.T) {
	for _, nodes := range []int{150, 300} {
		v := manyServices(t, 50, nodes)
		marked := 0
		for i := range nodes {
			v.put(t, gatewayNode(fmt.Sprint("n", i), nodeAddress(i)))
			marked += len(v.marked)
		}
		// Each itself and its part in services, and while they are few the five services
		// with affinity; with the first one the agent comes onto the network of nodes.
		if want := 2*nodes + 5*(32+1) + 2; marked != want {
			t.Errorf("%d owners were marked for %d nodes, want %d", marked, nodes, want)
		}
		if got := len(v.onNodes()); got != 1 {
			t.Errorf("%d services are on the network of nodes, want the agent alone", got)
		}
	}
}

// TestView_NodeAddressMarksAffectedServices: services that they concern are marked
// when it is made, and when it goes.
func TestView_NodeAddressMarksAffectedServices(t *testing.T) {
	v := newByHand(t)
	v.put(t, portService("inside", 0, ""), portService("port", 30001, ""), portService("clings", 30002, corev1.ServiceAffinityClientIP),
		portService("agent", 0, ""), portSlice("agent", "agent-1", 9100, "172.18.0.2", "172.18.0.3"), portSlice("agent", "agent-2", 9100, "172.18.0.4"),
		portSlice("agent", "agent-3", 9101, "172.18.0.4"), newNode("n1", nil), newNode("n2", nil))
	for _, step := range []struct {
		node      string
		addresses []string
		services  []string
		all       bool // nodes
	}{
		{"n1", []string{"172.18.0.9"}, []string{"clings"}, false},
		{"n1", []string{"172.18.0.2"}, []string{"clings", "agent"}, true},
		{"n2", []string{"172.18.0.3"}, []string{"clings"}, false},
		{"n2", []string{"172.18.0.3", "172.18.0.8"}, nil, false},
		{"n2", []string{"172.18.0.4"}, []string{"clings", "agent"}, true}, // at another port
		{"n2", []string{"172.18.0.3"}, []string{"clings", "agent"}, true},
		{"n1", nil, []string{"clings"}, false},
		{"n2", nil, []string{"clings", "agent"}, true},
	} {
		v.put(t, gatewayNode(step.node, step.addresses...))
		want := []string{"Node/" + step.node, "NodeServices/" + step.node}
		if step.all {
			want = []string{"Node/" + step.node, "NodeServices/n1", "NodeServices/n2"}
		}
		for _, service := range step.services {
			want = append(want, "Service/ns/"+service)
		}
		v.want(t, fmt.Sprint(step.node, step.addresses), want...)
	}
	if got := v.onNodes(); len(got) > 0 {
		t.Errorf("on the network of nodes without an address: %v", got)
	}
}

// TestView_EndpointsMarkAffectedNodes: where one slice of a service gives other backends to all
// nodes, so do changes of its others.
func TestView_EndpointsMarkAffectedNodes(t *testing.T) {
	hinted := func(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
		slice.Endpoints[0].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}}
		return slice
	}
	for name, c := range map[string]struct {
		first *discoveryv1.EndpointSlice
		all   bool
	}{
		"pods":             {portSlice("web", "web-1", 80, "10.244.0.5"), false},
		"hints":            {hinted(portSlice("web", "web-1", 80, "10.244.0.5")), true},
		"a node":           {portSlice("web", "web-1", 81, "172.18.0.2"), true},
		"a node's service": {portSlice("agent", "agent-1", 80, "172.18.0.2"), false},
	} {
		v := newByHand(t)
		v.put(t, gatewayNode("n1", "172.18.0.2"), gatewayNode("n2", "172.18.0.3"), portService("web", 0, ""), c.first)
		v.put(t, portSlice("web", "web-2", 80, "10.244.0.6"))
		if c.all {
			v.want(t, "beside "+name, "NodeServices/n1", "NodeServices/n2", "Service/ns/web")
		} else {
			v.want(t, "beside "+name, "Service/ns/web")
		}
		v.put(t, portSlice("web", "web-2", 80, "172.18.0.3"))
		v.want(t, name+", then a node", "NodeServices/n1", "NodeServices/n2", "Service/ns/web")
	}
}

// TestView_OneOfManyEndpointsMarksItsNodes: the nodes of its slice and those that have none,
// which list all; and all nodes while they are few.
func TestView_OneOfManyEndpointsMarksItsNodes(t *testing.T) {
	const nodes = 150
	v := manyServices(t, 0, nodes)
	for i := range nodes {
		v.put(t, gatewayNode(fmt.Sprint("n", i), nodeAddress(i)))
	}
	v.put(t, gatewayNode("without", "172.19.0.1"))
	last := portSlice("agent", "agent-100", 9100)
	want := []string{"NodeServices/without", "Service/ns/agent"}
	for i := 100; i < nodes; i++ {
		want = append(want, fmt.Sprint("NodeServices/n", i))
		if i > 100 {
			last.Endpoints = append(last.Endpoints, discoveryv1.Endpoint{Addresses: []string{nodeAddress(i)}})
		}
	}
	v.put(t, last)
	v.want(t, "one that goes", want...)
	v.put(t, portSlice("agent", "agent-pods", 9100, "10.244.0.5"))
	v.want(t, "one in a pod", "NodeServices/n100", "NodeServices/without", "Service/ns/agent")
	v.put(t, portSlice("agent", "agent-0", 9100)) // 49 are left
	no := false
	for _, ready := range []int{33, 32, 33} {
		some := last.DeepCopy()
		for i := ready; i < len(some.Endpoints); i++ {
			some.Endpoints[i].Conditions.Ready = &no
		}
		v.put(t, some)
		if on, many := v.OnNodes(some); !on || many != (ready > 32) {
			t.Errorf("with %d ready: on nodes %t, many %t", ready, on, many)
		}
		if len(v.marked) < nodes {
			t.Errorf("with %d ready, after what was many or few: %d marked", ready, len(v.marked))
		}
	}
}

// TestGatewayAddresses_MarkLocalServicesWithEndpointsThere: other nodes find these
// at the node's address; services without a node port or with policy Cluster are not led there.
func TestGatewayAddresses_MarkLocalServicesWithEndpointsThere(t *testing.T) {
	v := newByHand(t)
	for name, port := range map[string]int32{"local": 30001, "internal": 0, "cluster": 30002} {
		web := portService(name, port, "")
		if name != "cluster" {
			web.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		v.put(t, web, newSlice(name, name, discoveryv1.AddressTypeIPv4, "10.244.1.5@n1"))
	}
	v.put(t, gatewayNode("n2", "172.18.0.3"))
	v.want(t, "a node without endpoints", "Node/n2", "NodeServices/n2")
	v.put(t, gatewayNode("n1", "172.18.0.2"))
	v.want(t, "a node with endpoints", "Node/n1", "NodeServices/n1", "Service/ns/local")
	v.put(t, addressNode("n2", []string{"172.18.0.3"}, []string{"172.18.0.3", "172.18.0.2"}))
	if !slices.Contains(v.marked, "Service/ns/local") {
		t.Errorf("another node has the address in its status too: %v marked", v.marked)
	}
	v.put(t, gatewayNode("n1"))
	if !slices.Contains(v.marked, "Service/ns/local") {
		t.Errorf("the node has no address any more: %v marked", v.marked)
	}
}

// TestOnNodes_FindsEndpointsWithNodeAddress: an IPv6 address has several forms, and a slice may change its service.
func TestOnNodes_FindsEndpointsWithNodeAddress(t *testing.T) {
	v := newByHand(t)
	on := func(slice *discoveryv1.EndpointSlice) bool {
		on, _ := v.OnNodes(slice)
		return on
	}
	slice := portSlice("web", "web-1", 80, "FD00:0::2")
	v.put(t, slice)
	if on(slice) {
		t.Error("on nodes before there is one")
	}
	v.put(t, gatewayNode("n1", "fd00::2"))
	if !on(slice) {
		t.Error("not on the network of the node")
	}
	other := portSlice("other", "web-1", 80, "fd00::2")
	v.put(t, other)
	if on(slice) || !on(other) || len(v.onNodes()) != 1 {
		t.Errorf("after it became another service's: %v", v.onNodes())
	}
	v.put(t, gatewayNode("n1"))
	if on(other) || len(v.onNodes()) != 0 {
		t.Error("still on nodes")
	}
}

// BenchmarkNodesCome: 5,000 services, and nodes that come one by one. What is
// reported for each node does not depend on their number.
func BenchmarkNodesCome(b *testing.B) {
	for _, nodes := range []int{500, 1000, 2000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			marked := 0
			for b.Loop() {
				b.StopTimer()
				v := manyServices(b, 5000, nodes)
				b.StartTimer()
				for i := range nodes {
					v.put(b, gatewayNode(fmt.Sprint("n", i), nodeAddress(i)))
					marked += len(v.marked)
				}
			}
			b.ReportMetric(float64(marked)/float64(b.N*nodes), "owners/node")
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*nodes), "us/node")
		})
	}
}
