package api

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// NewInformer follows the objects of source, of which example is one. Options, if
// not nil, select some of them.
func NewInformer[L any, PL list[L]](source Watched[L], example runtime.Object, indexers cache.Indexers, options func(*metav1.ListOptions)) cache.SharedIndexInformer {
	if options == nil {
		options = func(*metav1.ListOptions) {}
	}
	return newInformer[L, PL](source, source, example, indexers, options)
}

// NewDynamicInformer follows all objects of a kind that is not Kubernetes' own.
func NewDynamicInformer(client dynamic.Interface, kind schema.GroupVersionResource) cache.SharedIndexInformer {
	return newInformer(client.Resource(kind), client, &unstructured.Unstructured{}, cache.Indexers{}, func(*metav1.ListOptions) {})
}

func newInformer[L any, PL list[L]](source Watched[L], client any, example runtime.Object, indexers cache.Indexers, options func(*metav1.ListOptions)) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformerWithOptions(
		NewListWatch[L, PL](source, client, options), example, cache.SharedIndexInformerOptions{Indexers: indexers})
}

// NewListWatch lists and watches the objects of source that options select. It asks client whether it can watch from the
// first object on: fakes cannot.
func NewListWatch[L any, PL list[L]](source Watched[L], client any, options func(*metav1.ListOptions)) cache.ListerWatcher {
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			options(&o)
			out, err := source.List(ctx, o)
			return PL(out), err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			options(&o)
			return source.Watch(ctx, o)
		},
	}
	return cache.ToListWatcherWithWatchListSemantics(lists, client)
}
