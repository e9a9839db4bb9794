package nads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

const writeTimeout = 30 * time.Second

// errPrimary says that another primary network came first.
var errPrimary = errors.New("primary network already exists")

// writer changes objects of all kinds.
type writer struct {
	Deps
	primary sync.Mutex
}

// client is that of an object's kind, in its namespace.
func (w *writer) client(o *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, isSource := render.Kinds()[o.GetKind()]
	if !isSource {
		resource = Resource()
	}
	if o.GetNamespace() == "" {
		return w.Client.Resource(resource)
	}
	return w.Client.Resource(resource).Namespace(o.GetNamespace())
}

// isOutdated says that an informer did not have the newest objects yet.
func isOutdated(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// finalize gives an object the finalizer, or takes it.
func (w *writer) finalize(ctx context.Context, object *unstructured.Unstructured, isWanted bool) (*unstructured.Unstructured, error) {
	finalizers := object.GetFinalizers()
	if slices.Contains(finalizers, contract.NetworkFinalizer) == isWanted {
		return object, nil
	}
	if isWanted {
		finalizers = append(slices.Clone(finalizers), contract.NetworkFinalizer)
	} else {
		finalizers = slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == contract.NetworkFinalizer })
	}
	next := object.DeepCopy()
	next.SetFinalizers(finalizers)
	return w.client(object).Update(ctx, next, metav1.UpdateOptions{})
}

// do makes the changes of a plan, and goes on after a failure. Of several failures, one by outdated objects is returned
// alone.
func (w *writer) do(ctx context.Context, source *render.Source, p *plan) error {
	var errs []error
	for _, nad := range p.create {
		err := w.create(ctx, source, nad)
		if errors.Is(err, errPrimary) {
			p.refuse(place{namespace: nad.GetNamespace()}, "%v", err)
			continue
		}
		errs = append(errs, err)
	}
	for _, nad := range p.update {
		w.Logger.Info("a NetworkAttachmentDefinition is made as it was", "owner", source.Owner, "nad", keyOf(nad))
		_, err := w.client(nad).Update(ctx, nad, metav1.UpdateOptions{})
		errs = append(errs, about("updating", nad, err))
	}
	for _, nad := range p.release {
		errs = append(errs, w.release(ctx, nad))
	}
	if at := slices.IndexFunc(errs, isOutdated); at >= 0 {
		return errs[at]
	}
	return errors.Join(errs...)
}

func about(verb string, object *unstructured.Unstructured, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s %s: %w", verb, object.GetKind(), keyOf(object), err)
	}
	return nil
}

// create makes a NAD. Of two primary networks for a namespace the second must see the first, which the informer may not
// have yet.
func (w *writer) create(ctx context.Context, source *render.Source, nad *unstructured.Unstructured) error {
	if source.IsPrimary {
		w.primary.Lock()
		defer w.primary.Unlock()
		list, err := w.client(nad).List(ctx, metav1.ListOptions{})
		if err != nil {
			return about("looking for primary networks beside", nad, err)
		}
		for i := range list.Items {
			if isPrimary(&list.Items[i]) {
				return fmt.Errorf("%w in namespace %s: %s", errPrimary, nad.GetNamespace(), list.Items[i].GetName())
			}
		}
	}
	_, err := w.client(nad).Create(ctx, nad, metav1.CreateOptions{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the Namespace's event is on its way
	}
	if err == nil {
		w.Logger.Info("created a NetworkAttachmentDefinition", "owner", source.Owner, "nad", keyOf(nad))
	}
	return about("creating", nad, err)
}

// release removes a NAD. The finalizer goes first: with it, what is deleted would have to be read again.
func (w *writer) release(ctx context.Context, nad *unstructured.Unstructured) error {
	_, err := w.finalize(ctx, nad, false)
	if err == nil && nad.GetDeletionTimestamp() == nil {
		err = w.client(nad).Delete(ctx, nad.GetName(), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(nad.GetUID()))})
	}
	if err = ignoreGone(err); err == nil {
		w.Logger.Info("removed a NetworkAttachmentDefinition", "nad", keyOf(nad))
	}
	return about("removing", nad, err)
}

// status records the status, and tells of changes by Events.
func (w *writer) status(ctx context.Context, source *render.Source, o outcome) error {
	before, err := conditionsOf(source.Object)
	if err != nil {
		return err
	}
	after := conditions(source, o, before)
	next := source.Object.DeepCopy()
	if isNodus(source) {
		if meta.FindStatusCondition(after, conditionCreated) == nil {
			return nil // the pass after this one knows more
		}
		before, after = stateOf(source.Object), after[:1]
		state, message := opnfv.StateCreated, ""
		if after[0].Status == metav1.ConditionFalse {
			state, message = opnfv.StateFailed, after[0].Message
		}
		next.Object["status"] = map[string]any{"state": state, "message": message}
	} else if err := setConditions(next, after); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(source.Object.Object["status"], next.Object["status"]) {
		return nil
	}
	if _, err := w.client(next).UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
		return about("writing the status of", next, err)
	}
	w.tell(source, before, after)
	return nil
}

func isNodus(source *render.Source) bool {
	return source.Owner.Kind == opnfv.KindNetwork || source.Owner.Kind == opnfv.KindProviderNetwork
}

// stateOf is the state of an object of OVN4NFV as a condition.
func stateOf(object *unstructured.Unstructured) []metav1.Condition {
	state, _, _ := unstructured.NestedString(object.Object, "status", "state")
	message, _, _ := unstructured.NestedString(object.Object, "status", "message")
	switch state {
	case opnfv.StateCreated:
		return []metav1.Condition{{Type: conditionCreated, Status: metav1.ConditionTrue, Message: messageCreated}}
	case opnfv.StateFailed:
		return []metav1.Condition{{Type: conditionCreated, Status: metav1.ConditionFalse, Message: message}}
	}
	return nil
}

func setConditions(object *unstructured.Unstructured, conditions []metav1.Condition) error {
	var list []any
	for _, c := range conditions {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
		if err != nil {
			return err
		}
		list = append(list, fields)
	}
	return unstructured.SetNestedSlice(object.Object, list, "status", "conditions")
}

func conditionsOf(object *unstructured.Unstructured) (out []metav1.Condition, err error) {
	list, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		fields, _ := item.(map[string]any)
		var c metav1.Condition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c); err != nil {
			return nil, fmt.Errorf("reading the conditions of %s: %w", keyOf(object), err)
		}
		out = append(out, c)
	}
	return out, err
}

// tell makes an Event of each condition that is another.
func (w *writer) tell(source *render.Source, before, after []metav1.Condition) {
	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		if was != nil && was.Status == c.Status && was.Message == c.Message {
			continue
		}
		kind, reason := corev1.EventTypeNormal, c.Reason
		if c.Status == metav1.ConditionFalse {
			kind = corev1.EventTypeWarning
		}
		if c.Type == conditionAllocated && c.Status == metav1.ConditionFalse {
			reason = "NetworkAllocationFailed"
		}
		w.Event(source.Object, kind, reason, c.Message)
	}
}
