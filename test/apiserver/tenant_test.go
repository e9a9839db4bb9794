//go:build apiserver

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// tenant is a user with all rights over pods of a namespace.
type tenant struct {
	client kubernetes.Interface
	ns     string
}

// tenantOf gives a user all rights over pods of a namespace.
func tenantOf(t *testing.T, ns string) tenant {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/status", "pods/binding", "pods/ephemeralcontainers", "pods/resize", "bindings"}, Verbs: []string{"*"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "tenant"}},
	}
	if _, err := cluster.client.RbacV1().Roles(ns).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.client.RbacV1().RoleBindings(ns).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := as(t, "tenant", nil)
	eventually(t, "the tenant's rights", func() (bool, string) {
		_, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return tenant{client, ns}
}

// annotates changes an annotation of pod "mine"; a nil value removes it.
func (u tenant) annotates(key string, value any, subresources ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
		if err == nil {
			_, err = u.client.CoreV1().Pods(u.ns).Patch(ctx, "mine", types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
		}
		return err
	}
}

// creates makes a pod with annotations.
func (u tenant) creates(name string, annotations map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod := podObject(u.ns, name, nodes[1])
		pod.Annotations = annotations
		_, err := u.client.CoreV1().Pods(u.ns).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
}

// binds makes a pod if it is not there, and sends it to a node by a Binding with annotations.
func (u tenant) binds(name string, annotations map[string]string, legacy bool) func(context.Context) error {
	return func(ctx context.Context) error {
		pods := u.client.CoreV1().Pods(u.ns)
		pod := podObject(u.ns, name, "")
		pod.Spec.SchedulerName = "no-such-scheduler"
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: u.ns, Name: name, Annotations: annotations},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodes[1]},
		}
		if !legacy {
			return pods.Bind(ctx, binding, metav1.CreateOptions{})
		}
		return u.client.CoreV1().RESTClient().Post().Namespace(u.ns).Resource("bindings").Body(binding).Do(ctx).Error()
	}
}
