package network

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
)

// owned makes Definitions with namespaces that have the label team, with the value of their name up to '-'.
func owned() *Definitions {
	x := newTestDefinitions()
	x.NamespaceLabels = func(namespace string) map[string]string {
		team, _, _ := strings.Cut(namespace, "-")
		return map[string]string{"team": team}
	}
	return x
}

func ownerNamed(kind, key string) contract.Owner {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	return contract.Owner{Kind: kind, Namespace: namespace, Name: name}
}

// stands makes an object at a second; a ClusterUserDefinedNetwork selects the namespaces of a team.
func stands(kind, key, uid string, second int, team string) *Object {
	o := &Object{Owner: ownerNamed(kind, key), UID: types.UID(uid), Created: time.Unix(int64(second), 0)}
	if kind == ovnv1.KindClusterUserDefinedNetwork {
		o.Selector = labels.SelectorFromSet(labels.Set{"team": team})
	}
	return o
}

// by says which object a NAD is made from.
func by(nad *NAD, kind, key, uid string) *NAD {
	nad.Controller, nad.ControllerUID = ownerNamed(kind, key), types.UID(uid)
	return nad
}

func flat(t testing.TB, key string, second int, name string, annotations ...string) *NAD {
	t.Helper()
	nad := define(t, key, second, fmt.Sprintf(`"name":%q,"subnets":"10.1.0.0/16"`, name), annotations...)
	nad.UID = types.UID("nad " + key)
	return nad
}

const (
	udn  = ovnv1.KindUserDefinedNetwork
	cudn = ovnv1.KindClusterUserDefinedNetwork
)

