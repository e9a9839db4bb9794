package kube

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/network"
)

// storeOf is a store with objects and no API server.
func storeOf[T any, P interface {
	*T
	runtime.Object
}](t *testing.T, objects ...P,
) store[T] {
	t.Helper()
	informer := cache.NewSharedIndexInformer(nil, P(new(T)), 0, cache.Indexers{})
	for _, object := range objects {
		if err := informer.GetStore().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return store[T]{informer}
}

// tenants has the namespaces red, with a VLAN of a physical network, and evil. NAD red/vlan7 lists evil, and red/open lists dev.
func tenants(t *testing.T) *primaries {
	t.Helper()
	named := func(name, team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
	}
	physical := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.Version, "kind": "PhysicalNetwork", "metadata": map[string]any{"name": "dc"},
		"spec": map[string]any{"namespaces": []any{map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": "red"}}, "vlans": []any{"7"}}}},
	}}
	v := &primaries{&networks{grants: grants{
		physical: storeOf(t, physical), allNamespaces: storeOf(t, named("red", "red"), named("dev", "red"), named("evil", "evil")),
	}}}
	define(v.networks, network.NewDefinitions(map[string][]netip.Prefix{}))
	for name, nad := range map[string]*network.NAD{
		"vlan7": {
			Config:      `{"type":"ovn-k8s-cni-overlay","name":"vlan7","topology":"localnet","physicalNetworkName":"dc","vlanID":7,"netAttachDefName":"red/vlan7"}`,
			Annotations: map[string]string{contract.NamespacesKey: "evil,dev"},
		},
		"open": {
			Config:      `{"type":"ovn-k8s-cni-overlay","name":"open","topology":"layer2","subnets":"10.8.0.0/24","netAttachDefName":"red/open"}`,
			Annotations: map[string]string{contract.NamespacesKey: "dev", contract.GatewayKey: "203.0.113.0/24", contract.NetworkIDKey: "1"},
		},
	} {
		nad.Key, nad.Created = "red/"+name, time.Unix(1, 0)
		v.NADChanged(nad.Key, nad)
		if err := v.Definitions.NADProblem(nad.Key); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// TestView_GrantForThePod: a pod on a granted VLAN needs the grant for its own namespace, too. A pod that runs keeps its interface.
func TestView_GrantForThePod(t *testing.T) {
	v := tenants(t)
	n := v.NetworkOfNAD("red/vlan7")
	for namespace, want := range map[string]string{"red": "", "dev": "", "evil": "PhysicalNetwork dc does not let namespace evil use VLAN 7"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Annotations: map[string]string{contract.NetworksKey: "red/vlan7"}}}
		asked, err := v.Access.Requests(pod)
		if err != nil || len(asked) != 1 || asked[0].Network.Name != n.Name {
			t.Fatalf("%s: %v, %v", namespace, asked, err)
		}
		granted, err := v.granted(pod, asked)
		if got := (err == nil) == (want == ""); !got || (len(granted) == 1) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("new pod of %s: %v, %v; want %q", namespace, granted, err, want)
		}
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.9"}}
		if granted, err := v.granted(pod, asked); err != nil || len(granted) != 1 {
			t.Errorf("running pod of %s: %v, %v", namespace, granted, err)
		}
	}
}

// TestView_ServiceOnANetworkOfOthers: a Service is on a network that its namespace may use.
func TestView_ServiceOnANetworkOfOthers(t *testing.T) {
	v := tenants(t)
	for namespace, want := range map[string]string{"red": "", "dev": "", "evil": "network open belongs to namespace red, which does not let namespace evil use it"} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s", Annotations: map[string]string{contract.ServiceNetworkKey: "red/open"}}}
		nad, on, err := v.NetworkOf(service)
		if want == "" && (err != nil || on == nil || nad != "red/open") || want != "" && (err == nil || on != nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("service of %s: %q %v, %v; want %q", namespace, nad, on, err, want)
		}
	}
}

// TestView_NextPrimaryNADIsLookedAtAgain: of two NetworkAttachmentDefinitions of primary networks in a namespace one is refused,
// until the other one goes. Then it has an owner to say so for, and one elsewhere has not.
func TestView_NextPrimaryNADIsLookedAtAgain(t *testing.T) {
	pods := storeOf[corev1.Pod](t)
	if err := pods.AddIndexers(indexers(podsByNAD())); err != nil {
		t.Fatal(err)
	}
	labelled := map[string]string{contract.PrimaryNetworkLabel: ""}
	v := &networks{allPods: pods, allNodes: storeOf[corev1.Node](t), grants: grants{allNamespaces: storeOf(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "red", Labels: labelled}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: labelled}},
	)}}
	define(v, network.NewDefinitions(map[string][]netip.Prefix{}))
	nad := func(key string) *unstructured.Unstructured {
		namespace, name, _ := strings.Cut(key, "/")
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": `{"type":"ovn-k8s-cni-overlay","name":"` + namespace + name +
			`","topology":"layer2","role":"primary","subnets":"10.8.0.0/24","netAttachDefName":"` + key + `"}`}}}
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	for _, key := range []string{"red/a", "red/b", "blue/c"} {
		v.nadChanged(nil, nad(key))
	}
	if problem := v.NADProblem("red/b"); problem == nil || !strings.Contains(problem.Error(), "has a primary network already") {
		t.Fatalf("the second of a namespace: %v", problem)
	}
	owners := v.nadChanged(nad("red/a"), nil)
	if v.NADProblem("red/b") != nil || !slices.Contains(owners, nadOwner("red/b")) || slices.Contains(owners, nadOwner("blue/c")) {
		t.Errorf("the first is gone: %v, looked at: %v", v.NADProblem("red/b"), owners)
	}
}
