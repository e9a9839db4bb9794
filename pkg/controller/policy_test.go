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

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/policytest"
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

// TestAPortIsNeverThereWithoutItsPolicies: in no state of the database does a
// pod have a port outside the port group of a policy that selects it. The
// control watches a group in which the pods do not belong.
func TestAPortIsNeverThereWithoutItsPolicies(t *testing.T) {
	for _, c := range []struct {
		policy *networkingv1.NetworkPolicy
		open   bool
	}{{denyAll("d", "deny"), false}, {denyAll("elsewhere", "deny"), true}} {
		w := newWorld(t, testNode("n1"), c.policy)
		group := ovn.PolicyGroup(kube.NetworkPolicyOwner(c.policy.Namespace, c.policy.Name))
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

// TestRulesFollowASetThatIsDivided: one label brings more pods into a set than one
// address set has. In no state of the database does a rule refer to a missing one.
func TestRulesFollowASetThatIsDivided(t *testing.T) {
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

// TestRandomPoliciesEndAsIfBuiltAfresh changes pods, namespaces and policies at
// random, with restarts of the controller and of the database in between; in the
// end the rows are those that a new controller writes into an empty database.
func TestRandomPoliciesEndAsIfBuiltAfresh(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, testNode("n1"), testNode("n2"))
	w.eventually("a leader", func() bool { return strings.Contains(w.logs.String(), "msg=leading") })
	blocks := []networkingv1.IPBlock{{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}}
	for step := range 300 {
		w.change(r, blocks)
		switch step % 90 {
		case 60:
			w.stop()
			w.change(r, blocks)
			w.startAndLead()
		case 30:
			w.server.Restart()
		}
	}
	fresh := newWorld(t, w.objects()...)
	got, want := "", ""
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got, want = policyRows(w), policyRows(fresh)
		if got == want && fresh.settled() && w.settled() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("ports settled: %t and afresh %t; rows (-afresh +got):\n%s", w.settled(), fresh.settled(), cmp.Diff(want, got))
		}
	}
	if strings.Count(got, "outport") < 2 {
		t.Errorf("hardly any rule at the end, this showed little:\n%s", got)
	}
}

// startAndLead also waits until the controller has its view: the fake API loses
// what happens between a list and its watch.
func (w *world) startAndLead() {
	terms := strings.Count(w.logs.String(), "msg=leading")
	w.start()
	w.eventually("a leader", func() bool { return strings.Count(w.logs.String(), "msg=leading") > terms })
}

// settled says that every pod has an address and a port.
func (w *world) settled() bool {
	pods, err := w.client.CoreV1().Pods("").List(w.t.Context(), metav1.ListOptions{})
	return err == nil && strings.Count(w.server.Dump("Logical_Switch_Port", "external_ids"), "Pod/") == len(pods.Items)
}

// change does one random thing to the API's objects.
func (w *world) change(r *rand.Rand, blocks []networkingv1.IPBlock) {
	ctx, core := w.t.Context(), w.client.CoreV1()
	namespace := policytest.Namespaces()[r.IntN(3)]
	name := fmt.Sprint("o", r.IntN(6))
	labels := map[string]string{"ns": policytest.Namespaces()[r.IntN(3)], "pod": policytest.PodNames()[r.IntN(3)]}
	switch r.IntN(7) {
	case 0, 1:
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}}
		if _, err := core.Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			core.Namespaces().Update(ctx, object, metav1.UpdateOptions{})
		}
	case 2, 3:
		pod := testPod(name, fmt.Sprint("n", 1+r.IntN(2)))
		pod.Namespace, pod.Labels, pod.UID = namespace, labels, types.UID(fmt.Sprint(r.Uint64()))
		pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "serve", ContainerPort: int32(80 + r.IntN(2))}}}}
		if old, err := core.Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			old.Labels = labels
			core.Pods(namespace).Update(ctx, old, metav1.UpdateOptions{})
			return
		}
		core.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	case 4:
		core.Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	case 5:
		policy := policytest.Policy(r, name, blocks)
		policies := w.client.NetworkingV1().NetworkPolicies(policy.Namespace)
		if _, err := policies.Create(ctx, policy, metav1.CreateOptions{}); err != nil {
			policies.Update(ctx, policy, metav1.UpdateOptions{})
		}
	case 6:
		w.client.NetworkingV1().NetworkPolicies(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}

// objects is what the API holds, for another world.
func (w *world) objects() []runtime.Object {
	ctx := w.t.Context()
	nodes, _ := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	namespaces, _ := w.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	w.eventually("addresses for all pods", func() bool {
		pods, _ := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		return !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Annotations[kube.PodNetworksKey] == "" })
	})
	pods, _ := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	policies, _ := w.client.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{})
	services, _ := w.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	endpoints, _ := w.client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
	return slices.Concat(pointers(nodes.Items), pointers(namespaces.Items), pointers(pods.Items),
		pointers(policies.Items), pointers(services.Items), pointers(endpoints.Items))
}

// pointers are those to a list's items.
func pointers[T any, P interface {
	*T
	runtime.Object
}](items []T) []runtime.Object {
	var all []runtime.Object
	for i := range items {
		all = append(all, P(&items[i]))
	}
	return all
}

var (
	uuidPattern  = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	groupPattern = regexp.MustCompile(`p[0-9a-f]{32}|nodes`)
)

// policyRows is everything that policies put into the database, with names in
// the place of UUIDs.
func policyRows(w *world) string {
	names := map[string]string{}
	for line := range strings.Lines(w.server.Dump("Logical_Switch_Port", "_uuid", "name")) {
		if uuid, name, ok := strings.Cut(strings.TrimSpace(line), ","); ok {
			names[uuid] = name
		}
	}
	for line := range strings.Lines(w.server.Dump("ACL", "_uuid", "match", "direction", "action", "tier", "priority")) {
		if uuid, rule, ok := strings.Cut(strings.TrimSpace(line), ","); ok {
			names[uuid] = rule
		}
	}
	var lines []string
	for line := range strings.Lines(w.server.Dump("Port_Group", "name", "ports", "acls")) {
		members := uuidPattern.FindAllString(line, -1)
		for i := range members {
			members[i] = names[members[i]]
		}
		slices.Sort(members)
		lines = append(lines, groupPattern.FindString(line)+"\n  "+strings.Join(members, "\n  "))
	}
	for line := range strings.Lines(w.server.Dump("Address_Set", "name", "addresses")) {
		words := strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(` ,"[]`+"\n", c) })
		slices.Sort(words[1:])
		lines = append(lines, strings.Join(words, " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
