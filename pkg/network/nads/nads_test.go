package nads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

// cluster is an API server in memory, with finalizers.
type cluster struct {
	*testing.T
	*dynamicfake.FakeDynamicClient
	nads *NADs

	mu       sync.Mutex
	pods     map[string][]contract.Owner
	verdicts map[string]Verdict
	events   []string
	uid      int
}

func newCluster(t *testing.T, objects ...string) *cluster {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{Resource(): "NetworkAttachmentDefinitionList", namespaces(): "NamespaceList"}
	for kind, resource := range render.Kinds() {
		lists[resource] = kind + "List"
	}
	c := &cluster{
		T: t, FakeDynamicClient: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists),
		pods: map[string][]contract.Owner{}, verdicts: map[string]Verdict{},
	}
	c.PrependReactor("delete", "*", c.keepFinalized)
	c.PrependReactor("update", "*", c.endFinalized)
	n, err := New(Deps{
		Client: c, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Pods: func(nad string) []contract.Owner {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.pods[nad]
		},
		Allows: func(_, namespace string) bool { return namespace != "evil" },
		Verdict: func(nad *unstructured.Unstructured) Verdict {
			found, isSet := c.verdicts[keyOf(nad)]
			found.IsKnown = found.IsKnown || !isSet
			return found
		},
		Event: func(object runtime.Object, kind, reason, note string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.events = append(c.events, kind+" "+reason+": "+note)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.nads = n
	for _, text := range objects {
		c.put(text)
	}
	return c
}

// keepFinalized deletes as the API server does: an object with a finalizer stays until the finalizer falls.
func (c *cluster) keepFinalized(action clienttesting.Action) (bool, runtime.Object, error) {
	name := action.(clienttesting.DeleteAction).GetName()
	o, err := c.Tracker().Get(action.GetResource(), action.GetNamespace(), name)
	if err != nil {
		return true, nil, err
	}
	u := o.(*unstructured.Unstructured).DeepCopy()
	if len(u.GetFinalizers()) == 0 {
		return false, nil, nil
	}
	u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	return true, nil, c.Tracker().Update(action.GetResource(), u, u.GetNamespace())
}

func (c *cluster) endFinalized(action clienttesting.Action) (bool, runtime.Object, error) {
	u := action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured)
	if action.GetSubresource() != "" || u.GetDeletionTimestamp() == nil || len(u.GetFinalizers()) > 0 {
		return false, nil, nil
	}
	return true, u, c.Tracker().Delete(action.GetResource(), u.GetNamespace(), u.GetName())
}

func resourceOf(kind string) schema.GroupVersionResource {
	switch kind {
	case contract.KindNAD:
		return Resource()
	case kindNamespace:
		return namespaces()
	}
	return render.Kinds()[kind]
}

// put creates or replaces an object; a new one gets a UID.
func (c *cluster) put(text string) {
	c.Helper()
	u := &unstructured.Unstructured{}
	if err := sigsyaml.Unmarshal([]byte(text), &u.Object); err != nil {
		c.Fatal(err)
	}
	resource := resourceOf(u.GetKind())
	if old, err := c.Tracker().Get(resource, u.GetNamespace(), u.GetName()); err == nil {
		before := old.(*unstructured.Unstructured)
		u.SetUID(before.GetUID())
		u.SetFinalizers(before.GetFinalizers())
		u.SetDeletionTimestamp(before.GetDeletionTimestamp())
		if err := c.Tracker().Update(resource, u, u.GetNamespace()); err != nil {
			c.Fatal(err)
		}
		return
	}
	c.uid++
	u.SetUID(types.UID(fmt.Sprintf("uid-%d", c.uid)))
	if err := c.Tracker().Create(resource, u, u.GetNamespace()); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) edit(kind, namespace, name string, f func(u *unstructured.Unstructured)) {
	c.Helper()
	o, err := c.Tracker().Get(resourceOf(kind), namespace, name)
	if err != nil {
		c.Fatal(err)
	}
	u := o.(*unstructured.Unstructured).DeepCopy()
	f(u)
	if err := c.Tracker().Update(resourceOf(kind), u, namespace); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) remove(kind, namespace, name string) {
	c.Helper()
	if err := c.Resource(resourceOf(kind)).Namespace(namespace).Delete(c.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
}

// settle makes passes over what the API server has, until a pass writes nothing.
func (c *cluster) settle() {
	c.Helper()
	for range 10 {
		c.read()
		c.ClearActions()
		for _, owner := range c.nads.facts.owners() {
			if err := c.pass(owner); err != nil && !isOutdated(err) {
				c.Fatalf("%s: %v", owner, err)
			}
		}
		if !slices.ContainsFunc(c.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() != "list" }) {
			return
		}
	}
	c.Fatalf("passes never end: %v", c.Actions())
}

func (c *cluster) pass(owner contract.Owner) error {
	object := c.nads.facts.get(owner)
	if object == nil {
		waits, err := c.nads.orphans(c.Context(), owner, "")
		c.nads.wait(owner, waits)
		return err
	}
	waits, err := c.nads.orphans(c.Context(), owner, object.GetUID())
	return errors.Join(err, c.nads.apply(c.Context(), object, waits))
}

func (c *cluster) read() {
	c.Helper()
	informers := map[schema.GroupVersionResource]cache.SharedIndexInformer{Resource(): c.nads.facts.nads, namespaces(): c.nads.facts.namespaces}
	for kind, resource := range render.Kinds() {
		informers[resource] = c.nads.facts.sources[kind]
	}
	for resource, informer := range informers {
		list, err := c.Resource(resource).List(c.Context(), metav1.ListOptions{})
		if err != nil {
			c.Fatal(err)
		}
		var all []any
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
		if err := informer.GetStore().Replace(all, ""); err != nil {
			c.Fatal(err)
		}
	}
}

// names lists objects of a kind.
func (c *cluster) names(kind string) string {
	c.Helper()
	list, err := c.Resource(resourceOf(kind)).List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		name := keyOf(&list.Items[i])
		if list.Items[i].GetDeletionTimestamp() != nil {
			name += " (leaving)"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// says is a condition of an object.
func (c *cluster) says(owner contract.Owner, condition string) string {
	c.Helper()
	o, err := c.Tracker().Get(resourceOf(owner.Kind), owner.Namespace, owner.Name)
	if err != nil {
		return "gone"
	}
	list, err := conditionsOf(o.(*unstructured.Unstructured))
	if err != nil {
		c.Fatal(err)
	}
	found := meta.FindStatusCondition(list, condition)
	if found == nil {
		return ""
	}
	return string(found.Status) + " " + found.Reason + ": " + found.Message
}

func (c *cluster) want(what, got, want string) {
	c.Helper()
	if got != want {
		c.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (c *cluster) wantPart(what, got string, parts ...string) {
	c.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			c.Errorf("%s: %q, want %q", what, got, part)
		}
	}
}

func namespace(name, labels string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + ", labels: {" + labels + "}}\n"
}

func udn(namespace, name, spec string) string {
	return "apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {namespace: " + namespace + ", name: " + name + "}\nspec: " + spec + "\n"
}

func cudn(name, selector, network string) string {
	return "apiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {name: " + name + "}\nspec: {namespaceSelector: " + selector + ", network: " + network + "}\n"
}

const (
	layer2   = "{topology: Layer2, layer2: {role: Secondary, subnets: [10.60.0.0/24]}}"
	primary  = "{topology: Layer2, layer2: {role: Primary, subnets: [10.60.0.0/24]}}"
	labelled = "k8s.ovn.org/primary-user-defined-network: ''"
)

var (
	netA = contract.Owner{Kind: ovnv1.KindUserDefinedNetwork, Namespace: "red", Name: "a"}
	netB = contract.Owner{Kind: ovnv1.KindUserDefinedNetwork, Namespace: "red", Name: "b"}
	wide = contract.Owner{Kind: ovnv1.KindClusterUserDefinedNetwork, Name: "wide"}
	web  = contract.PodOwner("red", "web")
)

func TestUDN_HasNADAndConditions(t *testing.T) {
	c := newCluster(t, namespace("red", ""), udn("red", "a", layer2))
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "red/a")
	c.want("created", c.says(netA, conditionCreated), "True NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created")
	c.want("allocated", c.says(netA, conditionAllocated), "")
	c.edit(contract.KindNAD, "red", "a", func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{contract.NetworkNameKey: "red_a"})
	})
	c.settle()
	c.wantPart("allocated", c.says(netA, conditionAllocated), "True NetworkAllocationSucceeded")
	c.want("transport", c.says(netA, conditionTransport), "")

	c.nads.Allocated("n1", map[string]error{"red_a": errors.New("subnets are used up")})
	c.verdicts["red/a"] = Verdict{IsKnown: true, Refused: errors.New("the configuration is not that of another")}
	c.settle()
	c.wantPart("allocated", c.says(netA, conditionAllocated), "False InternalError", "node n1: subnets are used up", "red/a: the configuration is not")
	c.nads.Allocated("n1", nil)
	delete(c.verdicts, "red/a")
	c.settle()
	c.wantPart("allocated", c.says(netA, conditionAllocated), "True")
	c.wantPart("Events", strings.Join(c.events, "\n"), "Normal NetworkAttachmentDefinitionCreated", "Warning NetworkAllocationFailed: node n1: subnets are used up; NetworkAttachmentDefinition red/a", "Normal NetworkAllocationSucceeded")
}

