package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

func adminClient(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	lists := map[schema.GroupVersionResource]string{}
	for kind, resource := range policy.AdminKinds() {
		lists[resource] = kind + "List"
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
}

func clusterPolicy(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": contract.KindClusterNetworkPolicy, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// TestAdminPolicies_AbsentKindsAreNoError: a cluster without the CRDs is complete without them,
// while one whose answer is another error is not.
func TestAdminPolicies_AbsentKindsAreNoError(t *testing.T) {
	for _, c := range []struct {
		answer error
		fails  bool
	}{{apierrors.NewNotFound(schema.GroupResource{}, ""), false}, {apierrors.NewForbidden(schema.GroupResource{}, "", nil), true}} {
		client := adminClient()
		client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.answer })
		view := newTestView(t)
		err := view.WatchAdminPolicies(t.Context(), client)
		if err == nil {
			err = view.Start(t.Context())
		}
		if (err != nil) != c.fails {
			t.Errorf("answer %v: %v", c.answer, err)
		}
	}
}

// lines gives a log line by line, to who asks in time.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// TestAdminPolicies_FailureToReadIsLogged: until they are read the View is not complete,
// and its owner wants to know why.
func TestAdminPolicies_FailureToReadIsLogged(t *testing.T) {
	log := make(lines, 10)
	client, view := adminClient(), newTestView(t)
	if err := view.WatchAdminPolicies(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("a role is missing"))
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ctx = klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log))))
	ended := make(chan error, 1)
	go func() { ended <- view.Start(ctx) }()
	select {
	case line := <-log:
		if !strings.Contains(line, "a role is missing") {
			t.Errorf("logged %s", line)
		}
	case err := <-ended:
		t.Errorf("nothing was logged; %v", err)
	}
}

func newTestView(t *testing.T) *ClusterView {
	t.Helper()
	view, err := NewClusterView(apitest.Client(fake.NewClientset()))
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// TestAdminPolicies_MarkSelectedPods: the pods of the namespaces that it selects, also
// when a namespace's labels change, and policies about nodes when a node does.
func TestAdminPolicies_MarkSelectedPods(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "a"}}}
	client, objects := fake.NewClientset(ns), adminClient()
	view, err := NewClusterView(apitest.Client(client))
	if err != nil {
		t.Fatal(err)
	}
	h := &received{more: make(chan struct{}, 1)}
	view.OnChange(h.listen)
	if err := view.WatchAdminPolicies(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	if err := view.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), newPod("pod", "n"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "Pod/ns/pod")
	object := clusterPolicy("p", map[string]any{
		"tier": "Admin", "priority": int64(1), "subject": map[string]any{"namespaces": map[string]any{"matchLabels": map[string]any{"team": "a"}}},
		"egress": []any{map[string]any{"action": "Deny", "to": []any{map[string]any{"nodes": map[string]any{}}}}},
	})
	if _, err := objects.Resource(policy.AdminKinds()[contract.KindClusterNetworkPolicy]).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "ClusterNetworkPolicy/p", "Pod/ns/pod")
	if _, err := client.CoreV1().Nodes().Create(t.Context(), newNode("n", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "ClusterNetworkPolicy/p", "Node/n")
	ns = ns.DeepCopy()
	ns.Labels["team"] = "b"
	if _, err := client.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.want(t, "Pod/ns/pod")
}

// TestCondition_IsAppliedOnce: a condition that the object has is not written again.
func TestCondition_IsAppliedOnce(t *testing.T) {
	object := clusterPolicy("p", map[string]any{})
	object.SetGeneration(3)
	client := adminClient()
	var sent []string
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		if patch.GetSubresource() != "status" {
			t.Errorf("subresource %q", patch.GetSubresource())
		}
		sent = append(sent, string(patch.GetPatch()))
		return true, object, nil
	})
	owner := contract.Owner{Kind: contract.KindClusterNetworkPolicy, Name: "p"}
	want := metav1.Condition{Type: PolicyReadyCondition, Status: metav1.ConditionTrue, Reason: "SetupSucceeded", Message: "done"}
	for _, c := range []struct {
		have metav1.Condition
		sent int
	}{
		{metav1.Condition{}, 1},
		{metav1.Condition{Type: PolicyReadyCondition, Status: metav1.ConditionTrue, Reason: "SetupSucceeded", Message: "done", ObservedGeneration: 3}, 1},
		{metav1.Condition{Type: PolicyReadyCondition, Status: metav1.ConditionTrue, Reason: "SetupSucceeded", Message: "done", ObservedGeneration: 2}, 2},
		{metav1.Condition{Type: PolicyReadyCondition, Status: metav1.ConditionFalse, Reason: "SetupFailed", Message: "no", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}, 3},
	} {
		text, err := json.Marshal(c.have)
		if err != nil {
			t.Fatal(err)
		}
		var condition map[string]any
		if err := json.Unmarshal(text, &condition); err != nil {
			t.Fatal(err)
		}
		object.Object["status"] = map[string]any{"conditions": []any{condition}}
		if err := SetPolicyCondition(t.Context(), client, owner, object, want); err != nil {
			t.Fatal(err)
		}
		if len(sent) != c.sent {
			t.Errorf("after %+v: %d patches, want %d", c.have, len(sent), c.sent)
		}
	}
	if last := fmt.Sprint(sent); !strings.Contains(last, `"observedGeneration":3`) || strings.Contains(sent[2], "1970") {
		t.Errorf("patches: %s", last)
	}
}

// TestCondition_LongMessageIsShortened at a rune's border: the API would refuse it for
// ever. One that just fits is not touched.
func TestCondition_LongMessageIsShortened(t *testing.T) {
	object := clusterPolicy("p", map[string]any{})
	for message, want := range map[string]string{
		strings.Repeat("a", maxCondition):          strings.Repeat("a", maxCondition),
		"aa" + strings.Repeat("ä", maxCondition/2): "aa" + strings.Repeat("ä", (maxCondition-18)/2) + "... (shortened)",
	} {
		client, got := adminClient(), ""
		client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			var sent unstructured.Unstructured
			if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &sent.Object); err != nil {
				t.Error(err)
			}
			got = conditionOf(&sent, PolicyReadyCondition).Message
			return true, object, nil
		})
		condition := metav1.Condition{Type: PolicyReadyCondition, Status: metav1.ConditionFalse, Reason: "SetupFailed", Message: message}
		if err := SetPolicyCondition(t.Context(), client, contract.Owner{Kind: contract.KindClusterNetworkPolicy, Name: "p"}, object, condition); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("a message of %d bytes became one of %d, want %d; it ends with %q", len(message), len(got), len(want), got[len(got)-20:])
		}
	}
}