// TestOwners_WhoseNetworkANameIs: in each order of events, the NAD of the object that has the name makes the network, and every
// other one has the problem.
func TestOwners_WhoseNetworkANameIs(t *testing.T) {
	reserved := func(name, owner string) string { return "name " + name + " is reserved for " + owner }
	for _, tc := range []struct {
		name    string
		nads    []*NAD
		objects []*Object
		owner   string            // of the network whose NAD comes first here
		want    map[string]string // problems by NAD
	}{
		{"a UDN's name", []*NAD{by(flat(t, "shop/main", 9, "shop_main"), udn, "shop/main", "u1"), flat(t, "evil/any", 1, "shop_main")},
			[]*Object{stands(udn, "shop/main", "u1", 8, "")}, "u1", map[string]string{"evil/any": reserved("shop_main", "UserDefinedNetwork shop/main")}},
		{"a UDN's name as OVN has it", []*NAD{by(flat(t, "shop/a-b", 9, "shop_a-b"), udn, "shop/a-b", "u1"), flat(t, "evil/any", 1, "shop_a.b")},
			[]*Object{stands(udn, "shop/a-b", "u1", 8, "")}, "u1", map[string]string{"evil/any": reserved("shop_a.b", "UserDefinedNetwork shop/a-b")}},
		{"a name in the UDN's namespace", []*NAD{by(flat(t, "shop/main", 9, "shop_main"), udn, "shop/main", "u1"), flat(t, "shop/any", 1, "shop_main")},
			[]*Object{stands(udn, "shop/main", "u1", 8, "")}, "u1", map[string]string{"shop/any": reserved("shop_main", "UserDefinedNetwork shop/main")}},
		{"a name without an object", []*NAD{flat(t, "evil/any", 1, "shop_main")}, nil, "nad evil/any", nil},
		{"a ProviderNetwork's name", []*NAD{by(flat(t, "shop/pnet", 9, "shop_pnet"), opnfv.KindProviderNetwork, "shop/pnet", "u1"), flat(t, "evil/any", 1, "shop_pnet")},
			[]*Object{stands(opnfv.KindProviderNetwork, "shop/pnet", "u1", 8, "")}, "u1", map[string]string{"evil/any": reserved("shop_pnet", "ProviderNetwork shop/pnet")}},
		{"a CUDN's name", []*NAD{by(flat(t, "red-1/wide", 9, "cluster_udn_wide"), cudn, "wide", "u1"), by(flat(t, "red-2/wide", 9, "cluster_udn_wide"), cudn, "wide", "u1"), flat(t, "evil/wide", 1, "cluster_udn_wide")},
			[]*Object{stands(cudn, "wide", "u1", 8, "red")}, "u1", map[string]string{"evil/wide": reserved("cluster_udn_wide", "ClusterUserDefinedNetwork wide")}},
		{"a CUDN's name without a CUDN", []*NAD{flat(t, "evil/wide", 1, "cluster_udn_wide")}, nil, "", map[string]string{"evil/wide": reserved("cluster_udn_wide", "a ClusterUserDefinedNetwork")}},
		{"another UID", []*NAD{by(flat(t, "shop/main", 9, "shop_main"), udn, "shop/main", "u2"), by(flat(t, "red-1/wide", 9, "cluster_udn_wide"), cudn, "wide", "u1"), by(flat(t, "red-2/wide", 1, "cluster_udn_wide"), cudn, "wide", "u3")},
			[]*Object{stands(cudn, "wide", "u1", 8, "red")}, "u2", map[string]string{"red-2/wide": "is another object than that of red-1/wide"}},
		{"an owner of another name", []*NAD{by(flat(t, "shop/main", 9, "shop_main"), udn, "shop/main", "u1"), by(flat(t, "shop/any", 1, "shop_main"), udn, "shop/main", "u1")},
			[]*Object{stands(udn, "shop/main", "u1", 8, "")}, "u1", map[string]string{"shop/any": reserved("shop_main", "UserDefinedNetwork shop/main")}},
		{"an owner of another namespace", []*NAD{by(flat(t, "shop/main", 9, "shop_main"), udn, "shop/main", "u1"), by(flat(t, "evil/main", 1, "shop_main"), udn, "evil/main", "u1")},
			[]*Object{stands(udn, "shop/main", "u1", 8, "")}, "u1", map[string]string{"evil/main": reserved("shop_main", "UserDefinedNetwork shop/main")}},
		{"hand-made", []*NAD{flat(t, "red/a", 1, "net"), flat(t, "blue/a", 2, "net"), flat(t, "red/b", 3, "net")}, nil, "nad red/a",
			map[string]string{"blue/a": "network net is that of NetworkAttachmentDefinition red/a, which is older; to share the network, list blue in annotation ovn-offload.io/namespaces there"}},
		{"hand-made, listed", []*NAD{flat(t, "red/a", 1, "net", contract.NamespacesKey, "green, blue"), flat(t, "blue/a", 2, "net"), flat(t, "grey/a", 3, "net")}, nil, "nad red/a",
			map[string]string{"grey/a": "list grey in annotation"}},
		{"hand-made, listed by the younger one", []*NAD{flat(t, "red/a", 1, "net"), flat(t, "blue/a", 2, "net", contract.NamespacesKey, "*")}, nil, "nad red/a",
			map[string]string{"blue/a": "list blue in annotation"}},
		{"hand-made, for all", []*NAD{flat(t, "red/a", 1, "net", contract.NamespacesKey, "*"), flat(t, "blue/a", 2, "net")}, nil, "nad red/a", nil},
	} {
		for seed := range uint64(12) {
			x := owned()
			events := make([]func(), 0, 8)
			for _, nad := range tc.nads {
				events = append(events, func() { x.NADChanged(nad.Key, nad) })
			}
			for _, object := range tc.objects {
				events = append(events, func() { x.ObjectChanged(object.Owner, object) })
			}
			rand.New(rand.NewPCG(seed, 0)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			for _, event := range events {
				event()
			}
			for _, nad := range tc.nads {
				if want := tc.want[nad.Key]; !t.Run(tc.name+" "+nad.Key, func(t *testing.T) { wantProblem(t, x, nad.Key, want) }) {
					return
				}
			}
			owner := types.UID("")
			if network := x.NetworkOfNAD(tc.nads[0].Key); network != nil {
				owner = network.Owner
			}
			if string(owner) != tc.owner {
				t.Errorf("%s, seed %d: the network belongs to %q, want %q", tc.name, seed, owner, tc.owner)
			}
		}
	}
}

// TestObjectChanged_NamesNetworks: what an object takes, and gives back, is among the names of changed networks.
func TestObjectChanged_NamesNetworks(t *testing.T) {
	x := owned()
	x.NADChanged("evil/any", flat(t, "evil/any", 1, "shop_main"))
	x.NADChanged("evil/other", flat(t, "evil/other", 1, "shop_other"))
	object := stands(udn, "shop/main", "u1", 5, "")
	if diff := cmp.Diff([]string{"shop_main"}, x.ObjectChanged(object.Owner, object)); diff != "" || x.Network("shop_main") != nil {
		t.Errorf("the object comes: networks %v (-want +got):\n%s", x.Networks(), diff)
	}
	if got := x.ObjectChanged(object.Owner, object); got != nil {
		t.Errorf("nothing changes: %v", got)
	}
	if diff := cmp.Diff([]string{"shop_main"}, x.ObjectChanged(object.Owner, nil)); diff != "" || x.Network("shop_main") == nil {
		t.Errorf("the object goes: networks %v (-want +got):\n%s", x.Networks(), diff)
	}
}

func podIn(namespace, networks string, second int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "p", CreationTimestamp: metav1.Unix(int64(second), 0), Annotations: map[string]string{contract.NetworksKey: networks},
	}}
}