// TestUDN_NamesItsPodsInOneOrder: the same pods are the same message, and one Event.
func TestUDN_NamesItsPodsInOneOrder(t *testing.T) {
	c := newCluster(t, namespace("red", ""), udn("red", "a", layer2))
	c.settle()
	a, b := contract.PodOwner("red", "a"), contract.PodOwner("red", "b")
	c.pods["red/a"] = []contract.Owner{web, b, a}
	c.remove(netA.Kind, "red", "a")
	c.settle()
	c.want("created", c.says(netA, conditionCreated), "False SyncError: network in use by pods: [red/a, red/b, red/web]")
}

func TestUDN_DeletedWaitsForItsPods(t *testing.T) {
	c := newCluster(t, namespace("red", ""), udn("red", "a", layer2))
	c.settle()
	c.pods["red/a"] = []contract.Owner{web}
	c.remove(netA.Kind, "red", "a")
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "red/a")
	c.want("UDNs", c.names(netA.Kind), "red/a (leaving)")
	c.want("created", c.says(netA, conditionCreated), "False SyncError: network in use by pods: [red/web]")
	delete(c.pods, "red/a")
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "")
	c.want("UDNs", c.names(netA.Kind), "")
}

func TestUDN_ForeignNADIsLeftAlone(t *testing.T) {
	foreign := "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {namespace: red, name: a}\nspec: {config: theirs}\n"
	c := newCluster(t, namespace("red", ""), foreign, udn("red", "a", layer2))
	c.settle()
	c.wantPart("created", c.says(netA, conditionCreated), "False SyncError: foreign NetworkAttachmentDefinition red/a")
	c.edit(contract.KindNAD, "red", "a", func(u *unstructured.Unstructured) {
		if config, _, _ := unstructured.NestedString(u.Object, "spec", "config"); config != "theirs" || len(u.GetFinalizers()) > 0 {
			t.Errorf("the foreign NAD was changed: %v", u.Object)
		}
	})
	c.remove(netA.Kind, "red", "a")
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "red/a")
	c.want("UDNs", c.names(netA.Kind), "")
	c.put(udn("red", "a", layer2))
	c.remove(contract.KindNAD, "red", "a")
	c.settle()
	c.wantPart("created", c.says(netA, conditionCreated), "True")
}

