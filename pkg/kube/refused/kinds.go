package refused

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract/served"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

const (
	// lookEvery is how often a kind without a CRD is looked for.
	lookEvery = 10 * time.Minute
	// repeatEvery is how often an Event comes again: the API server keeps one for an hour.
	repeatEvery = time.Hour
)

// Deps is what Reports works with.
type Deps struct {
	// Client reads the objects of kinds that are not served.
	Client dynamic.Interface
	// Annotated are informers of kinds that are served, by kind, which run: their objects may have annotations without effect.
	Annotated map[string]cache.SharedIndexInformer
	// Event tells the users of an object.
	Event  func(object runtime.Object, kind, reason, note string)
	Logger *slog.Logger
}

// Reports puts Events on objects that have no effect.
type Reports struct {
	deps                   Deps
	emit                   func(object runtime.Object, kind, reason, note string)
	lookEvery, repeatEvery time.Duration
}

// New makes Reports; nothing is read before Run.
func New(deps Deps) *Reports {
	return &Reports{deps: deps, emit: deps.Event, lookEvery: lookEvery, repeatEvery: repeatEvery}
}

// Run follows the objects until ctx ends. That one cannot be read ends nothing: only Events depend on it.
func (r *Reports) Run(ctx context.Context) error {
	var group sync.WaitGroup
	for _, kind := range served.RefusedKinds() {
		group.Go(func() {
			wait.UntilWithContext(ctx, func(ctx context.Context) {
				if err := r.follow(ctx, kind); err != nil && ctx.Err() == nil {
					r.deps.Logger.Warn("objects that have no effect cannot be read: no event says so", "kind", kind.Kind, "error", err)
				}
			}, r.lookEvery)
		})
	}
	for kind, informer := range r.deps.Annotated {
		group.Go(func() {
			if err := r.look(ctx, kind, informer); err != nil && ctx.Err() == nil {
				r.deps.Logger.Warn("annotations that have no effect are not looked for: no event says so", "kind", kind, "error", err)
			}
		})
	}
	group.Wait()
	return nil
}

// follow follows the objects of a kind until ctx ends or the CRD is deleted. Without the CRD there are none.
func (r *Reports) follow(ctx context.Context, kind served.Kind) error {
	_, err := r.deps.Client.Resource(kind.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for %s: %w", kind.Resource, err)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	informer := api.NewDynamicInformer(r.deps.Client, kind.GroupVersionResource)
	_, handled := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) { r.report(kind, now) },
		UpdateFunc: func(old, now any) {
			if isChanged(old, now) {
				r.report(kind, now)
			}
		},
	})
	failed := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			end()
			return
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	})
	if err := errors.Join(informer.SetTransform(withoutSpec), handled, failed); err != nil {
		return fmt.Errorf("following %s: %w", kind.Resource, err)
	}
	var group sync.WaitGroup
	group.Go(func() { informer.RunWithContext(ctx) })
	every(ctx, r.repeatEvery, func() {
		for _, object := range informer.GetStore().List() {
			r.report(kind, object)
		}
	})
	group.Wait()
	return nil
}

// every calls f again and again until ctx ends.
func every(ctx context.Context, period time.Duration, f func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}

// isChanged says that the author of an object has changed it.
func isChanged(old, now any) bool {
	before, _ := old.(*unstructured.Unstructured)
	after, _ := now.(*unstructured.Unstructured)
	return before != nil && after != nil && before.GetGeneration() != after.GetGeneration()
}

func (r *Reports) report(kind served.Kind, object any) {
	if u, ok := object.(*unstructured.Unstructured); ok && u.GetDeletionTimestamp() == nil {
		r.emit(u, corev1.EventTypeWarning, "NotServed", kind.Refusal())
	}
}

// withoutSpec keeps of an object what an Event needs.
func withoutSpec(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind()}}
	kept.SetNamespace(u.GetNamespace())
	kept.SetName(u.GetName())
	kept.SetUID(u.GetUID())
	kept.SetResourceVersion(u.GetResourceVersion())
	kept.SetGeneration(u.GetGeneration())
	kept.SetDeletionTimestamp(u.GetDeletionTimestamp())
	return kept, nil
}