func wantRequest(t *testing.T, x *Definitions, pod *corev1.Pod, want string) {
	t.Helper()
	requests, err := Access{x}.Requests(pod)
	switch {
	case want == "" && (err != nil || len(requests) != 1):
		t.Errorf("pod of %s: requests %v, %v", pod.Namespace, requests, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(requests) > 0):
		t.Errorf("pod of %s: requests %v, %v; want %q", pod.Namespace, requests, err, want)
	}
}

// TestAccess_NewPods: a pod joins NADs of its namespace, those whose owner lists its namespace, and those of a CUDN that selects it.
func TestAccess_NewPods(t *testing.T) {
	x := owned()
	for _, nad := range []*NAD{
		flat(t, "shop/hand", 1, "hand"), flat(t, "shop/open", 1, "open", contract.NamespacesKey, "dev"), flat(t, "shop/all", 1, "all", contract.NamespacesKey, "*"),
		flat(t, "dev/open", 2, "open", contract.NamespacesKey, "evil"),
		by(flat(t, "shop/main", 2, "shop_main"), udn, "shop/main", "u1"), by(flat(t, "shop/shared", 2, "shop_shared", contract.NamespacesKey, "dev"), udn, "shop/shared", "u2"),
		by(flat(t, "red-1/wide", 2, "cluster_udn_wide", contract.NamespacesKey, "*"), cudn, "wide", "u3"),
		by(flat(t, "evil/wide", 2, "cluster_udn_wide"), cudn, "wide", "u3"),
		by(flat(t, "red-1/gone", 2, "cluster_udn_gone"), cudn, "gone", "u4"), by(flat(t, "shop/gone", 2, "shop_gone"), udn, "shop/gone", "u5"),
	} {
		x.NADChanged(nad.Key, nad)
	}
	for _, object := range []*Object{stands(udn, "shop/main", "u1", 1, ""), stands(udn, "shop/shared", "u2", 1, ""), stands(cudn, "wide", "u3", 1, "red")} {
		x.ObjectChanged(object.Owner, object)
	}
	const tell = "which does not let namespace %s use it: its owner can list %[1]s in annotation ovn-offload.io/namespaces"
	for _, tc := range []struct{ nad, namespace, want string }{
		{"shop/hand", "shop", ""},
		{"shop/hand", "evil", "network hand belongs to namespace shop, " + fmt.Sprintf(tell, "evil")},
		{"shop/open", "dev", ""},
		{"shop/open", "evil", fmt.Sprintf(tell, "evil")},
		{"dev/open", "dev", ""},
		{"dev/open", "shop", ""},
		{"dev/open", "evil", fmt.Sprintf(tell, "evil")},
		{"shop/all", "evil", ""},
		{"shop/main", "shop", ""},
		{"shop/main", "evil", "network shop_main belongs to UserDefinedNetwork main of namespace shop, " + fmt.Sprintf(tell, "evil")},
		{"shop/shared", "dev", ""},
		{"shop/shared", "evil", fmt.Sprintf(tell, "evil")},
		{"red-1/wide", "red-1", ""},
		{"red-1/wide", "red-2", ""},
		{"red-1/wide", "evil", "network cluster_udn_wide belongs to ClusterUserDefinedNetwork wide, whose namespaceSelector does not select namespace evil"},
		{"evil/wide", "evil", "does not select namespace evil"},
		{"red-1/gone", "red-1", "ClusterUserDefinedNetwork gone, which network cluster_udn_gone belongs to, does not exist"},
		{"shop/gone", "shop", ""},
		{"shop/gone", "evil", fmt.Sprintf(tell, "evil")},
	} {
		wantRequest(t, x, podIn(tc.namespace, tc.nad, 9), tc.want)
		if allowed := (Access{x}).Allows(tc.nad, tc.namespace); allowed != (tc.want == "") {
			t.Errorf("%s allows %s: %v", tc.nad, tc.namespace, allowed)
		}
	}
	x.ObjectChanged(ownerNamed(cudn, "wide"), stands(cudn, "wide", "u3", 1, "blue"))
	wantRequest(t, x, podIn("red-1", "red-1/wide", 9), "does not select namespace red-1")
	x.Shared = true
	for _, nad := range []string{"shop/hand", "shop/main", "red-1/wide"} {
		wantRequest(t, x, podIn("evil", nad, 9), "")
	}
}