func TestNAD_EditIsReverted(t *testing.T) {
	c := newCluster(t, namespace("red", ""), strings.Replace(udn("red", "a", layer2), "name: a", "name: a, labels: {app: db}, annotations: {team: x}", 1))
	c.settle()
	var before *unstructured.Unstructured
	c.edit(contract.KindNAD, "red", "a", func(u *unstructured.Unstructured) {
		before = u.DeepCopy()
		u.Object["spec"] = map[string]any{"config": "mine"}
		u.SetLabels(map[string]string{"mine": "x"})
		u.SetAnnotations(map[string]string{"mine": "x", contract.NetworkIDKey: "7"})
		u.SetFinalizers([]string{"example.com/other"})
	})
	c.settle()
	c.edit(contract.KindNAD, "red", "a", func(u *unstructured.Unstructured) {
		before.SetAnnotations(map[string]string{"team": "x", contract.NetworkIDKey: "7"})
		before.SetFinalizers([]string{"example.com/other", contract.NetworkFinalizer})
		if fmt.Sprint(before.Object) != fmt.Sprint(u.Object) {
			t.Errorf("got  %v\nwant %v", u.Object, before.Object)
		}
	})
}

func TestNAD_DeletedByHandComesAgainAfterItsPods(t *testing.T) {
	c := newCluster(t, namespace("red", ""), udn("red", "a", layer2))
	c.settle()
	c.pods["red/a"] = []contract.Owner{web}
	c.remove(contract.KindNAD, "red", "a")
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "red/a (leaving)")
	c.wantPart("created", c.says(netA, conditionCreated), "False SyncError: network in use by pods")
	delete(c.pods, "red/a")
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "red/a")
	c.wantPart("created", c.says(netA, conditionCreated), "True")
}

