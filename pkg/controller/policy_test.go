package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
)

func denyAll(namespace, name string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// groupWatch follows the database one transaction at a time and notes every
// state in which a port is there without being in a port group.
type groupWatch struct {
	t      *testing.T
	group  string
	ports  map[string]string // names by UUID
	within map[string]bool   // by UUID
	states int
	open   []string
	ended  chan struct{} // after it, the fields may be read
}

func watchGroup(t *testing.T, socket, group string) *groupWatch {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(socket, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, `{"id":1,"method":"monitor","params":["OVN_Northbound",null,{"Logical_Switch_Port":{"columns":["name"]},"Port_Group":{"columns":["name","ports"]}}]}`)
	w := &groupWatch{t: t, group: group, ports: map[string]string{}, within: map[string]bool{}, ended: make(chan struct{})}
	decoder := json.NewDecoder(conn)
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	w.read(decoder)
	conn.SetReadDeadline(time.Time{}) // from here on the database's end is the end
	go func() {
		defer close(w.ended)
		for w.read(decoder) {
		}
	}()
	return w
}

// read takes in one message: the content, or what one transaction changed.
func (w *groupWatch) read(decoder *json.Decoder) bool {
	type rows map[string]map[string]struct {
		New *struct {
			Name  string
			Ports json.RawMessage
		}
	}
	var m struct {
		Result rows
		Params []json.RawMessage
	}
	if decoder.Decode(&m) != nil {
		return false
	}
	content := m.Result
	if len(m.Params) == 2 {
		json.Unmarshal(m.Params[1], &content)
	}
	for uuid, row := range content["Logical_Switch_Port"] {
		if delete(w.ports, uuid); row.New != nil {
			w.ports[uuid] = row.New.Name
		}
	}
	for _, row := range content["Port_Group"] {
		if row.New != nil && row.New.Name == w.group {
			clear(w.within)
			for _, match := range regexp.MustCompile(`"uuid","([^"]+)"`).FindAllStringSubmatch(string(row.New.Ports), -1) {
				w.within[match[1]] = true
			}
		}
	}
	w.states++
	for uuid, name := range w.ports {
		if strings.HasPrefix(name, "d_") && !w.within[uuid] {
			w.open = append(w.open, name)
		}
	}
	return true
}

// TestNetworkPolicy_PortNeverLacksItsPortGroup: in no state of the database does a
// pod have a port outside the port group of a policy that selects it. The
// control watches a group in which the pods do not belong.
func TestNetworkPolicy_PortNeverLacksItsPortGroup(t *testing.T) {
	for _, c := range []struct {
		policy *networkingv1.NetworkPolicy
		open   bool
	}{{denyAll("d", "deny"), false}, {denyAll("elsewhere", "deny"), true}} {
		w := newWorld(t, testNode("n1"), c.policy)
		group := acl.PolicyGroup(contract.NetworkPolicyOwner(c.policy.Namespace, c.policy.Name))
		w.eventually("the policy's group", func() bool { return strings.Contains(w.server.Dump("Port_Group", "name"), group) })
		w.eventually("a leader", func() bool { return strings.Contains(w.logs.String(), "msg=leading") })
		watch := watchGroup(t, w.server.Endpoint(), group)
		for i := range 60 {
			if err := createPod(t, w, fmt.Sprint("p", i)); err != nil {
				t.Fatal(err)
			}
		}
		w.eventually("sixty ports", func() bool { return len(w.ports()) == 60 })
		w.stop()
		w.server.Kill()
		<-watch.ended
		w.stop = func() {}
		if watch.states < 3 {
			t.Errorf("%d states seen: this showed nothing", watch.states)
		}
		if (len(watch.open) > 0) != c.open {
			t.Errorf("policy in %s: open ports %v in %d states", c.policy.Namespace, watch.open, watch.states)
		}
	}
}

// setWatch follows the database one transaction at a time and notes every address
// set that a rule refers to and that is not there.
type setWatch struct {
	names, matches map[string]string // by UUID
	dangling       []string
	divided        bool // a rule has referred to a part of a set
	ended          chan struct{}
}

func watchSets(t *testing.T, socket string) *setWatch {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(socket, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, `{"id":1,"method":"monitor","params":["OVN_Northbound",null,{"Address_Set":{"columns":["name"]},"ACL":{"columns":["match"]}}]}`)
	w := &setWatch{names: map[string]string{}, matches: map[string]string{}, ended: make(chan struct{})}
	decoder := json.NewDecoder(conn)
	w.read(decoder)
	go func() {
		defer close(w.ended)
		for w.read(decoder) {
		}
	}()
	return w
}

func (w *setWatch) read(decoder *json.Decoder) bool {
	type rows map[string]map[string]struct{ New *struct{ Name, Match string } }
	var m struct {
		Result rows
		Params []json.RawMessage
	}
	if decoder.Decode(&m) != nil {
		return false
	}
	content := m.Result
	if len(m.Params) == 2 {
		json.Unmarshal(m.Params[1], &content)
	}
	for uuid, row := range content["Address_Set"] {
		if delete(w.names, uuid); row.New != nil {
			w.names[uuid] = row.New.Name
		}
	}
	for uuid, row := range content["ACL"] {
		if delete(w.matches, uuid); row.New != nil {
			w.matches[uuid] = row.New.Match
		}
	}
	present := slices.Collect(maps.Values(w.names))
	for _, match := range w.matches {
		for _, set := range regexp.MustCompile(`\$(a[0-9a-z_]+)`).FindAllStringSubmatch(match, -1) {
			w.divided = w.divided || strings.Contains(set[1], "_2_")
			if !slices.Contains(present, set[1]) {
				w.dangling = append(w.dangling, set[1])
			}
		}
	}
	return true
}

// TestNetworkPolicy_RulesFollowDividedAddressSet: one label brings more pods into a set than one
// address set has. In no state of the database does a rule refer to a missing one.
func TestNetworkPolicy_RulesFollowDividedAddressSet(t *testing.T) {
	policy := denyAll("d", "allow")
	selected := map[string]string{"many": "yes"}
	peer := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: selected}}
	policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many"}}
	objects := []runtime.Object{policy, namespace}
	for i := range 6100 { // beyond what has the old layout beside the new one
		pod := testPod(fmt.Sprint("p", i), "nowhere")
		pod.Namespace = namespace.Name
		objects = append(objects, pod)
	}
	w := newWorld(t, objects...)
	w.eventually("the rule", func() bool { return strings.Contains(w.server.Dump("ACL", "match"), "$a") })
	// What is marked later is built later: then nothing else is left to build.
	if _, err := w.client.NetworkingV1().NetworkPolicies("d").Create(t.Context(), denyAll("d", "later"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the end of the first pass", func() bool { return strings.Contains(w.server.Dump("Port_Group", "external_ids"), "d:later") })
	watch := watchSets(t, w.server.Endpoint())
	labelled := namespace.DeepCopy()
	labelled.Labels = selected
	if _, err := w.client.CoreV1().Namespaces().Update(t.Context(), labelled, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the rule's parts", func() bool { return strings.Contains(w.server.Dump("ACL", "match"), "_2_1_v4") })
	w.stop()
	w.server.Kill()
	<-watch.ended
	w.stop = func() {}
	if !watch.divided || len(watch.dangling) > 0 {
		t.Errorf("rules referred to sets that are not there: %v; to parts: %t", watch.dangling, watch.divided)
	}
}

// TestNetworkPolicy_RulesNeverLackAddressSets: policies are changed, deleted and created faster than the controller
// reconciles. In no state of the database does an ACL refer to a missing address set.
func TestNetworkPolicy_RulesNeverLackAddressSets(t *testing.T) {
	w := newWorld(t)
	watch := watchSets(t, w.server.Endpoint())
	policies := w.client.NetworkingV1().NetworkPolicies("d")
	r := rand.New(rand.NewPCG(1, 0))
	for i := range 1000 {
		policy := denyAll("d", fmt.Sprint("p", r.IntN(3)))
		peer := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": fmt.Sprint(i)}}}
		policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}}}
		_, err := policies.Update(t.Context(), policy, metav1.UpdateOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = policies.Create(t.Context(), policy, metav1.CreateOptions{})
		case err == nil && r.IntN(3) == 0:
			err = policies.Delete(t.Context(), policy.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.IntN(400)) * time.Microsecond)
	}
	for i := range 3 {
		if err := policies.Delete(t.Context(), fmt.Sprint("p", i), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	w.eventually("the end of sets that no policy uses", func() bool { return strings.TrimSpace(w.server.Dump("Address_Set", "name")) == "" })
	w.stop()
	w.server.Kill()
	<-watch.ended
	w.stop = func() {}
	if len(watch.dangling) > 0 {
		t.Errorf("rules referred to sets that are not there: %v", watch.dangling)
	}
}

// TestPortWaitsForItsNamespace_WhenAPolicySelectsByNamespaces: a pod whose namespace the
// informer has not seen would be outside the policies for the cluster. Without such a
// policy the port does not wait, and the namespace's event brings back one that does,
// selected or not. The cluster has no CRD of further networks, for which the pod's address would wait.
func TestPortWaitsForItsNamespace_WhenAPolicySelectsByNamespaces(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policies []runtime.Object
		waits    bool
		group    bool
	}{
		{"none", nil, false, false},
		{"selected", []runtime.Object{adminPolicy("p", map[string]any{})}, true, true},
		{"not selected", []runtime.Object{adminPolicy("p", map[string]any{"matchLabels": map[string]any{"team": "a"}})}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			other := testPod("other", "n1")
			other.Namespace, other.UID = "known", "other"
			w := wholeWorld(t, tc.policies, testNode("n1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "known"}}, testPod("a", "n1"))
			w.policies.(*dynamicfake.FakeDynamicClient).PrependReactor("list", kube.NADs().Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewNotFound(kube.NADs().GroupResource(), "")
			})
			w.startAndLead()
			w.eventually("the pod's address", func() bool { return w.annotation("a") != "" })
			if _, err := w.client.CoreV1().Pods("known").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.eventually("the other's port", func() bool { return w.hasRow("Logical_Switch_Port", "name=known_other") })
			if got := len(w.ports()) == 0; got != tc.waits {
				t.Errorf("ports %v", w.ports())
			}
			if _, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.eventually("the port", func() bool { return slices.Equal(w.ports(), []string{"d_a"}) })
			if got := w.hasRow("Port_Group", "Pod/d/a"); got != tc.group {
				t.Errorf("in the policy's group: %t, want %t", got, tc.group)
			}
		})
	}
}

func adminPolicy(name string, namespaces map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": contract.KindClusterNetworkPolicy, "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"tier": "Admin", "priority": int64(1), "subject": map[string]any{"namespaces": namespaces},
			"ingress": []any{map[string]any{"action": "Deny", "from": []any{map[string]any{"namespaces": map[string]any{}}}}},
		},
	}}
}
