package api

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Followed are all objects of a kind that the API server may lack. Before they are synced, there is no telling whether
// there are none.
type Followed[T any] struct {
	informer cache.SharedIndexInformer
	kind     string
	log      *slog.Logger
	absent   sync.Once
}

// NewFollowed calls changed for each change, also before the objects are synced.
func NewFollowed[T any](client dynamic.Interface, kind schema.GroupVersionResource, log *slog.Logger, changed func()) (*Followed[T], error) {
	f := &Followed[T]{log: log, kind: kind.Resource, informer: NewDynamicInformer(client, kind)}
	if err := f.informer.SetWatchErrorHandlerWithContext(f.failed); err != nil {
		return nil, fmt.Errorf("following %s: %w", f.kind, err)
	}
	_, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		return nil, fmt.Errorf("following %s: %w", f.kind, err)
	}
	return f, nil
}

// Run follows them until ctx ends. It calls changed once they are synced: there
// may be none, and what a deleted object did is to be undone.
func (f *Followed[T]) Run(ctx context.Context, changed func()) error {
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), f.informer.HasSynced) {
			changed()
		}
	}()
	f.informer.RunWithContext(ctx)
	return ctx.Err()
}

// List gives all; not ok before they are synced, or when one cannot be read: to go
// without it would undo it.
func (f *Followed[T]) List() ([]*T, bool) {
	if !f.informer.HasSynced() {
		return nil, false
	}
	var out []*T
	for _, object := range f.informer.GetStore().List() {
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		one := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, one); err != nil {
			f.log.Warn("an object cannot be read", "kind", f.kind, "name", u.GetName(), "error", err)
			return nil, false
		}
		out = append(out, one)
	}
	return out, true
}

// failed logs errors that client-go retries as debug, and once that the kind is absent.
func (f *Followed[T]) failed(_ context.Context, _ *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		f.absent.Do(func() {
			f.log.Warn("the API server does not have the kind: what its objects set up stays as it is", "kind", f.kind)
		})
		return
	}
	f.log.Debug("following objects", "kind", f.kind, "error", err)
}
