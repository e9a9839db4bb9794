package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// objectsOf are objects by key, found by an index's functions.
type objectsOf[T any] struct {
	byKey   map[string]*T
	indexes map[string]func(*T) []string
}

func (o objectsOf[T]) Get(key string) *T { return o.byKey[key] }

func (o objectsOf[T]) All() (all []*T) {
	for _, object := range o.byKey {
		all = append(all, object)
	}
	return all
}

func (o objectsOf[T]) Find(index, value string) []*T {
	return slices.DeleteFunc(o.All(), func(object *T) bool { return !slices.Contains(o.indexes[index](object), value) })
}

// multiWorld has NADs red/a and red/b of network "net", and what a test adds.
type multiWorld struct {
	*Index
	pods objectsOf[corev1.Pod]
	nads map[string]*contract.Network
}

func newMultiWorld() *multiWorld {
	w := &multiWorld{pods: objectsOf[corev1.Pod]{map[string]*corev1.Pod{}, PodIndexes()}, nads: map[string]*contract.Network{}}
	red := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "red"}}
	namespaces := objectsOf[corev1.Namespace]{map[string]*corev1.Namespace{"red": red}, NamespaceIndexes()}
	w.Index = NewIndex(w.pods, namespaces, func() bool { return true }, func(nad string) *contract.Network { return w.nads[nad] })
	return w
}

func (w *multiWorld) putNAD(key, network string, role contract.Role) []contract.Owner {
	w.nads[key] = &contract.Network{Name: network, Role: role}
	return w.NADsChanged(key)
}

func (w *multiWorld) putPod(name, networks string) []contract.Owner {
	pod := labelled(name, "app", name)
	pod.Namespace = "red"
	if networks != "" {
		pod.Annotations = map[string]string{contract.NetworksKey: networks}
	}
	w.pods.byKey["red/"+name] = pod
	return w.PodChanged(nil, pod)
}

func (w *multiWorld) putMulti(policyFor string, spec map[string]any) []contract.Owner {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetNamespace("red")
	object.SetName("policy")
	object.SetAnnotations(map[string]string{contract.PolicyForKey: policyFor})
	return w.MultiChanged(contract.MultiNetworkPolicyOwner("red", "policy"), object)
}

// fromAll allows from all pods of all namespaces.
func fromAll() map[string]any {
	return map[string]any{"podSelector": map[string]any{}, "ingress": []any{map[string]any{"from": []any{map[string]any{"namespaceSelector": map[string]any{}}}}}}
}

// state is what builders would see.
func (w *multiWorld) state() (lines []string) {
	for _, owner := range w.PolicyOwners() {
		lines = append(lines, owner.String())
	}
	for _, owner := range w.PodSetOwners() {
		var members []string
		for _, pod := range w.Members(w.PodSet(owner)) {
			members = append(members, pod.Name)
		}
		slices.Sort(members)
		lines = append(lines, fmt.Sprint("set on ", owner.Network, " ", members))
	}
	for _, pod := range w.pods.All() {
		for _, network := range []string{"", "net"} {
			policies, _ := w.PoliciesOf(pod, network)
			lines = append(lines, fmt.Sprintf("%d policies of %s on %q", len(policies), pod.Name, network))
		}
	}
	slices.Sort(lines)
	return lines
}

