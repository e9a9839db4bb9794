package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// write is a request that changes an object.
type write struct {
	group               string // of the API, "" for the core's
	resource, operation string
	user                string
	groups              []string
	node                string // of which the user's token is
	before, after       map[string]any
}

// judged is a policy with its expressions compiled.
type judged struct {
	*admissionv1.ValidatingAdmissionPolicy
	programs map[string]cel.Program
}

// judge gives the messages of the policies that refuse a request, "" when none does. An
// expression that cannot be evaluated fails the test.
func judge(t *testing.T, policies []judged, w write) string {
	t.Helper()
	var messages []string
	for _, policy := range policies {
		if !policy.concerns(w) {
			continue
		}
		values := w.values()
		for _, v := range policy.Spec.Variables { // each is evaluated when it is asked for
			values["variables."+v.Name] = func() ref.Val { return policy.run(t, values, v.Expression) }
		}
		if slices.ContainsFunc(policy.Spec.MatchConditions, func(m admissionv1.MatchCondition) bool {
			return policy.run(t, values, m.Expression).Value() != true
		}) {
			continue
		}
		for _, v := range policy.Spec.Validations {
			switch {
			case policy.run(t, values, v.Expression).Value() == true:
			case v.MessageExpression != "":
				messages = append(messages, fmt.Sprint(policy.run(t, values, v.MessageExpression).Value()))
			default:
				messages = append(messages, v.Message)
			}
		}
	}
	return strings.Join(messages, "; ")
}

func (p judged) run(t *testing.T, values map[string]any, expression string) ref.Val {
	t.Helper()
	result, _, err := p.programs[expression].Eval(values)
	if err != nil {
		t.Errorf("%s: %v", expression, err)
	}
	return result
}

func (p judged) concerns(w write) bool {
	return slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
		resource, _, sub := strings.Cut(w.resource, "/")
		named := slices.Contains(r.Resources, w.resource) || sub && slices.Contains(r.Resources, resource+"/*")
		return named && slices.Contains(r.Operations, admissionv1.OperationType(w.operation)) && slices.Contains(r.APIGroups, w.group)
	})
}

func (w write) values() map[string]any {
	user := map[string]any{"username": w.user, "groups": append([]string{"system:authenticated"}, w.groups...)}
	if w.node != "" {
		user["extra"] = map[string]any{"authentication.kubernetes.io/node-name": []string{w.node}}
	}
	values := map[string]any{"request": map[string]any{"operation": w.operation, "userInfo": user}, "object": nil, "oldObject": nil}
	if w.before != nil {
		values["oldObject"] = w.before
	}
	if w.after != nil {
		values["object"] = w.after
	}
	return values
}