// running gives a pod an address and what is recorded of its attachment, as JSON.
func running(pod *corev1.Pod, key string, entry map[string]any) *corev1.Pod {
	pod = pod.DeepCopy()
	text, _ := json.Marshal(map[string]any{"default": map[string]any{}, key: entry})
	pod.Annotations[contract.PodNetworksKey], pod.Status.PodIPs = string(text), []corev1.PodIP{{IP: "10.244.0.9"}}
	return pod
}

// TestAccess_RunningPods keep the network that they were given, while it is its owner's. They are never on the network of another
// owner that has taken the name.
func TestAccess_RunningPods(t *testing.T) {
	type entry = map[string]any
	for _, tc := range []struct {
		name   string
		world  func(x *Definitions)
		pod    *corev1.Pod
		key    string
		entry  entry
		joined bool
	}{
		{"of an earlier release, on another namespace's NAD", func(x *Definitions) { x.NADChanged("shop/a", flat(t, "shop/a", 1, "net")) },
			podIn("evil", "shop/a", 5), "shop/a", entry{"network": "net"}, true},
		{"of OVN-Kubernetes, on another namespace's NAD", func(x *Definitions) { x.NADChanged("shop/a", flat(t, "shop/a", 5, "net")) },
			podIn("evil", "shop/a", 5), "shop/a", entry{}, true},
		{"of an earlier release, on a NAD that is refused now", func(x *Definitions) {
			x.NADChanged("shop/a", flat(t, "shop/a", 1, "net"))
			x.NADChanged("evil/a", flat(t, "evil/a", 2, "net"))
		}, podIn("evil", "evil/a", 5), "evil/a", entry{"network": "net"}, true},
		{"of an earlier release, on a name that a UDN has had", func(x *Definitions) {
			x.NADChanged("evil/a", flat(t, "evil/a", 1, "shop_main"))
			x.NADChanged("shop/main", by(flat(t, "shop/main", 3, "shop_main"), udn, "shop/main", "u1"))
			x.ObjectChanged(ownerNamed(udn, "shop/main"), stands(udn, "shop/main", "u1", 3, ""))
		}, podIn("evil", "evil/a", 5), "evil/a", entry{"network": "shop_main"}, true},
		{"of an earlier release, before the UDN", func(x *Definitions) {
			x.NADChanged("evil/a", flat(t, "evil/a", 1, "shop_main"))
			x.NADChanged("shop/main", by(flat(t, "shop/main", 9, "shop_main"), udn, "shop/main", "u1"))
			x.ObjectChanged(ownerNamed(udn, "shop/main"), stands(udn, "shop/main", "u1", 9, ""))
		}, podIn("evil", "evil/a", 5), "evil/a", entry{"network": "shop_main"}, false},
		{"on a name that a UDN gets", func(x *Definitions) {
			x.NADChanged("evil/a", flat(t, "evil/a", 1, "shop_main"))
			x.NADChanged("shop/main", by(flat(t, "shop/main", 3, "shop_main"), udn, "shop/main", "u1"))
			x.ObjectChanged(ownerNamed(udn, "shop/main"), stands(udn, "shop/main", "u1", 3, ""))
		}, podIn("evil", "evil/a", 5), "evil/a", entry{"network": "shop_main", "network_owner": "nad evil/a"}, false},
		{"on a name whose NAD is another one now", func(x *Definitions) {
			x.NADChanged("shop/a", flat(t, "shop/a", 1, "net"))
			x.NADChanged("evil/a", flat(t, "evil/a", 7, "net"))
		}, podIn("evil", "evil/a", 5), "evil/a", entry{"network": "net", "network_owner": "former nad evil/a"}, false},
		{"after the owner has taken a namespace from the list", func(x *Definitions) { x.NADChanged("shop/a", flat(t, "shop/a", 1, "net")) },
			podIn("dev", "shop/a", 5), "shop/a", entry{"network": "net", "network_owner": "nad shop/a"}, true},
		{"after its CUDN does not select it any more", func(x *Definitions) {
			x.NADChanged("evil/wide", by(flat(t, "evil/wide", 1, "cluster_udn_wide"), cudn, "wide", "u3"))
			x.ObjectChanged(ownerNamed(cudn, "wide"), stands(cudn, "wide", "u3", 1, "red"))
		}, podIn("evil", "evil/wide", 5), "evil/wide", entry{"network": "cluster_udn_wide", "network_owner": "u3"}, true},
		{"of a former UDN in its own namespace", func(x *Definitions) {
			x.NADChanged("shop/main", by(flat(t, "shop/main", 1, "shop_main"), udn, "shop/main", "u1"))
			x.ObjectChanged(ownerNamed(udn, "shop/main"), stands(udn, "shop/main", "u2", 9, ""))
		}, podIn("shop", "shop/main", 5), "shop/main", entry{"network": "shop_main", "network_owner": "u1"}, true},
		{"of its namespace's NAD that was made anew", func(x *Definitions) { x.NADChanged("shop/a", flat(t, "shop/a", 9, "net")) },
			podIn("shop", "shop/a", 5), "shop/a", entry{"network": "net", "network_owner": "former nad shop/a"}, true},
		{"of its namespace's NAD that is gone, while another one has the network", func(x *Definitions) { x.NADChanged("shop/b", flat(t, "shop/b", 1, "net")) },
			podIn("shop", "shop/a", 5), "shop/a", entry{"network": "net", "network_owner": "nad shop/a"}, true},
		{"of another namespace's NAD that is gone, while another one has the name", func(x *Definitions) { x.NADChanged("shop/b", flat(t, "shop/b", 1, "net")) },
			podIn("evil", "shop/a", 5), "shop/a", entry{"network": "net", "network_owner": "nad shop/a"}, false},
		{"of a network that is gone", func(x *Definitions) {}, podIn("shop", "shop/a", 5), "shop/a", entry{"network": "net", "network_owner": "nad shop/a"}, false},
	} {
		x := owned()
		tc.world(x)
		pod := running(tc.pod, tc.key, tc.entry)
		requests, err := Access{x}.Requests(pod)
		if (len(requests) == 1) != tc.joined {
			t.Errorf("%s: requests %v, %v; want one: %v", tc.name, requests, err, tc.joined)
		}
		name, _ := tc.entry["network"].(string)
		if name == "" {
			name = "net"
		}
		if joins := (Access{x}).Joins(pod, tc.key, name); joins != tc.joined {
			t.Errorf("%s: joins %v", tc.name, joins)
		}
	}
}

