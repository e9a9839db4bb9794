//go:build e2e

package e2e

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// serviceRow is a service of the shared world, and what clients find in each of its states. In the last state the
// service is deleted, and there is no answer where there was one.
type serviceRow struct {
	*world.Row
	web *corev1.Service
}

func newServiceRow(t *testing.T, w *world.World, name string, change func(*corev1.ServiceSpec)) *serviceRow {
	t.Helper()
	return &serviceRow{&world.Row{Name: name}, world.Service(t, w.Namespace, change)}
}

// then adds a state: change, or nil for the service as it was made, and what clients find.
func (r *serviceRow) then(change func(*corev1.ServiceSpec), finds func() []world.Finding) {
	state := world.State{Finds: finds}
	if change != nil {
		state.Enter = func(t *testing.T) { r.web = world.UpdateService(t, r.web, change) }
	}
	r.States = append(r.States, state)
}

// row ends with the state without the service.
func (r *serviceRow) row() *world.Row {
	r.Gone(func(t *testing.T) { world.DeleteService(t, r.web.Namespace, r.web.Name) })
	return r.Row
}

// atCluster is what is found at the service's own addresses.
func (r *serviceRow) atCluster(servers []string, seen []netip.Addr) []world.Spot {
	return world.SpotsAt(world.ClusterAddresses(r.web), world.ServicePort, servers, seen)
}

// atNodePort is what is found at the node ports of a node.
func (r *serviceRow) atNodePort(t *testing.T, node world.Client, servers []string, seen []netip.Addr) []world.Spot {
	t.Helper()
	var out []world.Spot
	for _, addr := range node.Addresses(t) {
		for _, port := range r.web.Spec.Ports {
			target := strings.ToLower(string(port.Protocol)) + ":" + netip.AddrPortFrom(addr, uint16(port.NodePort)).String()
			out = append(out, world.Spot{Target: target, Servers: servers, Seen: world.OfFamily(seen, addr)})
		}
	}
	return out
}

// selecting has a service select the servers of the shared world with a label.
func selecting(key, value string) func(*corev1.ServiceSpec) {
	return func(spec *corev1.ServiceSpec) { spec.Selector = map[string]string{key: value} }
}

// staticPorts counts the node ports that withNodePorts has given.
var staticPorts atomic.Int32

// withNodePorts gives a service a node port, the same for all protocols, of those that the API server gives to no other
// service: after the service's end no other service answers there.
func withNodePorts(spec *corev1.ServiceSpec) {
	if spec.Type == "" || spec.Type == corev1.ServiceTypeClusterIP {
		spec.Type = corev1.ServiceTypeNodePort
	}
	number := 30020 + staticPorts.Add(1)%60
	for i := range spec.Ports {
		spec.Ports[i].NodePort = number
	}
}

