package removal

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

func set(name, app string, ready int32) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 1, Labels: map[string]string{"app": app}},
		Status:     appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 2, NumberReady: ready},
	}
}

func pod(name, node string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "ovn-offload-cleanup"}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

// TestRun_EndsAgentsAndWaitsForEachNode: the agents of all groups end at once; Open vSwitch goes on.
func TestRun_EndsAgentsAndWaitsForEachNode(t *testing.T) {
	client := fake.NewSimpleDynamicClient(scheme.Scheme,
		set("ovnkube-node", "ovnkube-node", 2), set("ovnkube-node-nic", "ovnkube-node", 2), set("ovs-node", "ovs-node", 2),
		set("cleanup", "ovn-offload-cleanup", 2), set("cleanup-nic", "ovn-offload-cleanup", 1))
	sets := client.Resource(appsv1.SchemeGroupVersion.WithResource("daemonsets")).Namespace("ns")
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), client, "ns", slog.New(slog.DiscardHandler)) }()
	select {
	case err := <-done:
		t.Fatalf("ended with a node that is not cleaned: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set("cleanup-nic", "ovn-offload-cleanup", 2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sets.Update(t.Context(), &unstructured.Unstructured{Object: object}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	list, err := sets.List(t.Context(), metav1.ListOptions{LabelSelector: "app notin (ovn-offload-cleanup)"})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "ovs-node" {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestRun_NamesNodesThatAreNotCleaned(t *testing.T) {
	client := fake.NewSimpleDynamicClient(scheme.Scheme, set("cleanup", "ovn-offload-cleanup", 1),
		pod("a", "n1", corev1.ConditionTrue), pod("b", "n2", corev1.ConditionFalse))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Run(ctx, client, "ns", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "clean-up of nodes (n2)") {
		t.Error(err)
	}
}

func TestRun_WithoutCleanersIsAnError(t *testing.T) {
	client := fake.NewSimpleDynamicClient(scheme.Scheme, set("ovnkube-node", "ovnkube-node", 2))
	if err := Run(t.Context(), client, "ns", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "app=ovn-offload-cleanup") {
		t.Error(err)
	}
}