// TestAccess_PrimaryNetworks: pods of a namespace get its NAD's network only if it is for the namespace.
func TestAccess_PrimaryNetworks(t *testing.T) {
	x := owned()
	primary := func(key, name string, second int) *NAD {
		nad := define(t, key, second, fmt.Sprintf(`"name":%q,"topology":"layer2","role":"primary","subnets":"10.1.0.0/16"`, name))
		nad.UID = types.UID("nad " + key)
		return nad
	}
	for _, nad := range []*NAD{
		by(primary("shop/main", "shop_main", 5), udn, "shop/main", "u1"), primary("evil/any", "shop_main", 1), primary("dev/own", "own", 1),
		by(primary("red-1/wide", "cluster_udn_wide", 5), cudn, "wide", "u3"), by(primary("grey/wide", "cluster_udn_wide", 5), cudn, "wide", "u3"),
	} {
		x.NADChanged(nad.Key, nad)
	}
	for _, object := range []*Object{stands(udn, "shop/main", "u1", 4, ""), stands(cudn, "wide", "u3", 4, "red")} {
		x.ObjectChanged(object.Owner, object)
	}
	for namespace, want := range map[string]string{
		"shop": "shop/main", "dev": "dev/own", "red-1": "red-1/wide", "evil": "none",
		"grey": "NetworkAttachmentDefinition grey/wide: network cluster_udn_wide belongs to ClusterUserDefinedNetwork wide, whose namespaceSelector does not select namespace grey",
	} {
		request, err := Access{x}.PrimaryOf(podIn(namespace, "", 9))
		got := "none"
		if err != nil {
			got = err.Error()
		} else if request != nil {
			got = request.NAD
		}
		if got != want {
			t.Errorf("primary network of a pod of %s: %s, want %s", namespace, got, want)
		}
	}
	before := map[string]any{"role": "primary", "network": "shop_main"}
	for second, want := range map[int]bool{9: true, 2: false} { // after the UDN, and before
		request, err := Access{x}.PrimaryOf(running(podIn("evil", "", second), "evil/any", before))
		if err != nil || (request != nil) != want {
			t.Errorf("a pod of second %d goes on with %v, %v; want %v", second, request, err, want)
		}
	}
}

