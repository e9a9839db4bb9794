package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

func gatewayNode(name string, i int) *corev1.Node {
	node := testNode(name)
	node.Annotations[kube.GatewayConfigKey] = fmt.Sprintf(`{"default":{"mode":"shared","interface-id":"breth0_%s","mac-address":"02:42:ac:12:00:%02x",`+
		`"ip-addresses":["172.18.0.%d/16"],"next-hops":["172.18.0.1"]}}`, name, i, i)
	return node
}

func testService(name, clusterIP string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}

// testSlice has an endpoint on each node named.
func testSlice(service string, nodes ...string) *discoveryv1.EndpointSlice {
	port, protocol, name := int32(8080), corev1.ProtocolTCP, ""
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "d", Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for i, node := range nodes {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%s.%d", node[1:], 10+i)}, NodeName: &node})
	}
	return slice
}

// balancers is what the database holds of services, without UUIDs.
func (w *world) balancers() []string {
	w.t.Helper()
	names := map[string]string{}
	var lines []string
	for line := range strings.Lines(w.server.Dump("Load_Balancer", "_uuid", "name")) {
		uuid, name, _ := strings.Cut(strings.TrimSpace(line), ",")
		names[uuid] = name
	}
	for line := range strings.Lines(w.server.Dump("Load_Balancer_Group", "load_balancer", "name")) {
		for uuid, name := range names {
			line = strings.ReplaceAll(line, uuid, name)
		}
		members := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("[]\", \n", r) })
		slices.Sort(members)
		lines = append(lines, strings.Join(members, " "))
	}
	for _, dump := range []string{w.server.Dump("Load_Balancer", "name", "options", "selection_fields", "vips"), w.server.Dump("Chassis_Template_Var", "chassis", "variables")} {
		lines = append(lines, strings.Split(strings.TrimSpace(dump), "\n")...)
	}
	slices.Sort(lines)
	return lines
}

func (w *world) has(text string) bool {
	return strings.Contains(strings.Join(w.balancers(), "\n"), text)
}

