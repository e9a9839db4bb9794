// Package scratch makes objects in a namespace of a command's own, and removes the namespace with them.
//
// Place in the data flow:
//
//	kubectl offload test, perf, preflight -> conncheck, perf, nodecheck -> Namespace -> API server
//	conncheck, perf -> Session: makes pods, waits until they are ready, runs commands in them
package scratch

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

const (
	goneWithin = 2 * time.Minute
	lookEvery  = time.Second
)

// Namespace is that of a command. A namespace without the label is not the command's, and stays. Purpose is a noun for
// messages, such as test.
type Namespace struct {
	Client               dynamic.Interface
	Name, Label, Purpose string
}

// Namespaces is the resource of namespaces.
func Namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// Create makes an object of a kind.
func (n Namespace) Create(ctx context.Context, kind schema.GroupVersionResource, object runtime.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: fields}
	if _, err := n.Client.Resource(kind).Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

// Remove deletes the namespace and waits until it is gone. It says whether there was one.
func (n Namespace) Remove(ctx context.Context) (bool, error) {
	namespaces := n.Client.Resource(Namespaces())
	found, err := namespaces.Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if found.GetLabels()[n.Label] == "" {
		return false, fmt.Errorf("namespace %s has no label %s: it is not of a %s, and stays", n.Name, n.Label, n.Purpose)
	}
	if err := namespaces.Delete(ctx, n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return true, err
	}
	err = wait.PollUntilContextTimeout(ctx, lookEvery, goneWithin, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, n.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return true, fmt.Errorf("waiting until namespace %s is gone: %w", n.Name, err)
	}
	return true, nil
}