func TestCUDN_NADsFollowItsNamespaces(t *testing.T) {
	c := newCluster(t, namespace("red", "team: x"), namespace("blue", "team: x"), namespace("green", "team: z"), cudn("wide", "{matchLabels: {team: x}}", layer2))
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "blue/wide, red/wide")
	c.want("created", c.says(wide, conditionCreated), "True NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created in following namespaces: [blue, red]")

	c.put(namespace("new", "team: x"))
	c.settle()
	c.want("with a new namespace", c.names(contract.KindNAD), "blue/wide, new/wide, red/wide")

	c.pods["red/wide"] = []contract.Owner{web}
	c.edit(wide.Kind, "", "wide", func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"team": "z"}, "spec", "namespaceSelector", "matchLabels")
	})
	c.settle()
	c.want("with another selector", c.names(contract.KindNAD), "green/wide, red/wide")
	c.wantPart("created", c.says(wide, conditionCreated), "False NetworkAttachmentDefinitionSyncError: network in use by pods: [red/web]")
	delete(c.pods, "red/wide")
	c.settle()
	c.want("when the pods have left", c.names(contract.KindNAD), "green/wide")

	c.pods["green/wide"] = []contract.Owner{contract.PodOwner("green", "web")}
	c.remove(wide.Kind, "", "wide")
	c.settle()
	c.want("deleted in use", c.names(contract.KindNAD), "green/wide")
	delete(c.pods, "green/wide")
	c.settle()
	c.want("deleted", c.names(contract.KindNAD)+c.names(wide.Kind), "")
}

// TestCUDN_LetsATerminatingNamespaceGo: the network lives on, and its finalizer must not hold the namespace.
func TestCUDN_LetsATerminatingNamespaceGo(t *testing.T) {
	c := newCluster(t, namespace("red", "team: x"), namespace("blue", "team: x"), cudn("wide", "{matchLabels: {team: x}}", layer2))
	c.settle()
	c.pods["red/wide"] = []contract.Owner{web}
	c.edit(kindNamespace, "", "red", func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) })
	c.remove(contract.KindNAD, "red", "wide")
	c.settle()
	c.want("with pods", c.names(contract.KindNAD), "blue/wide, red/wide (leaving)")
	delete(c.pods, "red/wide")
	c.settle()
	c.want("without pods", c.names(contract.KindNAD), "blue/wide")
	c.wantPart("created", c.says(wide, conditionCreated), "True", "[blue]")
}

// TestNADs_AreKeptByPodsThatMayUseThem: a pod elsewhere keeps no NAD of a namespace that ends, and a pod that may not use a network
// keeps nothing at all. It is so for each kind.
func TestNADs_AreKeptByPodsThatMayUseThem(t *testing.T) {
	network := "apiVersion: k8s.plugin.opnfv.org/v1alpha1\nkind: Network\nmetadata: {namespace: red, name: a}\nspec: {cniType: ovn4nfv, ipv4Subnets: [{subnet: 10.1.0.0/24}]}\n"
	provider := "apiVersion: k8s.plugin.opnfv.org/v1alpha1\nkind: ProviderNetwork\nmetadata: {namespace: red, name: a}\n" +
		"spec: {cniType: ovn4nfv, ipv4Subnets: [{subnet: 10.1.0.0/24}], providerNetType: VLAN, vlan: {vlanId: '7', providerInterfaceName: eth1, logicalInterfaceName: eth1.7, vlanNodeSelector: all}}\n"
	for kind, object := range map[string]string{netA.Kind: udn("red", "a", layer2), wide.Kind: cudn("a", "{matchLabels: {team: x}}", layer2), "Network": network, "ProviderNetwork": provider} {
		for _, tc := range []struct {
			pod  contract.Owner
			ends bool
			kept bool
		}{
			{web, true, true}, {web, false, true},
			{contract.PodOwner("dev", "p"), true, false}, {contract.PodOwner("dev", "p"), false, true},
			{contract.PodOwner("evil", "p"), true, false}, {contract.PodOwner("evil", "p"), false, false},
		} {
			c := newCluster(t, namespace("red", "team: x"), object)
			c.settle()
			c.want("NADs of "+kind, c.names(contract.KindNAD), "red/a")
			c.pods["red/a"] = []contract.Owner{tc.pod}
			if tc.ends {
				c.edit(kindNamespace, "", "red", func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) })
				c.remove(contract.KindNAD, "red", "a")
			}
			at := "red"
			if kind == wide.Kind {
				at = ""
			}
			c.remove(kind, at, "a")
			c.settle()
			if kept := c.names(contract.KindNAD) != ""; kept != tc.kept {
				t.Errorf("%s, pod %s, namespace ends %v: NADs %q, want one: %v", kind, tc.pod, tc.ends, c.names(contract.KindNAD), tc.kept)
			}
		}
	}
}