// TestServiceChangesInPlace: whatever a service was, nothing of it stays.
func TestServiceChangesInPlace(t *testing.T) {
	w := newWorld(t, gatewayNode("n1", 2), gatewayNode("n2", 3))
	services, endpoints := w.client.CoreV1().Services("d"), w.client.DiscoveryV1().EndpointSlices("d")
	w.eventually("the nodes' addresses", func() bool { return w.has("172.18.0.2") && w.has("172.18.0.3") })
	empty := w.balancers()
	service := testService("web", "10.96.0.10")
	update := func(change func()) {
		t.Helper()
		change()
		if _, err := services.Update(t.Context(), service, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("a frontend that rejects", func() bool { return w.has(`10.96.0.10:80`) && !w.has("10.244.") })
	if _, err := endpoints.Create(t.Context(), testSlice("web", "n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("a backend", func() bool { return w.has("10.244.1.10:8080") })
	update(func() {
		service.Spec.Type, service.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
		service.Spec.Ports[0].NodePort = 30080
	})
	w.eventually("a node port with local backends", func() bool { return w.has("LOCAL.d.web.TCP.80.IPv4=") && w.has("_IPv4_0:30080") })
	update(func() {
		service.Spec.Type, service.Spec.ExternalTrafficPolicy = corev1.ServiceTypeClusterIP, ""
		service.Spec.Ports[0].NodePort, service.Spec.Ports[0].Port = 0, 81
	})
	w.eventually("the new port alone", func() bool {
		return w.has("10.96.0.10:81") && !w.has("10.96.0.10:80") && !w.has("30080") && !w.has("LOCAL")
	})
	if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("nothing of the service", func() bool { return slices.Equal(w.balancers(), empty) })
}

// TestRandomServicesEndAsAFreshController: services, endpoints and the addresses of
// nodes come, change and go while controller and database restart; in the end the
// database holds what a fresh controller makes of what is there.
func TestRandomServicesEndAsAFreshController(t *testing.T) {
	w := newWorld(t, gatewayNode("n1", 2), gatewayNode("n2", 3), gatewayNode("n3", 4))
	w.eventually("a leader", func() bool { return strings.Contains(w.logs.String(), "msg=leading") })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 300 {
		churn(t, w, random)
		switch i {
		case 100, 200:
			w.stop()
			churn(t, w, random) // seen by nobody
			w.startAndLead()
		case 150:
			w.server.Restart()
		}
		time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
	}
	services, err := w.client.CoreV1().Services("d").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(services.Items) == 0 {
		t.Fatalf("services at the end: %v, %v", services, err)
	}
	fresh := newWorld(t, w.objects()...)
	fresh.eventually("every service", func() bool {
		return strings.Count(fresh.server.Dump("Load_Balancer", "name"), "\n") >= len(services.Items) &&
			strings.Count(fresh.server.Dump("Chassis_Template_Var", "chassis"), "\n") == 3
	})
	time.Sleep(500 * time.Millisecond) // the fresh one has no event to wait for
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		diff := cmp.Diff(fresh.balancers(), w.balancers())
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a fresh controller makes something else (-want +got):\n%s", diff)
		}
	}
}

// churn changes one service, some of its endpoints, or a node's addresses.
func churn(t *testing.T, w *world, random *rand.Rand) {
	t.Helper()
	ctx, i := context.Background(), random.IntN(8)
	name := fmt.Sprintf("s%d", i)
	services, endpoints := w.client.CoreV1().Services("d"), w.client.DiscoveryV1().EndpointSlices("d")
	var err error
	switch random.IntN(8) {
	case 0:
		err = services.Delete(ctx, name, metav1.DeleteOptions{})
	case 1:
		err = endpoints.Delete(ctx, randomSlice(random, name).Name, metav1.DeleteOptions{})
	case 4:
		node := 1 + random.IntN(3)
		_, err = w.client.CoreV1().Nodes().Patch(ctx, fmt.Sprint("n", node), types.MergePatchType, randomGateway(random, node), metav1.PatchOptions{})
	case 2, 3:
		service := randomService(random, name, fmt.Sprintf("10.96.0.%d", 10+i))
		if _, err = services.Update(ctx, service, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = services.Create(ctx, service, metav1.CreateOptions{})
		}
	default:
		slice := randomSlice(random, name)
		if _, err = endpoints.Update(ctx, slice, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = endpoints.Create(ctx, slice, metav1.CreateOptions{})
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func randomService(random *rand.Rand, name, clusterIP string) *corev1.Service {
	service := testService(name, clusterIP)
	service.Spec.Ports[0].Port = int32(80 + random.IntN(2))
	if random.IntN(2) == 0 {
		service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(30000+random.IntN(2))
		if random.IntN(2) == 0 {
			service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
	}
	if policy := corev1.ServiceInternalTrafficPolicyLocal; random.IntN(3) == 0 {
		service.Spec.InternalTrafficPolicy = &policy
	}
	if random.IntN(3) == 0 {
		service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}
	return service
}

// randomGateway gives a node none, one or two addresses, which others may have as well.
func randomGateway(random *rand.Rand, node int) []byte {
	var addresses []string
	for range random.IntN(3) {
		if address := fmt.Sprintf(`"172.18.0.%d/16"`, 2+random.IntN(4)); !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	config := fmt.Sprintf(`{"default":{"mode":"shared","interface-id":"breth0_n%d","mac-address":"02:42:ac:12:00:%02x","ip-addresses":[%s],"next-hops":["172.18.0.1"]}}`,
		node, node+1, strings.Join(addresses, ","))
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kube.GatewayConfigKey, config)
}

// randomSlice is one of two of a service, with endpoints in pods or on the network of nodes.
func randomSlice(random *rand.Rand, name string) *discoveryv1.EndpointSlice {
	var nodes []string
	for _, node := range []string{"n1", "n2", "n3"} {
		if random.IntN(2) == 0 {
			nodes = append(nodes, node)
		}
	}
	slice := testSlice(name, nodes...)
	if random.IntN(3) == 0 {
		other := int32(8081)
		slice.Name, slice.Ports[0].Port = name+"-more", &other
	}
	if random.IntN(3) == 0 { // so many that a router which has some wants no others
		for i := range 40 {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("172.19.0.%d", 10+i)}})
		}
	}
	for i := range slice.Endpoints {
		if random.IntN(3) == 0 && i < len(nodes) {
			slice.Endpoints[i].Addresses = []string{fmt.Sprintf("172.18.0.%d", 2+random.IntN(4))}
		}
		ready := random.IntN(4) > 0
		slice.Endpoints[i].Conditions.Ready = &ready
		if random.IntN(3) == 0 {
			slice.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}}
		}
	}
	return slice
}