// TestMultiNetworkPolicy_OrderOfFactsChangesNothing: NADs, policy and pods come in any order; the last of them marks the
// policy, its set and the ports that join.
func TestMultiNetworkPolicy_OrderOfFactsChangesNothing(t *testing.T) {
	want := []string{
		"0 policies of a on \"\"", "0 policies of b on \"\"", "0 policies of plain on \"\"", "1 policies of a on \"net\"", "1 policies of b on \"net\"",
		"1 policies of plain on \"net\"", "MultiNetworkPolicy/red/policy@net", "set on net [a b]",
	}
	facts := []func(w *multiWorld) []contract.Owner{
		func(w *multiWorld) []contract.Owner { return w.putNAD("red/a", "net", contract.RoleSecondary) },
		func(w *multiWorld) []contract.Owner { return w.putMulti("a, none", fromAll()) },
		func(w *multiWorld) []contract.Owner {
			return slices.Concat(w.putPod("a", "a"), w.putPod("b", "b,b"), w.putPod("plain", ""))
		},
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		w := newMultiWorld()
		w.putNAD("red/b", "net", contract.RoleSecondary)
		var last []contract.Owner
		for _, at := range order {
			last = facts[at](w)
		}
		if diff := cmp.Diff(want, w.state()); diff != "" {
			t.Errorf("order %v (-want +got):\n%s", order, diff)
		}
		wanted := []contract.Owner{w.PodSetOwners()[0]}
		if order[2] != 2 {
			wanted = append(wanted, contract.MultiNetworkPolicyOwner("red", "policy").On("net"), contract.MultiNetworkPolicyOwner("red", "policy"),
				contract.PodOwner("red", "a").On("red/a"), contract.PodOwner("red", "b").On("red/b"), contract.PodOwner("red", "b").On("red/b/1"))
		}
		for _, owner := range wanted {
			if !slices.Contains(last, owner) {
				t.Errorf("order %v: the last fact does not mark %s, but %v", order, owner, last)
			}
		}
		if slices.Contains(last, contract.PodOwner("red", "a")) {
			t.Errorf("order %v: the default network's port is marked", order)
		}
	}
}