// TestUnreadable_SaysSoAndCanBeDeleted: an object that the API server takes and that cannot be read. Namespaces keep what they
// have.
func TestUnreadable_SaysSoAndCanBeDeleted(t *testing.T) {
	bad := "{matchExpressions: [{key: team, operator: In}]}"
	c := newCluster(t, namespace("red", "team: x"), namespace("blue", "team: x"), cudn("wide", bad, layer2))
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "")
	c.wantPart("created", c.says(wide, conditionCreated), "False NetworkAttachmentDefinitionSyncError: namespaceSelector: ", "values")
	c.wantPart("Events", strings.Join(c.events, "\n"), "Warning NetworkAttachmentDefinitionSyncError: namespaceSelector")

	c.put(cudn("wide", "{matchLabels: {team: x}}", layer2))
	c.settle()
	c.want("with a selector", c.names(contract.KindNAD), "blue/wide, red/wide")
	c.put(cudn("wide", "{matchLabels: {team: 'a b'}}", layer2))
	c.put(namespace("green", "team: x"))
	c.settle()
	c.want("with a bad one", c.names(contract.KindNAD), "blue/wide, red/wide")
	c.wantPart("created", c.says(wide, conditionCreated), "False", "a b")

	c.edit(kindNamespace, "", "red", func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) })
	c.remove(contract.KindNAD, "red", "wide")
	c.settle()
	c.want("when a namespace ends", c.names(contract.KindNAD), "blue/wide")
	c.remove(wide.Kind, "", "wide")
	c.settle()
	c.want("deleted", c.names(contract.KindNAD)+c.names(wide.Kind), "")

	c.put(udn("red", "a", "{topology: Layer2, layer2: 7}"))
	c.put(namespace("red", ""))
	c.settle()
	c.wantPart("a spec of another form", c.says(netA, conditionCreated), "False SyncError")
	c.remove(netA.Kind, "red", "a")
	c.settle()
	c.want("deleted", c.names(netA.Kind), "")
}

// TestOrphan_WaitsForItsPods: the NAD of a former object goes when its pod does, whether or not there is a new object.
func TestOrphan_WaitsForItsPods(t *testing.T) {
	for _, again := range []bool{false, true} {
		c := newCluster(t, namespace("red", ""), udn("red", "a", layer2))
		c.settle()
		if err := c.Tracker().Delete(resourceOf(netA.Kind), "red", "a"); err != nil {
			t.Fatal(err)
		}
		if again {
			c.put(udn("red", "a", layer2))
		}
		c.pods["red/a"] = []contract.Owner{web}
		c.settle()
		c.want("NADs", c.names(contract.KindNAD), "red/a")
		if owners := c.nads.waiting[web]; !owners.Has(netA) {
			t.Errorf("another object %v: %v wait for the pod, want %s", again, owners.UnsortedList(), netA)
		}
	}
}

func TestPrimary_NeedsLabelOfItsNamespace(t *testing.T) {
	c := newCluster(t, namespace("red", ""), udn("red", "a", primary))
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "")
	c.wantPart("created", c.says(netA, conditionCreated), "False SyncError", "namespace red does not have the label k8s.ovn.org/primary-user-defined-network")
	c.put(namespace("red", labelled))
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "red/a")
}

