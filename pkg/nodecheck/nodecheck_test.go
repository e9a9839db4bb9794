package nodecheck

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/scratch"
)

// TestRun_LeavesTheNamespaceOfAnotherCommand, and says what to do if that was killed.
func TestRun_LeavesTheNamespaceOfAnotherCommand(t *testing.T) {
	other := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace, "labels": map[string]any{label: "true"}},
	}}
	client := fake.NewSimpleDynamicClient(runtime.NewScheme(), other)
	_, err := Cluster{Client: client}.Run(t.Context(), nil)
	if !errors.Is(err, scratch.ErrPresent) || !strings.Contains(err.Error(), "kubectl delete namespace "+Namespace) {
		t.Errorf("beside another command: %v", err)
	}
	namespaces := client.Resource(scratch.Namespaces())
	if _, err := namespaces.Get(t.Context(), Namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace of the other command: %v", err)
	}
	if err := namespaces.Delete(t.Context(), Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := (Cluster{Client: client}).Run(t.Context(), nil); err != nil { // the control
		t.Errorf("alone: %v", err)
	}
	if _, err := namespaces.Get(t.Context(), Namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its own namespace is left: %v", err)
	}
}
