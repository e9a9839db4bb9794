package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// WatchAdminPolicies adds the policies for the whole cluster to the View; call it
// before Start. A cluster without their CRDs has none: they are looked for, and
// found when somebody installs them. Those that are there belong to a complete
// View, since rules whose policy is not seen would be taken away.
func (v *View) WatchAdminPolicies(ctx context.Context, client dynamic.Interface) error {
	v.admin = map[string]cache.SharedIndexInformer{}
	for kind, resource := range AdminKinds() {
		informer := api.NewDynamicInformer(client, resource)
		if err := informer.SetWatchErrorHandlerWithContext(logUnlessAbsent); err != nil {
			return fmt.Errorf("watching %s: %w", resource.Resource, err)
		}
		_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading %s: %w", resource.Resource, err)
		}
		v.admin[kind] = informer
		if err == nil {
			v.adminPresent = append(v.adminPresent, kind)
		}
	}
	return nil
}

// logUnlessAbsent spares a cluster without the CRDs a line for each attempt.
func logUnlessAbsent(ctx context.Context, r *cache.Reflector, err error) {
	if !apierrors.IsNotFound(err) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// startAdmin runs the informers and gives the conditions of a complete View.
func (v *View) startAdmin(ctx context.Context) ([]cache.InformerSynced, error) {
	told := map[string]cache.InformerSynced{}
	for kind, informer := range v.admin {
		synced, err := listen(ctx, informer, func(old, new any) { v.adminChanged(kind, old, new) })
		if err != nil {
			return nil, err
		}
		told[kind] = synced
	}
	var synced []cache.InformerSynced
	for _, kind := range v.adminPresent {
		synced = append(synced, told[kind])
	}
	return synced, nil
}

func (v *View) adminChanged(kind string, old, new any) {
	if gone, ok := old.(cache.DeletedFinalStateUnknown); ok {
		old = gone.Obj
	}
	before, _ := old.(*unstructured.Unstructured)
	after, _ := new.(*unstructured.Unstructured)
	var owners []contract.Owner
	switch {
	case after != nil && before != nil && sameAdmin(before, after):
		return
	case after != nil:
		policy := ParseAdminPolicy(kind, after)
		owners = v.policyOwners(policy.Owner, policy)
	case before != nil:
		owners = v.policyOwners(contract.Owner{Kind: kind, Name: before.GetName()}, nil)
	}
	for _, f := range v.listeners {
		f(owners...)
	}
}

// sameAdmin leaves out the status, which we write ourselves.
func sameAdmin(old, new *unstructured.Unstructured) bool {
	return old.GetUID() == new.GetUID() && old.GetAnnotations()[contract.ACLLoggingKey] == new.GetAnnotations()[contract.ACLLoggingKey] &&
		equality.Semantic.DeepEqual(old.Object["spec"], new.Object["spec"])
}

// AdminPolicy is the object of a policy for the whole cluster, nil when there is none.
func (v *View) AdminPolicy(owner contract.Owner) *unstructured.Unstructured {
	informer := v.admin[owner.Kind]
	if informer == nil {
		return nil
	}
	return get[unstructured.Unstructured](informer, owner.Name)
}

// NodesWith are the nodes that a selector selects, in no order.
func (v *View) NodesWith(selector labels.Selector) []*corev1.Node {
	var found []*corev1.Node
	for _, node := range v.Nodes() {
		if selector.Matches(labels.Set(node.Labels)) {
			found = append(found, node)
		}
	}
	return found
}

// nodePolicyOwners are the policies whose rules refer to nodes, when a node's
// labels or addresses change.
func (v *View) nodePolicyOwners(old, new *corev1.Node) []contract.Owner {
	if v.policies == nil || old != nil && new != nil && equality.Semantic.DeepEqual(old.Labels, new.Labels) &&
		equality.Semantic.DeepEqual(old.Status.Addresses, new.Status.Addresses) {
		return nil
	}
	return v.policyIndex.withNodes()
}