func TestPrimary_SecondOfANamespaceIsNotReady(t *testing.T) {
	c := newCluster(t, namespace("red", labelled), udn("red", "a", primary), udn("red", "b", primary), cudn("wide", "{}", primary))
	c.settle()
	if n := strings.Count(c.names(contract.KindNAD), "/"); n != 1 {
		t.Fatalf("%d NADs: %s", n, c.names(contract.KindNAD))
	}
	refused := 0
	for _, owner := range []contract.Owner{netA, netB, wide} {
		if strings.Contains(c.says(owner, conditionCreated), "primary network already exists in namespace red") {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("%d networks say that another came first", refused)
	}
	// One leaves: another one follows.
	winner := strings.TrimPrefix(c.names(contract.KindNAD), "red/")
	if winner == "wide" {
		c.remove(wide.Kind, "", "wide")
	} else {
		c.remove(netA.Kind, "red", winner)
	}
	c.settle()
	c.settle()
	if now := c.names(contract.KindNAD); now == "red/"+winner || strings.Count(now, "/") != 1 {
		t.Errorf("NADs after %s: %s", winner, now)
	}
}

// TestNodus_HasStateOfItsKind: the kinds of OVN4NFV have a state and no conditions.
func TestNodus_HasStateOfItsKind(t *testing.T) {
	network := func(subnet string) string {
		return "apiVersion: k8s.plugin.opnfv.org/v1alpha1\nkind: Network\nmetadata: {namespace: red, name: priv}\nspec: {cniType: ovn4nfv, ipv4Subnets: [{subnet: " + subnet + "}]}\n"
	}
	c := newCluster(t, namespace("red", ""), network("10.1.0.0/24"))
	status := func() string {
		o, err := c.Tracker().Get(resourceOf("Network"), "red", "priv")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(o.(*unstructured.Unstructured).Object["status"])
	}
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "red/priv")
	c.want("status", status(), "map[message: state:Created]")
	c.verdicts["red/priv"] = Verdict{IsKnown: true, Refused: errors.New("name red_priv is reserved")}
	c.settle()
	c.want("refused", status(), "map[message:name red_priv is reserved state:CreateInternalError]")
	delete(c.verdicts, "red/priv")
	c.settle()
	c.want("no longer refused", status(), "map[message: state:Created]")
	c.events = c.events[:1]
	c.put(network("10.1.0.0"))
	c.settle()
	c.wantPart("status", status(), "state:CreateInternalError", `subnet "10.1.0.0" is not in the form address/length`)
	c.wantPart("Events", strings.Join(c.events, "\n"), "Normal NetworkAttachmentDefinitionCreated", "Warning SyncError: subnet")
	if len(c.events) != 2 {
		t.Errorf("Events: %q", c.events)
	}
	c.remove("Network", "red", "priv")
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "")
}

// TestOrphan_IsReleased: the object went by force, and another one of the name is there or not.
func TestOrphan_IsReleased(t *testing.T) {
	for _, again := range []bool{false, true} {
		c := newCluster(t, namespace("red", ""), udn("red", "a", layer2))
		c.settle()
		if err := c.Tracker().Delete(resourceOf(netA.Kind), "red", "a"); err != nil {
			t.Fatal(err)
		}
		want := ""
		if again {
			c.put(udn("red", "a", layer2))
			want = "red/a"
		}
		c.settle()
		c.want("NADs", c.names(contract.KindNAD), want)
	}
}

// TestRun_FollowsEvents: the loop with its informers, as the controller runs it.
func TestRun_FollowsEvents(t *testing.T) {
	c := newCluster(t, namespace("red", "team: x"), udn("red", "a", layer2), cudn("wide", "{matchLabels: {team: x}}", layer2))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.nads.Run(ctx) }()
	defer func() {
		stop()
		<-ended
	}()
	await := func(what string, f func() string, want string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); f() != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %q, want %q", what, f(), want)
			}
		}
	}
	all := func() string { return c.names(contract.KindNAD) }
	await("at the start", all, "red/a, red/wide")
	c.put(namespace("blue", "team: x"))
	await("a new namespace", all, "blue/wide, red/a, red/wide")
	c.put(namespace("blue", "team: z"))
	await("a namespace with another label", all, "red/a, red/wide")
	c.mu.Lock()
	c.pods["red/a"] = []contract.Owner{web}
	c.mu.Unlock()
	c.remove(netA.Kind, "red", "a")
	await("a network in use", func() string { return c.says(netA, conditionCreated) }, "False SyncError: network in use by pods: [red/web]")
	c.mu.Lock()
	delete(c.pods, "red/a")
	c.mu.Unlock()
	c.nads.Changed(contract.Owner{Kind: contract.KindPod, Namespace: "red", Name: "web", Network: "red/a"})
	await("the pod has left", all, "red/wide")
	await("the network is gone", func() string { return c.says(netA, conditionCreated) }, "gone")
}