// compile uses the libraries of the API server that the policies use.
func compile(t *testing.T, policy *admissionv1.ValidatingAdmissionPolicy) judged {
	t.Helper()
	options := []cel.EnvOption{ext.Strings(), cel.OptionalTypes(), cel.HomogeneousAggregateLiterals()}
	for _, name := range []string{"object", "oldObject", "request"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	var expressions []string
	for _, v := range policy.Spec.Variables {
		options = append(options, cel.Variable("variables."+v.Name, cel.DynType))
		expressions = append(expressions, v.Expression)
	}
	for _, m := range policy.Spec.MatchConditions {
		expressions = append(expressions, m.Expression)
	}
	for _, v := range policy.Spec.Validations {
		if expressions = append(expressions, v.Expression); v.MessageExpression != "" {
			expressions = append(expressions, v.MessageExpression)
		}
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		t.Fatal(err)
	}
	p := judged{policy, map[string]cel.Program{}}
	for _, expression := range expressions {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatalf("%s: %s: %v", policy.Name, expression, issues.Err())
		}
		if p.programs[expression], err = env.Program(ast); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func policies(t *testing.T) (all []judged) {
	t.Helper()
	for _, files := range []map[string][]byte{manifests(t), dpuManifests(t)} {
		objects, err := decode(files)
		if err != nil {
			t.Fatal(err)
		}
		each(objects, func(o *admissionv1.ValidatingAdmissionPolicy) { all = append(all, compile(t, o)) })
	}
	return all
}

// object is a pod of node n1, or a Node n1, or what there is of these in a Binding.
func object(change ...string) map[string]any {
	annotations, labels := map[string]any{"other": "x"}, map[string]any{"app": "x"}
	for _, c := range change {
		where, value := annotations, "value"
		c, isLabel := strings.CutPrefix(c, "label ")
		if isLabel {
			where = labels
		}
		if key, text, ok := strings.Cut(c, "="); ok {
			c, value = key, text
		}
		where[c] = value
	}
	return map[string]any{
		"metadata": map[string]any{"name": "n1", "annotations": annotations, "labels": labels},
		"spec":     map[string]any{"nodeName": "n1"}, "status": map[string]any{"phase": "Running"},
	}
}

const (
	account    = "system:serviceaccount:ovn-kubernetes:"
	controller = account + "ovnkube-master"
	agent      = account + "ovnkube-node"
	hostAgent  = account + "ovnkube-node-dpu-host"
	dpu        = "system:serviceaccount:ovn-dpu:"
	kubelet    = "system:node:n1"
)

// TestPolicies_PodAnnotations: only who is believed may set, change or remove what is
// believed of a pod, by any way; everything else of a pod is free.
func TestPolicies_PodAnnotations(t *testing.T) {
	networks, details, status := contract.PodNetworksKey, contract.DPUConnectionKey, contract.DPUStatusKey
	all := policies(t)
	for _, way := range []string{"CREATE pods", "CREATE pods/binding", "CREATE bindings", "CREATE pods/eviction", "UPDATE pods", "UPDATE pods/status",
		"UPDATE pods/ephemeralcontainers", "UPDATE pods/resize"} {
		operation, resource, _ := strings.Cut(way, " ")
		for _, key := range []string{networks, details, status} {
			for _, user := range []string{"tenant", "kubernetes-admin", kubelet, "system:kube-scheduler", dpu + "n2", agent} {
				w := write{resource: resource, operation: operation, user: user, node: "n1", after: object(key)}
				if operation == "UPDATE" {
					w.before = object()
				}
				if got := judge(t, all, w); !strings.Contains(got, key) {
					t.Errorf("%s by %s sets %s: %q", way, user, key, got)
				}
				if user == agent || strings.HasPrefix(user, dpu) {
					continue // which have policies of their own
				}
				if w.after = object("mine"); judge(t, all, w) != "" {
					t.Errorf("%s by %s is refused without %s: %q", way, user, key, judge(t, all, w))
				}
				if operation == "CREATE" {
					continue
				}
				w.before, w.after = object(key), object(key, "mine")
				if got := judge(t, all, w); got != "" {
					t.Errorf("%s by %s is refused with %s as it was: %q", way, user, key, got)
				}
				if w.after = object("mine"); !strings.Contains(judge(t, all, w), key) {
					t.Errorf("%s by %s removes %s", way, user, key)
				}
				if w.after = object(key + "= value"); !strings.Contains(judge(t, all, w), key) {
					t.Errorf("%s by %s changes %s by a blank", way, user, key)
				}
			}
		}
	}
	for _, tc := range []struct {
		user, node, key string
		may             bool
	}{
		{controller, "n9", networks, true}, {controller, "n9", details, false}, {controller, "n9", status, false},
		{hostAgent, "n1", details, true}, {hostAgent, "n2", details, false}, {hostAgent, "", details, false},
		{hostAgent, "n1", status, false}, {hostAgent, "n1", networks, false},
		{dpu + "n1", "", status, true}, {dpu + "n2", "", status, false}, {dpu, "", status, false},
		{dpu + "n1", "", details, false}, {dpu + "n1", "", networks, false},
	} {
		w := write{resource: "pods/status", operation: "UPDATE", user: tc.user, node: tc.node, before: object(), after: object(tc.key)}
		if got := judge(t, all, w); (got == "") != tc.may {
			t.Errorf("%s of %q writes %s: %q", tc.user, tc.node, tc.key, got)
		}
	}
	unbound := object(status)
	delete(unbound["spec"].(map[string]any), "nodeName")
	before := maps.Clone(unbound)
	before["metadata"] = object()["metadata"]
	if judge(t, all, write{resource: "pods/status", operation: "UPDATE", user: dpu, before: before, after: unbound}) == "" {
		t.Error("an account without a name writes the status of a pod without a node")
	}
}

// TestPolicies_NodeMetadata: what is believed of a Node is its own agents' and the
// controller's, and a kubelet changes nothing of it.
func TestPolicies_NodeMetadata(t *testing.T) {
	all := policies(t)
	agents := []string{contract.NodeChassisIDKey, contract.NodeEncapIPsKey, contract.NodePrimaryAddressKey, contract.HostCIDRsKey, contract.GatewayConfigKey, contract.NodeMTUKey}
	central := []string{contract.NodeSubnetsKey, contract.NodeIDKey}
	for _, way := range []string{"CREATE nodes", "UPDATE nodes", "UPDATE nodes/status"} {
		operation, resource, _ := strings.Cut(way, " ")
		do := func(user, node string, before map[string]any, change ...string) string {
			w := write{resource: resource, operation: operation, user: user, node: node, after: object(change...)}
			if operation == "UPDATE" {
				w.before = before
			}
			if strings.HasPrefix(user, "system:node:") {
				w.groups = []string{"system:nodes"}
			}
			return judge(t, all, w)
		}
		for _, key := range slices.Concat(agents, central, []string{contract.ManagementPortKey}) {
			for _, user := range []string{kubelet, "system:node:n2", "kubernetes-admin", "tenant"} {
				if got := do(user, "n1", object(), key); !strings.Contains(got, key) {
					t.Errorf("%s by %s sets %s: %q", way, user, key, got)
				}
				if operation == "UPDATE" {
					if got := do(user, "n1", object(key), key, "mine"); got != "" {
						t.Errorf("%s by %s is refused with %s as it was: %q", way, user, key, got)
					}
					if got := do(user, "n1", object(key)); !strings.Contains(got, key) {
						t.Errorf("%s by %s removes %s: %q", way, user, key, got)
					}
				}
			}
		}
		if got := do("kubernetes-admin", "", object(), contract.GatewayMTUSupportKey, "label "+contract.DPULabel, "label "+contract.DPUHostLabel); got != "" {
			t.Errorf("%s by an administrator: %q", way, got)
		}
		if got := do(kubelet, "", object(), contract.GatewayMTUSupportKey); !strings.Contains(got, contract.GatewayMTUSupportKey) {
			t.Errorf("%s by a kubelet of a user's annotation: %q", way, got)
		}
		if got := do(kubelet, "", object(), "label topology.kubernetes.io/zone", "volumes.kubernetes.io/controller-managed-attach-detach"); got != "" {
			t.Errorf("%s by a kubelet of what is its own: %q", way, got)
		}
		for _, label := range []string{contract.DPULabel, contract.DPUHostLabel, "ovn-offload.io/switchdev"} {
			joins := operation == "CREATE" && label == contract.DPUHostLabel
			if got := do(kubelet, "", object(), "label "+label); strings.Contains(got, label) == joins {
				t.Errorf("%s by a kubelet sets %s: %q", way, label, got)
			}
			if operation == "UPDATE" {
				if got := do(kubelet, "", object("label "+label)); !strings.Contains(got, label) {
					t.Errorf("%s by a kubelet removes %s: %q", way, label, got)
				}
				if got := do(kubelet, "", object("label "+label), "label "+label, "mine"); got != "" {
					t.Errorf("%s by a kubelet with %s as it was: %q", way, label, got)
				}
			}
		}
	}
	update := func(user, node, change string) string {
		return judge(t, all, write{resource: "nodes/status", operation: "UPDATE", user: user, node: node, before: object(), after: object(change)})
	}
	for _, key := range agents {
		for _, own := range []struct{ user, node, other string }{{agent, "n1", "n2"}, {dpu + "n1", "", ""}} {
			if got := update(own.user, own.node, key); got != "" {
				t.Errorf("%s writes %s: %q", own.user, key, got)
			}
			if own.other != "" && update(own.user, own.other, key) == "" {
				t.Errorf("%s writes %s of another node", own.user, key)
			}
		}
		if update(dpu+"n2", "", key) == "" {
			t.Errorf("the DPU of another host writes %s", key)
		}
	}
	for _, key := range central {
		if got := update(controller, "n9", key); got != "" {
			t.Errorf("the controller writes %s: %q", key, got)
		}
	}
	if got := update(hostAgent, "n1", contract.ManagementPortKey); got != "" {
		t.Errorf("the agent of a host: %q", got)
	}
}

// TestPolicies_AgentsKeepTheRestOfANode: status, finalizers and owners of its Node are
// no agent's and no DPU's.
func TestPolicies_AgentsKeepTheRestOfANode(t *testing.T) {
	all := policies(t)
	changes := map[string]func(node map[string]any){
		"status": func(node map[string]any) { node["status"] = map[string]any{"phase": "Terminated"} },
		"spec":   func(node map[string]any) { node["spec"] = map[string]any{"nodeName": "n1", "unschedulable": true} },
		"finalizers": func(node map[string]any) {
			node["metadata"].(map[string]any)["finalizers"] = []any{"a/b"}
		},
		"owners": func(node map[string]any) {
			node["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"uid": "gone"}}
		},
	}
	for _, user := range []string{agent, hostAgent, dpu + "n1"} {
		for what, change := range changes {
			after := object()
			change(after)
			w := write{resource: "nodes/status", operation: "UPDATE", user: user, node: "n1", before: object(), after: after}
			if got := judge(t, all, w); got == "" {
				t.Errorf("%s changes %s", user, what)
			}
			w.user = "kubernetes-admin"
			if got := judge(t, all, w); got != "" {
				t.Errorf("an administrator may not change %s: %q", what, got)
			}
		}
	}
}

// TestPolicies_AgentsLabelTheirOwnSetUp: the label keeps pods on a node, so no agent may claim the other's mode, and no
// kubelet any.
func TestPolicies_AgentsLabelTheirOwnSetUp(t *testing.T) {
	all := policies(t)
	full, host := "label "+contract.SetUpLabel+"=full", "label "+contract.SetUpLabel+"=host"
	for _, tt := range []struct {
		user, node    string
		before, after map[string]any
		allowed       bool
	}{
		{agent, "n1", object(), object(full), true},
		{agent, "n1", object(full), object(), true},
		{agent, "n1", object(), object(host), false},
		{agent, "n2", object(), object(full), false},
		{agent, "n1", object(), object("label physical-network.ovn-offload.io/lan=true"), true},
		{agent, "n1", object("label physical-network.ovn-offload.io/lan=true"), object(), true},
		{agent, "n1", object(), object("label physical-network.ovn-offload.io/lan=other"), false},
		{agent, "n2", object(), object("label physical-network.ovn-offload.io/lan=true"), false},
		{hostAgent, "n1", object(), object(host), true},
		{hostAgent, "n1", object(host), object(), true},
		{hostAgent, "n1", object(), object(full), false},
		{hostAgent, "n1", object(host), object(full), false},
		{kubelet, "", object(), object(full), false},
		{kubelet, "", object(full), object(), false},
		{"kubernetes-admin", "", object(full), object(), true},
	} {
		w := write{resource: "nodes/status", operation: "UPDATE", user: tt.user, node: tt.node, before: tt.before, after: tt.after}
		if tt.user == kubelet {
			w.groups = []string{"system:nodes"}
		}
		if got := judge(t, all, w); (got == "") != tt.allowed {
			t.Errorf("%s of %q: labels from %v to %v: %q", tt.user, tt.node, tt.before["metadata"].(map[string]any)["labels"], tt.after["metadata"].(map[string]any)["labels"], got)
		}
	}
}
