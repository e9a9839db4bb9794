//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// rollout is a policy over two Nodes without machines, for which the test says what agents would say.
type rollout struct {
	*testing.T
	ns      string
	objects dynamic.Interface
}

const rolloutLabel = "rollout.test/node"

// TestOffloadPolicy_RollsOutWithRightsOfChart: the controller of the chart gives turns, cordons, evicts and uncordons with
// the rights that it has at a real API server, and a PodDisruptionBudget holds a node back. The control is the
// agent's account, which may evict nothing.
func TestOffloadPolicy_RollsOutWithRightsOfChart(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	tier.Full(t, "pkg/vf/rollout has the same with an API server in memory")
	objects, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	r := &rollout{T: t, ns: world.Namespace(t), objects: objects}
	const a, b = "rollout-a", "rollout-b"
	for _, node := range []string{a, b} {
		r.node(node)
	}
	guarded := r.pod("guarded", a)
	r.pod("free", a)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guard", Namespace: r.ns}}
	one := intstr.FromInt32(1)
	budget.Spec.MinAvailable, budget.Spec.Selector = &one, &metav1.LabelSelector{MatchLabels: map[string]string{"app": guarded}}
	if _, err := cluster.client.PolicyV1().PodDisruptionBudgets(r.ns).Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.apply(fmt.Sprintf(`{"apiVersion": %q, "kind": "OffloadPolicy", "metadata": {"name": "rollout"}, "spec": {"numVFs": 2,
		"nodeSelector": {"matchLabels": {%q: ""}}, "pfSelector": {"vendors": ["15b3"]}, "drain": "Evict", "uplinkChange": "InPlace"}}`, v1alpha1.Version, rolloutLabel))
	t.Cleanup(func() {
		_ = objects.Resource(v1alpha1.OffloadPolicies()).Delete(context.Background(), "rollout", metav1.DeleteOptions{})
	})
	r.waitState(a, v1alpha1.PolicyWaiting)
	r.waitState(b, v1alpha1.PolicyWaiting)
	r.changing(a)
	r.cordoned(a, true)
	r.evicted("free", true)
	r.waitState(a, v1alpha1.PolicyDrainNeeded)
	r.changing(a)
	r.evicted(guarded, false)
	if err := cluster.client.PolicyV1().PodDisruptionBudgets(r.ns).Delete(t.Context(), "guard", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.evicted(guarded, true)
	r.cordoned(b, false)
	r.waitState(a, v1alpha1.PolicyApplied)
	r.changing(b)
	r.cordoned(a, false)
	r.cordoned(b, true)
	r.waitState(b, v1alpha1.PolicyApplied)
	r.changing()
	r.cordoned(b, false)
	for _, account := range []string{"ovnkube-node", "ovnkube-node-dpu-host"} {
		out, _ := kubectl(t, "", "auth", "can-i", "create", "pods/eviction", "--as=system:serviceaccount:"+system+":"+account)
		if !strings.Contains(out, "no") {
			t.Errorf("%s may evict pods: %s", account, out)
		}
	}
}

func (r *rollout) apply(text string) {
	r.Helper()
	if out, err := kubectl(r.T, text, "apply", "-f", "-"); err != nil {
		r.Fatalf("%v: %s", err, out)
	}
}

// node makes a Node to which no pods are scheduled, because it is never ready.
func (r *rollout) node(name string) {
	r.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{rolloutLabel: "", contract.DPUHostLabel: ""}}}
	if _, err := cluster.client.CoreV1().Nodes().Create(r.Context(), node, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = cluster.client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = r.objects.Resource(v1alpha1.NodeOffloads()).Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}

// pod makes one that is ready as far as the API server knows.
func (r *rollout) pod(name, node string) string {
	r.Helper()
	world.Create(r.T, world.Pod(r.ns, name, node))
	status := `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`
	if out, err := kubectl(r.T, "", "-n", r.ns, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", status); err != nil {
		r.Fatalf("%v: %s", err, out)
	}
	r.Cleanup(func() {
		now := int64(0)
		_ = cluster.client.CoreV1().Pods(r.ns).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	return name
}

// waitState is what the agent of a node reports.
func (r *rollout) waitState(node string, state v1alpha1.PolicyState) {
	r.Helper()
	object := &v1alpha1.NodeOffload{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.Version, Kind: "NodeOffload"}, ObjectMeta: metav1.ObjectMeta{Name: node},
		Status: v1alpha1.NodeOffloadStatus{Offload: v1alpha1.OffloadOff, Policies: []v1alpha1.PolicyResult{{Policy: "rollout", Generation: 1, State: state}}},
	}
	text, err := json.Marshal(object)
	if err != nil {
		r.Fatal(err)
	}
	r.apply(string(text))
}

func (r *rollout) changing(nodes ...string) {
	r.Helper()
	world.Eventually(r.T, world.Soon, fmt.Sprintf("%q change", nodes), func() (bool, string) {
		u, err := r.objects.Resource(v1alpha1.OffloadPolicies()).Get(r.Context(), "rollout", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		p, err := v1alpha1.Decode[v1alpha1.OffloadPolicy](u)
		if err != nil {
			return false, err.Error()
		}
		return p.Status.Selected == 2 && slices.Equal(p.Status.Changing, nodes), fmt.Sprintf("%+v", p.Status)
	})
}

func (r *rollout) cordoned(node string, want bool) {
	r.Helper()
	world.Eventually(r.T, world.Soon, fmt.Sprintf("%s is cordoned: %t", node, want), func() (bool, string) {
		n, err := cluster.client.CoreV1().Nodes().Get(r.Context(), node, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return n.Spec.Unschedulable == want && (n.Annotations[contract.CordonedKey] == "rollout") == want, fmt.Sprintf("%t %v", n.Spec.Unschedulable, n.Annotations)
	})
}

// evicted waits for an eviction, or for two more attempts without one.
func (r *rollout) evicted(name string, want bool) {
	r.Helper()
	gone := func() (bool, string) {
		pod, err := cluster.client.CoreV1().Pods(r.ns).Get(r.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "gone"
		}
		if err != nil {
			return false, err.Error()
		}
		return pod.DeletionTimestamp != nil, fmt.Sprintf("%+v", pod.Status.Conditions)
	}
	if want {
		world.Eventually(r.T, world.Soon, name+" is evicted", gone)
		return
	}
	time.Sleep(12 * time.Second) // the controller asks each five seconds
	if is, _ := gone(); is {
		r.Errorf("pod %s is evicted against its budget", name)
	}
}