func namesOf(pods ...*corev1.Pod) (names []string) {
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// found is what pods, each as a client, find at the same spots.
func found(spots []world.Spot, pods ...*corev1.Pod) (all []world.Finding) {
	for _, pod := range pods {
		all = append(all, world.Finding{From: world.FromPod(pod), Spots: spots})
	}
	return all
}

// TestService_AnswersAtItsOwnAddress: what pods, nodes and host-network pods find at addresses of services, and that
// nothing answers there when the service is deleted.
func TestService_AnswersAtItsOwnAddress(t *testing.T) {
	world.Test(t, world.Services, world.Core)
	w := world.Shared(t)
	rows := append(internalPolicies(t, w), everyEndpoint(t, w), comingEndpoint(t, w), headlessSlice(t, w))
	world.Check(t, append(rows, notReady(t, w)...)...)
}

// everyEndpoint: a pod (in the full tier one on each node) finds an endpoint on each node, and each sees the pod's own
// address.
func everyEndpoint(t *testing.T, w *world.World) *world.Row {
	r := newServiceRow(t, w, "every endpoint answers", nil)
	r.then(nil, func() (all []world.Finding) {
		for _, pod := range tier.Pick(w.Clients[:1], w.Clients) {
			all = append(all, found(r.atCluster(namesOf(w.Servers...), world.Addresses(pod)), pod)...)
		}
		return all
	})
	return r.row()
}

// internalPolicies: with internalTrafficPolicy Local, pods and processes of a node reach the endpoint of their own node
// alone, and nothing where there is none; without, processes of each node reach all.
func internalPolicies(t *testing.T, w *world.World) []*world.Row {
	own := [][]string{{"server-0"}, {"server-1"}, nil}
	local := corev1.ServiceInternalTrafficPolicyLocal
	near := newServiceRow(t, w, "internal policy Local leads to the own node", func(spec *corev1.ServiceSpec) {
		spec.InternalTrafficPolicy, spec.Selector = &local, map[string]string{"first": "yes"}
	})
	near.then(nil, func() (all []world.Finding) {
		for i := range nodes {
			spots := near.atCluster(own[i], nil)
			all = append(all, found(spots, w.Clients[i], w.Hosts[i])...)
			all = append(all, world.Finding{From: w.Machines[i], Spots: spots})
		}
		return all
	})
	wide := newServiceRow(t, w, "internal policy Cluster leads nodes to all", selecting("first", "yes"))
	wide.then(nil, func() (all []world.Finding) {
		spots := wide.atCluster([]string{"server-0", "server-1"}, nil)
		for _, node := range w.Machines {
			all = append(all, world.Finding{From: node, Spots: spots})
		}
		return append(all, found(spots, w.Hosts...)...)
	})
	return []*world.Row{near.row(), wide.row()}
}

// comingEndpoint: a service without endpoints refuses at once, and answers when it has one.
func comingEndpoint(t *testing.T, w *world.World) *world.Row {
	r := newServiceRow(t, w, "without endpoints it refuses", selecting("server", "none"))
	r.then(nil, func() []world.Finding {
		spots := r.atCluster(nil, nil)
		for i := range spots {
			spots[i].Refuses = true
		}
		return found(spots, w.Clients[1])
	})
	r.then(selecting("server", "server-2"), func() []world.Finding {
		return found(r.atCluster([]string{"server-2"}, nil),
			w.Clients[1])
	})
	r.Repeats = true
	return r.row()
}

// headlessSlice: a service answers by a manually created EndpointSlice until the slice gets the label headless, which
// is for DNS, and again without the label.
func headlessSlice(t *testing.T, w *world.World) *world.Row {
	r := newServiceRow(t, w, "an EndpointSlice with the label headless is for DNS only",
		func(spec *corev1.ServiceSpec) { spec.Selector = nil })
	var made []*discoveryv1.EndpointSlice
	for _, addr := range world.Addresses(w.Servers[2]) {
		made = append(made, createSlice(t, w.Namespace, r.web, addr))
	}
	labelled := func(text string) func(t *testing.T) {
		return func(t *testing.T) {
			patch := []byte(`{"metadata":{"labels":{"` + corev1.IsHeadlessService + `":` + text + `}}}`)
			slices := cluster.client.DiscoveryV1().EndpointSlices(w.Namespace)
			for _, slice := range made {
				if _, err := slices.Patch(t.Context(), slice.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	finds := func(servers ...string) func() []world.Finding {
		return func() []world.Finding {
			spots := r.atCluster(servers, nil)
			return append(found(spots, w.Clients[1]), world.Finding{From: w.Machines[1], Spots: spots})
		}
	}
	r.States = []world.State{{Finds: finds("server-2")}, {Enter: labelled(`""`), Finds: finds()},
		{Enter: labelled(`null`), Finds: finds("server-2")}}
	return r.row()
}

// notReady: a pod that is never ready answers behind a service that publishes such pods, and not behind another one
// until that one does so, too.
func notReady(t *testing.T, w *world.World) []*world.Row {
	pod := world.Pod(w.Namespace, "unready", nodes[2], world.Behind("unready"))
	never := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: never}
	w.Add(t, pod)
	publish := func(spec *corev1.ServiceSpec) {
		selecting("app", "unready")(spec)
		spec.PublishNotReadyAddresses = true
	}
	finds := func(r *serviceRow, servers ...string) func() []world.Finding {
		return func() []world.Finding {
			spots := r.atCluster(servers, nil)
			return append(found(spots, w.Clients[1]), world.Finding{From: w.Machines[1], Spots: spots})
		}
	}
	published := newServiceRow(t, w, "a service that publishes pods that are not ready", publish)
	published.then(nil, finds(published, "unready"))
	plain := newServiceRow(t, w, "a service that begins to publish pods that are not ready", selecting("app", "unready"))
	plain.then(nil, finds(plain))
	plain.then(publish, finds(plain, "unready"))
	return []*world.Row{published.row(), plain.row()}
}

// createSlice makes an EndpointSlice with one endpoint at the ports of a service.
func createSlice(t *testing.T, ns string, web *corev1.Service, at netip.Addr) *discoveryv1.EndpointSlice {
	t.Helper()
	family := discoveryv1.AddressTypeIPv4
	if at.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "own-", Labels: map[string]string{discoveryv1.LabelServiceName: web.Name,
				discoveryv1.LabelManagedBy: "e2e"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: web.Name, UID: web.UID}},
		},
		AddressType: family, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{at.String()}}},
	}
	number := int32(world.EchoPort)
	for _, port := range web.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Protocol: &port.Protocol, Port: &number})
	}
	made, err := cluster.client.DiscoveryV1().EndpointSlices(ns).Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
