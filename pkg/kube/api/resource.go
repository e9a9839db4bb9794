package api

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Resource is one kind of objects, T, whose lists are L. client-go's typed clients
// are Resources, its fakes included.
type Resource[T, L any] interface {
	Watched[L]
	Written[T]
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
}

// Written is how objects are changed.
type Written[T any] interface {
	Create(ctx context.Context, object *T, options metav1.CreateOptions) (*T, error)
	Update(ctx context.Context, object *T, options metav1.UpdateOptions) (*T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// Watched is what an informer needs.
type Watched[L any] interface {
	List(ctx context.Context, options metav1.ListOptions) (*L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Namespaced gives the objects in a namespace, or in all with "".
type Namespaced[T, L any] func(namespace string) Resource[T, L]

// group is the API of one group in one version.
type group struct {
	rest.Interface
	params runtime.ParameterCodec
}

// object is a pointer to T that can be sent.
type object[T any] interface {
	*T
	runtime.Object
	GetName() string
}

// list is a pointer to L that can be received.
type list[L any] interface {
	*L
	runtime.Object
}

type resource[T, L any, PT object[T], PL list[L]] struct {
	group
	name, namespace string
}

func whole[T, L any, PT object[T], PL list[L]](of group, name string) Resource[T, L] {
	return resource[T, L, PT, PL]{group: of, name: name}
}

func namespaced[T, L any, PT object[T], PL list[L]](of group, name string) Namespaced[T, L] {
	return func(namespace string) Resource[T, L] {
		return resource[T, L, PT, PL]{group: of, name: name, namespace: namespace}
	}
}

func (r resource[T, L, PT, PL]) Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error) {
	return r.do(ctx, r.group.Get().Name(name), &options)
}

func (r resource[T, L, PT, PL]) Create(ctx context.Context, object *T, options metav1.CreateOptions) (*T, error) {
	return r.do(ctx, r.Post().Body(PT(object)), &options)
}

func (r resource[T, L, PT, PL]) Update(ctx context.Context, object *T, options metav1.UpdateOptions) (*T, error) {
	return r.do(ctx, r.Put().Name(PT(object).GetName()).Body(PT(object)), &options)
}

//nolint:revive // six parameters: client-go's signature
func (r resource[T, L, PT, PL]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*T, error) {
	return r.do(ctx, r.group.Patch(kind).Name(name).SubResource(subresources...).Body(patch), &options)
}

func (r resource[T, L, PT, PL]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return r.group.Delete().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name).Name(name).Body(&options).Do(ctx).Error()
}

func (r resource[T, L, PT, PL]) List(ctx context.Context, options metav1.ListOptions) (*L, error) {
	out := new(L)
	err := r.at(r.group.Get(), &options).Timeout(within(options)).Do(ctx).Into(PL(out))
	return out, err
}

func (r resource[T, L, PT, PL]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return r.at(r.group.Get(), &options).Timeout(within(options)).Watch(ctx)
}

func (r resource[T, L, PT, PL]) do(ctx context.Context, request *rest.Request, options runtime.Object) (*T, error) {
	out := new(T)
	err := r.at(request, options).Do(ctx).Into(PT(out))
	return out, err
}

func (r resource[T, L, PT, PL]) at(request *rest.Request, options runtime.Object) *rest.Request {
	return request.NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name).VersionedParams(options, r.params)
}

// within is how long the API server may take by what it is asked; 0 for ever.
func within(options metav1.ListOptions) time.Duration {
	if options.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*options.TimeoutSeconds) * time.Second
}
