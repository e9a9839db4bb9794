package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// WriteTimeout bounds one write. It is shorter than what a leader's lease has
// left when it stops leading (leader.Config), so that no write outlives it.
const WriteTimeout = 4 * time.Second

// Writer records decisions in the API. It writes through the status subresources
// of nodes and pods, so its credentials need "patch" on nodes/status and
// pods/status only.
type Writer struct{ client *api.Client }

// NewWriter makes a Writer.
func NewWriter(client *api.Client) *Writer { return &Writer{client: client} }

// AnnotatePod sets the given annotations where they differ, and removes those
// whose value is "". It fails with a Conflict when the pod of that name has been
// replaced by another one since, and with NotFound when it is gone.
func (w *Writer) AnnotatePod(ctx context.Context, pod *corev1.Pod, annotations map[string]string) error {
	patch, err := annotationPatch(pod.ObjectMeta, annotations)
	if patch == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	_, err = w.client.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("annotating pod %s/%s: %w", pod.Namespace, pod.Name, conflictIfReplaced(err, "pods", pod.Name))
	}
	return nil
}

// AnnotateNode is AnnotatePod for a node.
func (w *Writer) AnnotateNode(ctx context.Context, node *corev1.Node, annotations map[string]string) error {
	patch, err := annotationPatch(node.ObjectMeta, annotations)
	if patch == nil || err != nil {
		return err
	}
	return w.patchNode(ctx, node.Name, types.MergePatchType, patch)
}

// LabelNode is AnnotateNode for labels.
func (w *Writer) LabelNode(ctx context.Context, node *corev1.Node, labels map[string]string) error {
	patch, err := metadataPatch(node.UID, "labels", node.Labels, labels)
	if patch == nil || err != nil {
		return err
	}
	return w.patchNode(ctx, node.Name, types.MergePatchType, patch)
}

// ObjectWriter records decisions on the objects of a kind that has a CRD.
type ObjectWriter struct {
	objects dynamic.NamespaceableResourceInterface
}

// NewObjectWriter makes an ObjectWriter. Its credentials need "patch" on the kind.
func NewObjectWriter(client dynamic.Interface, kind schema.GroupVersionResource) *ObjectWriter {
	return &ObjectWriter{client.Resource(kind)}
}

// Annotate is AnnotatePod for an object of the kind.
func (w *ObjectWriter) Annotate(ctx context.Context, object *unstructured.Unstructured, annotations map[string]string) error {
	patch, err := metadataPatch(object.GetUID(), "annotations", object.GetAnnotations(), annotations)
	if patch == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	if _, err = w.objects.Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotating %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// SetFinalizers replaces an object's finalizers. It fails with a Conflict when the object has changed.
func (w *ObjectWriter) SetFinalizers(ctx context.Context, object *unstructured.Unstructured, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "finalizers": finalizers,
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	if _, err = w.objects.Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("writing the finalizers of %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// SetStatus replaces fields of an object's status. It fails with a Conflict when the object of that name is another one.
func (w *ObjectWriter) SetStatus(ctx context.Context, object *unstructured.Unstructured, fields map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.GetUID()}, "status": fields})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	if _, err = w.objects.Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("writing the status of %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// SetNodeCondition writes a condition unless the node says the same already.
// The times are filled in.
func (w *Writer) SetNodeCondition(ctx context.Context, node *corev1.Node, c corev1.NodeCondition) error {
	now := metav1.Now()
	c.LastHeartbeatTime, c.LastTransitionTime = now, now
	for _, old := range node.Status.Conditions {
		if old.Type != c.Type || old.Status != c.Status {
			continue
		}
		if old.Reason == c.Reason && old.Message == c.Message {
			return nil
		}
		c.LastTransitionTime = old.LastTransitionTime
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{c}},
	})
	if err != nil {
		return err
	}
	return w.patchNode(ctx, node.Name, types.StrategicMergePatchType, patch)
}

func (w *Writer) patchNode(ctx context.Context, name string, kind types.PatchType, patch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	if _, err := w.client.Nodes.Patch(ctx, name, kind, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("writing node %s: %w", name, conflictIfReplaced(err, "nodes", name))
	}
	return nil
}

// conflictIfReplaced names what the API server says of a patch for another uid
// ("metadata.uid: field is immutable") after what it means.
func conflictIfReplaced(err error, resource, name string) error {
	if cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid); ok && cause.Field == "metadata.uid" {
		return apierrors.NewConflict(corev1.Resource(resource), name, err)
	}
	return err
}

func annotationPatch(meta metav1.ObjectMeta, annotations map[string]string) ([]byte, error) {
	return metadataPatch(meta.UID, "annotations", meta.Annotations, annotations)
}

// metadataPatch is nil when nothing differs. The uid in it makes the API server
// refuse the patch for any other object of the same name.
func metadataPatch(uid types.UID, field string, had, wanted map[string]string) ([]byte, error) {
	changed := map[string]any{}
	for key, value := range wanted {
		old, exists := had[key]
		switch {
		case value == "" && exists:
			changed[key] = nil
		case value != "" && value != old:
			changed[key] = value
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, field: changed}})
}
