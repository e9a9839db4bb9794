package lb

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

const valueNodes = 6

// valueWorld is a View of nodes n0 to n5 in three zones, with the addresses
// 172.18.0.1 to .6, and of services with one slice each.
type valueWorld struct {
	View
	values     *Values
	services   map[string]*corev1.Service
	slices     map[string]*discoveryv1.EndpointSlice
	reads      int // of EndpointSlices
	masquerade []netip.Prefix
}

func newValueWorld() *valueWorld {
	return &valueWorld{values: NewValues(), services: map[string]*corev1.Service{}, slices: map[string]*discoveryv1.EndpointSlice{}}
}

func (w *valueWorld) NetworkOf(*corev1.Service) (string, *contract.Network, error) {
	return "", nil, nil
}
func (w *valueWorld) IsForeign(string, netip.Addr) bool                  { return false }
func (w *valueWorld) ServiceValues() *Values                             { return w.values }
func (w *valueWorld) Service(_, name string) *corev1.Service             { return w.services[name] }
func (w *valueWorld) NodeAddresses(contract.Family) ([]netip.Addr, bool) { return nil, true }
func (w *valueWorld) Zone() contract.Zone                                { return contract.Zone{MasqueradeSubnets: w.masquerade} }
func (w *valueWorld) IsHostAddress(netip.Addr) bool                      { return false }
func (w *valueWorld) ServiceSubnets() []netip.Prefix                     { return nil }

func (w *valueWorld) GatewayAddresses(node *corev1.Node) (out []netip.Addr) {
	for _, address := range node.Status.Addresses {
		out = append(out, netip.MustParseAddr(address.Address))
	}
	return out
}

func (w *valueWorld) Services() (all []*corev1.Service) {
	for _, service := range w.services {
		all = append(all, service)
	}
	return all
}

func (w *valueWorld) EndpointSlices(_, name string) []*discoveryv1.EndpointSlice {
	w.reads++
	if w.slices[name] == nil {
		return nil
	}
	return []*discoveryv1.EndpointSlice{w.slices[name]}
}

func (w *valueWorld) OnNodes(slice *discoveryv1.EndpointSlice) (on, many bool) {
	for _, e := range slice.Endpoints {
		on = on || e.Addresses[0][:4] == "172."
	}
	return on, on && len(slice.Endpoints) > 6
}

func (w *valueWorld) Node(name string) *corev1.Node {
	var i int
	if n, err := fmt.Sscanf(name, "n%d", &i); n != 1 || err != nil {
		return nil
	}
	return &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Address: fmt.Sprint("172.18.0.", i+1)}}}, ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelTopologyZone: fmt.Sprint("zone-", i%3)},
		Annotations: map[string]string{
			contract.NodeChassisIDKey: "c-" + name,
			contract.GatewayConfigKey: fmt.Sprintf(`{"default":{"mode":"shared","ip-addresses":["172.18.0.%d/16"]}}`, i+1),
		},
	}}
}

// change makes one service another at random, or none, and says so.
func (w *valueWorld) change(r *rand.Rand, name string) {
	defer w.values.Changed(contract.ServiceOwner("d", name))
	if delete(w.services, name); r.IntN(8) == 0 {
		return
	}
	v6 := r.IntN(4) == 0
	family, prefix, cluster := discoveryv1.AddressTypeIPv4, "10.244.0.", "10.96.0.1"
	if v6 {
		family, prefix, cluster = discoveryv1.AddressTypeIPv6, "fd00:10:244::", "fd00:10:96::1"
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: cluster, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
	}
	if r.IntN(2) == 0 { // an address that services share
		service.Spec.ExternalIPs = []string{"192.0.2.1", "2001:db8::1"}
	}
	if r.IntN(3) == 0 {
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if inside := corev1.ServiceInternalTrafficPolicyLocal; r.IntN(3) == 0 {
		service.Spec.InternalTrafficPolicy = &inside
	}
	port, empty, onNodes, hints := int32(8080), "", !v6 && r.IntN(3) == 0, r.IntN(3)
	slice := &discoveryv1.EndpointSlice{AddressType: family, Ports: []discoveryv1.EndpointPort{{Name: &empty, Port: &port}}}
	for i := range r.IntN(9) {
		node, ready := fmt.Sprint("n", r.IntN(valueNodes)), r.IntN(5) > 0
		e := discoveryv1.Endpoint{Addresses: []string{fmt.Sprint(prefix, i+1)}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
		if onNodes {
			e.Addresses[0] = fmt.Sprint("172.18.0.", i+1)
		}
		if hints > 0 {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: fmt.Sprint("zone-", r.IntN(4))}}}
		}
		if hints > 1 {
			e.Hints.ForNodes = []discoveryv1.ForNode{{Name: node}, {Name: fmt.Sprint("n", r.IntN(valueNodes))}}
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	w.services[name], w.slices[name] = service, slice
}

func (w *valueWorld) build(t *testing.T, node string) string {
	t.Helper()
	rows, err := BuildNode(w, contract.Network{}, contract.NodeServicesOwner(node))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(rows[0].Model)
}

// TestServiceValues_AfterChangesAreThoseOfAFreshReading: whatever services were, the
// rows of nodes are as if all services were read now.
func TestServiceValues_AfterChangesAreThoseOfAFreshReading(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newValueWorld()
		w.masquerade = []netip.Prefix{netip.MustParsePrefix("169.254.0.0/17")}
		for step := range 100 {
			w.change(r, fmt.Sprint("web-", r.IntN(6)))
			node := fmt.Sprint("n", r.IntN(valueNodes))
			kept := w.build(t, node)
			fresh := *w
			fresh.values = NewValues()
			if diff := cmp.Diff(fresh.build(t, node), kept); diff != "" {
				t.Fatalf("seed %d, step %d, node %s (-fresh +kept):\n%s", seed, step, node, diff)
			}
		}
		for name := range w.services {
			delete(w.services, name)
			w.values.Changed(contract.ServiceOwner("d", name))
		}
		w.build(t, "n0")
		for zone, set := range w.values.zones {
			if len(set.values)+len(set.shared)+len(w.values.nodes)+len(w.values.routers)+len(w.values.services) > 0 {
				t.Errorf("seed %d: without services something is left in zone %s: %v, nodes %v", seed, zone, set, w.values.nodes)
			}
		}
	}
}

// TestServiceValues_OneChangeReadsOneService, whatever the number of services and
// nodes; a Reset reads all.
func TestServiceValues_OneChangeReadsOneService(t *testing.T) {
	w, r := newValueWorld(), rand.New(rand.NewPCG(1, 0))
	for i := range 300 {
		w.change(r, fmt.Sprint("web-", i))
	}
	reads := func() int {
		before := w.reads
		for i := range valueNodes {
			w.build(t, fmt.Sprint("n", i))
		}
		return w.reads - before
	}
	if got := reads(); got != len(w.services) {
		t.Errorf("the first rows read %d services of %d", got, len(w.services))
	}
	if got := reads(); got != 0 {
		t.Errorf("without a change %d services are read", got)
	}
	for w.services["web-7"] == nil || len(w.services["web-7"].Spec.ClusterIP) == 0 {
		w.change(r, "web-7")
	}
	w.values.Changed(contract.ServiceOwner("d", "web-7"), contract.PodOwner("d", "a"))
	if got := reads(); got != 1 {
		t.Errorf("the change of one reads %d services", got)
	}
	w.values.Reset()
	if got := reads(); got != len(w.services) {
		t.Errorf("after a reset %d services of %d are read", got, len(w.services))
	}
}
