//go:build e2e

package world

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Namespace makes a namespace that ends with the test.
func Namespace(t *testing.T) string {
	t.Helper()
	return LabelledNamespace(t, nil)
}

// LabelledNamespace is Namespace with labels from the beginning on.
func LabelledNamespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	made, err := createNamespace(t.Context(), name, labels)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			report(t, made)
		}
		deleteNamespace(made)
	})
	return made
}

func createNamespace(ctx context.Context, name string, labels map[string]string) (string, error) {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: labels}}
	made, err := cluster.Client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return made.Name, nil
}

func deleteNamespace(name string) {
	cluster.Client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
}

// LabelNamespace gives a namespace a label: a JSON string, or null for one that goes.
func LabelNamespace(t *testing.T, ns, key, value string) {
	t.Helper()
	if err := labelNamespace(t.Context(), ns, key, value); err != nil {
		t.Fatal(err)
	}
}

// UnlabelNamespace takes a label from a namespace when a test has ended.
func UnlabelNamespace(ns, key string) {
	labelNamespace(context.Background(), ns, key, "null")
}

func labelNamespace(ctx context.Context, ns, key, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
	_, err := cluster.Client.CoreV1().Namespaces().Patch(ctx, ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// report prints what one wants to see of a failed test.
func report(t *testing.T, ns string) {
	pods, _ := cluster.Client.CoreV1().Pods(ns).List(context.Background(), metav1.ListOptions{})
	for _, pod := range pods.Items {
		t.Logf("pod %s on %s: %s %v %v", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.PodIPs, pod.Annotations)
	}
	events, _ := cluster.Client.CoreV1().Events(ns).List(context.Background(), metav1.ListOptions{})
	for _, event := range events.Items {
		if event.Type != corev1.EventTypeNormal {
			t.Logf("event %s %s: %s", event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
}
