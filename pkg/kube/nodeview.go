package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

// NodeView is what an agent sees: one Node, the pods scheduled to it, the services and their ranges. More is not
// allowed to a node's credentials. Of services that answer at no port or address of nodes it has the names only.
type NodeView struct{ objects }

// NewNodeView makes the view of a node, to be started.
func NewNodeView(client *api.Client, node string) (*NodeView, error) {
	pods := selectField("spec.nodeName", node)
	v := &NodeView{objects{
		nodes:    store[corev1.Node]{api.NewInformer(client.Nodes, &corev1.Node{}, nil, selectField("metadata.name", node))},
		pods:     store[corev1.Pod]{api.NewInformer(client.Pods(metav1.NamespaceAll), &corev1.Pod{}, indexers(podsByNode()), pods)},
		services: store[corev1.Service]{api.NewInformer(client.Services(metav1.NamespaceAll), &corev1.Service{}, nil, nil)},
	}}
	return v, v.prepare(client, trimForNode, v.nodes, v.pods, v.services)
}

func selectField(field, value string) func(*metav1.ListOptions) {
	selector := fields.OneTermEqualSelector(field, value).String()
	return func(o *metav1.ListOptions) { o.FieldSelector = selector }
}

// prepare sets the transforms of informers and adds the one of service ranges.
func (o *objects) prepare(client *api.Client, trim cache.TransformFunc, informers ...cache.SharedIndexInformer) error {
	for _, informer := range informers {
		if err := informer.SetTransform(trim); err != nil {
			return fmt.Errorf("preparing the informers: %w", err)
		}
	}
	var err error
	o.ranges, err = newServiceCIDRs(client)
	return err
}

// Start runs the informers until ctx ends. It returns when the view is complete
// and the listeners were called for every object in it.
func (v *NodeView) Start(ctx context.Context) error {
	var f following
	f.add(follow(ctx, v.nodes, v.nodeChanged))
	f.add(follow(ctx, v.pods, func(old, new *corev1.Pod) {
		pod := either(old, new)
		v.notify(contract.PodOwner(pod.Namespace, pod.Name))
	}))
	f.add(follow(ctx, v.services, func(old, new *corev1.Service) {
		if name := either(old, new); service.IsForNodes(old) || service.IsForNodes(new) {
			v.notify(contract.ServiceOwner(name.Namespace, name.Name))
		}
	}))
	f.add(v.ranges.follow(ctx, func(old, new *networkingv1.ServiceCIDR) {
		v.notify(contract.Owner{Kind: KindServiceCIDR, Name: either(old, new).Name})
	}))
	return f.wait(ctx)
}

// nodeChanged marks the node's pods for facts that their ports are made of, and the services that answer at its
// addresses.
func (v *NodeView) nodeChanged(old, new *corev1.Node) {
	owners := []contract.Owner{contract.NodeOwner(either(old, new).Name)}
	if isOtherFact(old, new, contract.GatewayConfigKey) || !slices.Equal(service.HostAddresses(old), service.HostAddresses(new)) {
		for _, s := range v.Services() {
			if service.IsForNodes(s) {
				owners = append(owners, contract.ServiceOwner(s.Namespace, s.Name))
			}
		}
	}
	if isOtherForPods(old, new) {
		owners = append(owners, v.podOwnersOn(either(old, new).Name)...)
	}
	v.notify(owners...)
}

// isOtherForPods says that a Node has other facts of those that the rows and addresses of its pods are made from, or
// that say why pods have none.
func isOtherForPods(old, new *corev1.Node) bool {
	isOther := func(key string) bool { return isOtherFact(old, new, key) }
	return slices.ContainsFunc([]string{contract.NodeSubnetsKey, contract.NodeChassisIDKey, contract.NodeIDKey, contract.GatewayConfigKey}, isOther) ||
		old != nil && new != nil && !equality.Semantic.DeepEqual(old.Status.Conditions, new.Status.Conditions)
}
