package refused

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract/served"
)

// object is what all kinds of the API have.
type object interface {
	metav1.Object
	runtime.Object
}

// look looks at the annotations of the objects of an informer, which runs already, until ctx ends.
func (r *Reports) look(ctx context.Context, kind string, informer cache.SharedIndexInformer) error {
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) { r.reportAnnotations(kind, nil, now) },
		UpdateFunc: func(old, now any) {
			before, _ := old.(object)
			r.reportAnnotations(kind, refusals(kind, before), now)
		},
	})
	if err != nil {
		return fmt.Errorf("following annotations of kind %s: %w", kind, err)
	}
	every(ctx, r.repeatEvery, func() {
		for _, now := range informer.GetStore().List() {
			r.reportAnnotations(kind, nil, now)
		}
	})
	return informer.RemoveEventHandler(handler)
}

// reportAnnotations puts an Event on an object for each annotation without effect, but for what was said before.
func (r *Reports) reportAnnotations(kind string, said []string, now any) {
	o, _ := now.(object)
	for _, refusal := range refusals(kind, o) {
		if !slices.Contains(said, refusal) {
			r.emit(o, corev1.EventTypeWarning, "NotServed", refusal)
		}
	}
}

// refusals are the sentences about an object, which may be nil. Pods on the network of their node have no interface of ours.
func refusals(kind string, o object) []string {
	if o == nil || o.GetDeletionTimestamp() != nil {
		return nil
	}
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.HostNetwork {
		return nil
	}
	return served.Refusals(kind, o.GetAnnotations())
}