// TestMultiNetworkPolicy_FollowsNADs: a policy is on the secondary networks of its NADs, each once, and leaves those that
// go, become primary, or that the annotation no longer names.
func TestMultiNetworkPolicy_FollowsNADs(t *testing.T) {
	w := newMultiWorld()
	w.putPod("a", "a")
	w.putMulti("a,red/b, a,other/c", fromAll())
	on := func(want ...string) {
		t.Helper()
		var got []string
		for _, owner := range w.PolicyOwners() {
			got = append(got, owner.Network)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || len(w.PodSetOwners()) != len(want) {
			t.Errorf("on networks %v with %d sets, want %v", got, len(w.PodSetOwners()), want)
		}
	}
	on()
	w.putNAD("red/a", "net", contract.RoleSecondary)
	w.putNAD("red/b", "net", contract.RoleSecondary)
	on("net")
	w.putNAD("other/c", "far", contract.RoleSecondary)
	on("far", "net")
	w.putNAD("red/a", "net", contract.RolePrimary)
	on("far", "net")
	marked := w.putNAD("red/b", "net", contract.RolePrimary)
	on("far")
	if port := contract.PodOwner("red", "a").On("red/a"); !slices.Contains(marked, port) {
		t.Errorf("%s is not marked: %v", port, marked)
	}
	w.putMulti("b", fromAll())
	on()
	w.putNAD("red/b", "net", contract.RoleSecondary)
	on("net")
	w.MultiChanged(contract.MultiNetworkPolicyOwner("red", "policy"), nil)
	on()
	if marked := w.NADsChanged("red/b"); len(marked) > 0 {
		t.Errorf("a deleted policy is marked: %v", marked)
	}
}

func TestMultiProblem_SaysWhatIsWrong(t *testing.T) {
	w := newMultiWorld()
	w.putNAD("red/a", "net", contract.RoleSecondary)
	w.putNAD("red/p", "first", contract.RolePrimary)
	owner := contract.MultiNetworkPolicyOwner("red", "policy")
	for annotation, want := range map[string]string{
		"a":    "<nil>",
		"":     "the annotation k8s.v1.cni.cncf.io/policy-for is missing: the policy has no effect",
		"a,no": "annotation k8s.v1.cni.cncf.io/policy-for: NetworkAttachmentDefinition red/no does not exist, or defines no network",
		"p":    "annotation k8s.v1.cni.cncf.io/policy-for: network first of NetworkAttachmentDefinition red/p is primary, for which NetworkPolicies are",
		"a,B!": `annotation k8s.v1.cni.cncf.io/policy-for: "B!" is not the name of a NetworkAttachmentDefinition`,
	} {
		w.putMulti(annotation, fromAll())
		if got := fmt.Sprint(w.MultiProblem(owner)); got != want {
			t.Errorf("%q: %s, want %s", annotation, got, want)
		}
	}
	if err := w.MultiProblem(owner.On("net")); err != nil {
		t.Errorf("of the owner on a network: %v", err)
	}
}

// TestMultiNetworkPolicy_UnreadableIsolates: it selects every pod of its namespace, and nothing of the default network.
func TestMultiNetworkPolicy_UnreadableIsolates(t *testing.T) {
	w := newMultiWorld()
	w.putNAD("red/a", "net", contract.RoleSecondary)
	w.putMulti("a", map[string]any{"ingress": "text"})
	policy := w.Policy(contract.MultiNetworkPolicyOwner("red", "policy").On("net"))
	if policy == nil || policy.Err == nil || policy.Ingress == nil || policy.Egress == nil || len(policy.Ingress.Rules) > 0 {
		t.Errorf("policy %+v", policy)
	}
}

// TestMultiNetworkPolicy_BeyondTheLimitIsolates: on the networks after the limit the policy is in force and allows nothing.
// Fewer networks give it its rules back.
func TestMultiNetworkPolicy_BeyondTheLimitIsolates(t *testing.T) {
	w, owner := newMultiWorld(), contract.MultiNetworkPolicyOwner("red", "policy")
	w.putNAD("red/first", "first", contract.RoleSecondary)
	w.putNAD("red/last", "last", contract.RoleSecondary)
	var others []string
	for i := range contract.MaxPolicyNADs - 1 {
		others = append(others, fmt.Sprint("none", i))
	}
	list := strings.Join(others, ",")
	rules := func(network string) int {
		t.Helper()
		policy := w.Policy(owner.On(network))
		if policy == nil || policy.Ingress == nil {
			t.Fatalf("network %s has no policy: %+v", network, policy)
		}
		return len(policy.Ingress.Rules)
	}
	w.putMulti("first,"+list+",last", fromAll())
	if first, last := rules("first"), rules("last"); first != 1 || last != 0 {
		t.Errorf("%d rules on the first network and %d beyond the limit, want 1 and 0", first, last)
	}
	if err := w.Policy(owner.On("last")).Err; !errors.Is(err, ErrOverLimit) || w.Policy(owner.On("first")).Err != nil {
		t.Errorf("beyond the limit: %v; before: %v", err, w.Policy(owner.On("first")).Err)
	}
	if text := fmt.Sprint(w.MultiProblem(owner)); !strings.Contains(text, "65 networks are listed") || len(text) > 2000 {
		t.Errorf("the problem is %q", text)
	}
	w.putMulti(list+",last", fromAll())
	if last := rules("last"); last != 1 {
		t.Errorf("%d rules on the last network within the limit, want 1", last)
	}
}

// TestPolicies_NetworksOfFollowThePolicies: a network is named while a policy of the object is in force there.
func TestPolicies_NetworksOfFollowThePolicies(t *testing.T) {
	p, object := newPolicies(), contract.NetworkPolicyOwner("d", "web")
	for _, step := range []struct {
		network string
		policy  *Policy
		want    []string
	}{
		{"d/blue", &Policy{}, []string{"d/blue"}},
		{"", &Policy{}, []string{"", "d/blue"}},
		{"d/green", &Policy{}, []string{"", "d/blue", "d/green"}},
		{"d/blue", nil, []string{"", "d/green"}},
		{"", nil, []string{"d/green"}},
		{"d/green", nil, nil},
	} {
		p.put(object.On(step.network), step.policy)
		if got := slices.Sorted(slices.Values(p.NetworksOf(object))); !slices.Equal(got, step.want) {
			t.Errorf("after %q: %q, want %q", step.network, got, step.want)
		}
	}
}