// TestAccess_PoliciesHoldForRunningPods: the policies of pods on a NAD that is refused now go on.
func TestAccess_PoliciesHoldForRunningPods(t *testing.T) {
	x := owned()
	x.NADChanged("shop/a", flat(t, "shop/a", 1, "net"))
	x.NADChanged("evil/a", flat(t, "evil/a", 2, "net"))
	x.NADChanged("evil/b", define(t, "evil/b", 3, `"name":"net","subnets":"10.2.0.0/16"`))
	for nad, want := range map[string]bool{"shop/a": true, "evil/a": true, "evil/c": false} {
		if got := (Access{x}).PolicyNetwork(nad); (got != nil) != want {
			t.Errorf("network of %s for policies: %v", nad, got)
		}
	}
	if got := x.NetworkOfNAD("evil/a"); got != nil {
		t.Errorf("network of a NAD that is refused: %v", got)
	}
}

// TestAccess_SharedNADs: with the old rule, NADs that the new one would refuse have a sentence for an Event.
func TestAccess_SharedNADs(t *testing.T) {
	x := owned()
	x.Shared = true
	x.NADChanged("shop/a", flat(t, "shop/a", 1, "net", contract.NamespacesKey, "dev"))
	for _, key := range []string{"evil/a", "dev/a", "shop/b"} {
		x.NADChanged(key, flat(t, key, 2, "net"))
		wantProblem(t, x, key, "")
	}
	for key, want := range map[string]string{"evil/a": "this one needs evil in annotation ovn-offload.io/namespaces there", "dev/a": "", "shop/b": "", "shop/a": ""} {
		if err := (Access{x}).SharedNAD(key); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
	x.NADChanged("evil/squat", flat(t, "evil/squat", 1, "shop_main"))
	x.ObjectChanged(ownerNamed(udn, "shop/main"), stands(udn, "shop/main", "u1", 3, ""))
	wantProblem(t, x, "evil/squat", "name shop_main is reserved")
}
