package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

const byNode = "node"

// View is the API's objects as the informers last saw them, trimmed. What it
// returns is shared: readers never change it.
type View struct {
	nodes, pods, services cache.SharedIndexInformer
	// A View of one node has none of these.
	namespaces, endpoints, policies cache.SharedIndexInformer
	policyIndex                     *policies
	gateways                        gateways
	ranges                          *serviceCIDRs
	// admin are by kind; adminPresent the kinds that the cluster had at the start.
	admin        map[string]cache.SharedIndexInformer
	adminPresent []string

	listeners []func(owners ...contract.Owner)
	heeded    func() bool
}

// NewView watches the whole cluster, or with a node name only that Node, the pods
// scheduled to it, the services and their ranges, which is all that a node's
// credentials have to allow. A View of one node has the names of those services only that answer at
// no port or address of nodes.
func NewView(client *api.Client, node string) (*View, error) {
	var onlyNode, onlyPods func(*metav1.ListOptions)
	kept := trim
	if node != "" {
		kept = trimForNode
		onlyNode = selectField("metadata.name", node)
		onlyPods = selectField("spec.nodeName", node)
	}
	v := &View{
		heeded: func() bool { return true },

		nodes: api.NewInformer(client.Nodes, &corev1.Node{}, nodeIndexers(), onlyNode),
		pods:  api.NewInformer(client.Pods(metav1.NamespaceAll), &corev1.Pod{}, cache.Indexers{byNode: nodeOfPod}, onlyPods),

		services: api.NewInformer(client.Services(metav1.NamespaceAll), &corev1.Service{}, serviceIndexers(), nil),
		gateways: gateways{crowded: map[contract.Family]bool{}, slices: map[types.NamespacedName]map[string]located{}},
	}
	if node == "" {
		v.namespaces = api.NewInformer(client.Namespaces, &corev1.Namespace{}, cache.Indexers{byLabel: labelsOf}, nil)
		v.endpoints = api.NewInformer(client.EndpointSlices(metav1.NamespaceAll), &discoveryv1.EndpointSlice{}, sliceIndexers(), selectLabels(proxied))
		v.policies = api.NewInformer(client.Policies(metav1.NamespaceAll), &networkingv1.NetworkPolicy{}, nil, nil)
		v.policyIndex = newPolicies()
		if err := v.pods.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, byLabel: labelsOf}); err != nil {
			return nil, fmt.Errorf("preparing the informers: %w", err)
		}
	}
	var err error
	if v.ranges, err = newServiceCIDRs(client); err != nil {
		return nil, err
	}
	for _, informer := range v.informers() {
		if err := informer.SetTransform(kept); err != nil {
			return nil, fmt.Errorf("preparing the informers: %w", err)
		}
	}
	return v, nil
}

func selectField(field, value string) func(*metav1.ListOptions) {
	selector := fields.OneTermEqualSelector(field, value).String()
	return func(o *metav1.ListOptions) { o.FieldSelector = selector }
}

func selectLabels(selector string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.LabelSelector = selector }
}

func nodeOfPod(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

func (v *View) informers() []cache.SharedIndexInformer {
	all := []cache.SharedIndexInformer{v.nodes, v.pods, v.services}
	if v.namespaces != nil {
		all = append(all, v.namespaces, v.endpoints, v.policies)
	}
	return all
}

// OnChange adds a listener; call it before Start. A listener hears of a change
// when the View has it already, several goroutines call it, it must not block.
func (v *View) OnChange(f func(owners ...contract.Owner)) { v.listeners = append(v.listeners, f) }

// HeedWhen says when the listeners want to hear of pods, namespaces and policies;
// call it before Start. The View does not look for owners that they would ignore.
func (v *View) HeedWhen(f func() bool) { v.heeded = f }

// Start runs the informers until ctx ends. It returns when the View is complete
// and the listeners have been told of every object in it.
func (v *View) Start(ctx context.Context) error {
	synced, err := v.startAdmin(ctx)
	if err != nil {
		return err
	}
	for _, informer := range v.informers() {
		told, err := listen(ctx, informer, v.changed)
		if err != nil {
			return err
		}
		synced = append(synced, told)
	}
	told, err := listen(ctx, v.ranges, v.changed)
	if err != nil {
		return err
	}
	synced = append(synced, func() bool { return told() || v.ranges.absent.Load() })
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("reading the API's objects: %w", context.Cause(ctx))
	}
	return nil
}

// listen runs an informer; the result says that changed was told of every object.
func listen(ctx context.Context, informer cache.SharedIndexInformer, changed func(old, new any)) (cache.InformerSynced, error) {
	told, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(nil, obj) },
		UpdateFunc: changed,
		DeleteFunc: func(obj any) { changed(obj, nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("listening to an informer: %w", err)
	}
	go informer.RunWithContext(ctx)
	return told.HasSynced, nil
}

// Node is nil when there is none of that name.
func (v *View) Node(name string) *corev1.Node { return get[corev1.Node](v.nodes, name) }

// Namespace is nil when there is none, and always in a View of one node.
func (v *View) Namespace(name string) *corev1.Namespace {
	if v.namespaces == nil {
		return nil
	}
	return get[corev1.Namespace](v.namespaces, name)
}

// Pod is nil when there is none of that name.
func (v *View) Pod(namespace, name string) *corev1.Pod {
	return get[corev1.Pod](v.pods, namespace+"/"+name)
}

// Nodes is every node, in no order.
func (v *View) Nodes() []*corev1.Node { return objects[corev1.Node](v.nodes.GetIndexer().List()) }

// Pods is every pod, also those without a network, in no order.
func (v *View) Pods() []*corev1.Pod { return objects[corev1.Pod](v.pods.GetIndexer().List()) }

// NodesOfChassis are the nodes that claim a chassis id, in no order.
func (v *View) NodesOfChassis(id string) []*corev1.Node {
	list, _ := v.nodes.GetIndexer().ByIndex(byChassis, id) // the index exists
	return objects[corev1.Node](list)
}

// PodsOnNode is every pod scheduled to a node, in no order.
func (v *View) PodsOnNode(node string) []*corev1.Pod {
	// The only error is an index that does not exist.
	found, _ := v.pods.GetIndexer().ByIndex(byNode, node)
	return objects[corev1.Pod](found)
}

func get[T any](informer cache.SharedIndexInformer, key string) *T {
	obj, _, _ := informer.GetIndexer().GetByKey(key)
	object, _ := obj.(*T)
	return object
}

func objects[T any](list []any) []*T {
	out := make([]*T, 0, len(list))
	for _, obj := range list {
		if object, ok := obj.(*T); ok {
			out = append(out, object)
		}
	}
	return out
}
