package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

const byNode = "node"

// store is an informer's cache of one kind; policy.Objects and service.Objects say what its methods return.
type store[T any] struct{ cache.SharedIndexInformer }

func (s store[T]) Get(key string) *T {
	obj, _, _ := s.GetIndexer().GetByKey(key) // a cache in memory has no errors
	object, _ := obj.(*T)
	return object
}

func (s store[T]) All() []*T { return objectsOf[T](s.GetIndexer().List()) }

func (s store[T]) Find(index, value string) []*T {
	list, _ := s.GetIndexer().ByIndex(index, value) // the only error is an unknown index
	return objectsOf[T](list)
}

func (s store[T]) Keys(index, value string) []string {
	keys, _ := s.GetIndexer().IndexKeys(index, value)
	return keys
}

func (s store[T]) Values(index string) []string { return s.GetIndexer().ListIndexFuncValues(index) }

func objectsOf[T any](list []any) []*T {
	out := make([]*T, 0, len(list))
	for _, obj := range list {
		if object, ok := obj.(*T); ok {
			out = append(out, object)
		}
	}
	return out
}

// indexers makes client-go's indexers of functions on one kind of object.
func indexers[T any](functions ...map[string]func(*T) []string) cache.Indexers {
	out := cache.Indexers{}
	for _, some := range functions {
		for name, keys := range some {
			out[name] = func(obj any) ([]string, error) {
				if object, ok := obj.(*T); ok {
					return keys(object), nil
				}
				return nil, nil
			}
		}
	}
	return out
}

// objects is what both views have: trimmed copies of nodes, pods, services and their
// ranges, as the informers last saw them. What it returns is shared: readers never change it.
type objects struct {
	nodes    store[corev1.Node]
	pods     store[corev1.Pod]
	services store[corev1.Service]
	ranges   *serviceCIDRs

	listeners []func(owners ...contract.Owner)
}

// OnChange adds a listener; call it before Start. A listener is called when the view has
// the change already, by several goroutines, and must not block.
func (o *objects) OnChange(f func(owners ...contract.Owner)) { o.listeners = append(o.listeners, f) }

func (o *objects) notify(owners ...contract.Owner) {
	if len(owners) == 0 {
		return
	}
	for _, f := range o.listeners {
		f(owners...)
	}
}

// follow runs an informer until ctx ends and calls changed for each object that comes, changes or goes; old or new is
// nil for an object that came or went. Updates of nothing that trim keeps are left out. The result says that changed
// was called for every object.
func follow[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, s store[T], changed func(old, new *T)) (cache.InformerSynced, error) {
	return listen(ctx, s, func(old, new any) {
		before, _ := old.(*T)
		after, _ := new.(*T)
		if !sameObject[T, P](before, after) {
			changed(before, after)
		}
	})
}

func listen(ctx context.Context, informer cache.SharedIndexInformer, changed func(old, new any)) (cache.InformerSynced, error) {
	registration, err := informer.AddEventHandler(handler(changed))
	if err != nil {
		return nil, fmt.Errorf("listening to an informer: %w", err)
	}
	go informer.RunWithContext(ctx)
	return registration.HasSynced, nil
}

func handler(changed func(old, new any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(nil, obj) },
		UpdateFunc: changed,
		DeleteFunc: func(obj any) {
			if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = missed.Obj // as the informer saw it last
			}
			changed(obj, nil)
		},
	}
}

// sameObject compares trimmed objects: most updates, such as kubelet's of a
// status, differ in nothing but the version.
func sameObject[T any, P interface {
	*T
	metav1.Object
}](old, new P) bool {
	if old == nil || new == nil {
		return false
	}
	was := *old
	P(&was).SetResourceVersion(new.GetResourceVersion())
	return equality.Semantic.DeepEqual(&was, (*T)(new))
}

// following collects what a complete view waits for.
type following struct {
	synced []cache.InformerSynced
	err    error
}

func (f *following) add(synced cache.InformerSynced, err error) {
	f.synced = append(f.synced, synced)
	f.err = errors.Join(f.err, err)
}

func (f *following) wait(ctx context.Context) error {
	if f.err == nil && !cache.WaitForCacheSync(ctx.Done(), f.synced...) {
		f.err = fmt.Errorf("reading the API's objects: %w", context.Cause(ctx))
	}
	return f.err
}

// Node is nil when there is none of that name.
func (o *objects) Node(name string) *corev1.Node { return o.nodes.Get(name) }

// Pod is nil when there is none of that name.
func (o *objects) Pod(namespace, name string) *corev1.Pod { return o.pods.Get(namespace + "/" + name) }

// Pods is every pod of the view, also those without a network, in no order.
func (o *objects) Pods() []*corev1.Pod { return o.pods.All() }

// PodsOnNode is every pod scheduled to a node, in no order.
func (o *objects) PodsOnNode(node string) []*corev1.Pod { return o.pods.Find(byNode, node) }

func (o *objects) podOwnersOn(node string) (owners []contract.Owner) {
	for _, pod := range o.PodsOnNode(node) {
		owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
	}
	return owners
}

// Service is nil when there is none of that name.
func (o *objects) Service(namespace, name string) *corev1.Service {
	return o.services.Get(namespace + "/" + name)
}

// Services is every service, in no order.
func (o *objects) Services() []*corev1.Service { return o.services.All() }

// ServiceSubnets are the ranges of services that the API says, sorted. A range stays
// until its last service is gone.
func (o *objects) ServiceSubnets() []netip.Prefix {
	var out []netip.Prefix
	for _, object := range o.ranges.All() {
		for _, text := range object.Spec.CIDRs {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				out = append(out, prefix.Masked())
			}
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// Object is the Pod, Node or Service of an owner, nil when it is not there.
func (o *objects) Object(owner contract.Owner) runtime.Object {
	switch owner.Kind {
	case contract.KindPod:
		return objectOf(o.Pod(owner.Namespace, owner.Name))
	case contract.KindNode:
		return objectOf(o.Node(owner.Name))
	case contract.KindService:
		return objectOf(o.Service(owner.Namespace, owner.Name))
	}
	return nil
}

// objectOf keeps a nil pointer from becoming an object that is not nil.
func objectOf[T any, P interface {
	*T
	runtime.Object
}](object P) runtime.Object {
	if object == nil {
		return nil
	}
	return object
}

func selectLabels(selector string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.LabelSelector = selector }
}

// podsByNode is the index of PodsOnNode.
func podsByNode() map[string]func(*corev1.Pod) []string {
	return map[string]func(*corev1.Pod) []string{byNode: func(pod *corev1.Pod) []string {
		if pod.Spec.NodeName == "" {
			return nil
		}
		return []string{pod.Spec.NodeName}
	}}
}

func zone(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	return node.Labels[corev1.LabelTopologyZone]
}

func isOtherFact(old, new *corev1.Node, key string) bool {
	return nodeFact(old, key) != nodeFact(new, key)
}

func nodeFact(node *corev1.Node, key string) string {
	if node == nil {
		return ""
	}
	return node.Annotations[key]
}
