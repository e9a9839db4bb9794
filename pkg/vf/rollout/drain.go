package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

func nodesResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
}
func podsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// drain cordons the nodes whose turn it is and evicts their pods; a node that we have cordoned and whose turn is over is
// uncordoned. PodDisruptionBudgets decide when a pod goes.
func (r *Rollout) drain(ctx context.Context, turns map[string]*v1alpha1.OffloadPolicy) error {
	var errs []error
	for _, node := range r.deps.Nodes() {
		p, turn := turns[node.Name]
		ours := node.Annotations[contract.CordonedKey] != ""
		switch {
		case turn:
			errs = append(errs, r.cordon(ctx, node, p.Name), r.evict(ctx, node.Name))
			r.loop.MarkSpaced(recheck, 0)
		case ours:
			errs = append(errs, r.patch(ctx, node, false, nil))
		}
	}
	return errors.Join(errs...)
}

// cordon leaves a node alone that an administrator has cordoned: it stays cordoned after the change.
func (r *Rollout) cordon(ctx context.Context, node *corev1.Node, policy string) error {
	object, err := r.deps.Client.Resource(nodesResource()).Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading node %s: %w", node.Name, err)
	}
	if cordoned, _, _ := unstructured.NestedBool(object.Object, "spec", "unschedulable"); cordoned {
		return nil
	}
	return r.patch(ctx, node, true, policy)
}

func (r *Rollout) patch(ctx context.Context, node *corev1.Node, cordoned bool, policy any) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "annotations": map[string]any{contract.CordonedKey: policy}},
		"spec":     map[string]any{"unschedulable": cordoned},
	})
	if err != nil {
		return err
	}
	if _, err := r.deps.Client.Resource(nodesResource()).Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("setting unschedulable of node %s to %t: %w", node.Name, cordoned, err)
	}
	r.deps.Logger.Info("set whether pods are scheduled to a node", "node", node.Name, "cordoned", cordoned, "policy", policy)
	return nil
}

// evict asks for the eviction of each pod that kubectl drain would evict. A budget that refuses now is asked again.
func (r *Rollout) evict(ctx context.Context, node string) error {
	list, err := r.deps.Client.Resource(podsResource()).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	var errs []error
	for i := range list.Items {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &pod); err != nil {
			return err
		}
		if !evictable(&pod) {
			continue
		}
		eviction, err := v1alpha1.Encode(&policyv1.Eviction{
			TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		})
		if err != nil {
			return err
		}
		_, err = r.deps.Client.Resource(podsResource()).Namespace(pod.Namespace).Create(ctx, eviction, metav1.CreateOptions{}, "eviction")
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
			errs = append(errs, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(errs...)
}

// evictable leaves out pods that end anyway, those of DaemonSets, which would come back to the node, the kubelet's own, and
// those with the node's network, which loses nothing.
func evictable(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	owner := metav1.GetControllerOf(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !ended && !mirror && pod.DeletionTimestamp == nil && !pod.Spec.HostNetwork && (owner == nil || owner.Kind != "DaemonSet")
}
