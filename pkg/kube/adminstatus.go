package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// PolicyReadyCondition is the condition of policies for the whole cluster, named
// as OVN-Kubernetes does. Today all nodes are one zone.
const PolicyReadyCondition = "Ready-In-Zone-global"

// statusWriter is the name under which conditions are applied.
const statusWriter = "ovn-offload-controller"

// maxCondition is the API's limit for a condition's message, which it counts in
// runes and we in bytes: never less.
const maxCondition = 32768

// SetPolicyCondition applies one condition, unless object has it. The conditions
// of others stay. A message that is too long ends before its end and says so.
func SetPolicyCondition(ctx context.Context, client dynamic.Interface, owner contract.Owner, object *unstructured.Unstructured, want metav1.Condition) error {
	want.ObservedGeneration = object.GetGeneration()
	const shortened = "... (shortened)"
	if len(want.Message) > maxCondition {
		want.Message = strings.ToValidUTF8(want.Message[:maxCondition-len(shortened)], "") + shortened
	}
	have := conditionOf(object, want.Type)
	if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message && have.ObservedGeneration == want.ObservedGeneration {
		return nil
	}
	want.LastTransitionTime = have.LastTransitionTime
	if have.Status != want.Status {
		want.LastTransitionTime = metav1.NewTime(time.Now())
	}
	condition, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return fmt.Errorf("writing a condition: %w", err)
	}
	apply := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": owner.Kind, "metadata": map[string]any{"name": owner.Name},
		"status": map[string]any{"conditions": []any{condition}},
	}}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	options := metav1.ApplyOptions{FieldManager: statusWriter, Force: true}
	_, err = client.Resource(policy.AdminKinds()[owner.Kind]).ApplyStatus(ctx, owner.Name, apply, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of %s: %w", owner, err)
	}
	return nil
}

func conditionOf(object *unstructured.Unstructured, kind string) metav1.Condition {
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &status); err == nil {
		for _, c := range status.Status.Conditions {
			if c.Type == kind {
				return c
			}
		}
	}
	return metav1.Condition{}
}
