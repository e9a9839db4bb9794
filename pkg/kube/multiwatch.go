package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// MultiNetworkPolicies are the policies for further networks in the API.
func MultiNetworkPolicies() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1beta1", Resource: "multi-networkpolicies"}
}

// multiPolicies are the MultiNetworkPolicies, whose CRD may be absent.
type multiPolicies struct {
	multis        store[unstructured.Unstructured]
	multisPresent bool
}

// startPolicies runs the informer of MultiNetworkPolicies; changed gets a policy, nil when it was deleted.
func (v *multiPolicies) startPolicies(ctx context.Context, f *following, changed func(owner contract.Owner, object *unstructured.Unstructured)) {
	if v.multis.SharedIndexInformer == nil {
		return
	}
	synced, err := listen(ctx, v.multis, func(old, new any) {
		before, _ := old.(*unstructured.Unstructured)
		after, _ := new.(*unstructured.Unstructured)
		switch {
		case after == nil:
			changed(contract.MultiNetworkPolicyOwner(before.GetNamespace(), before.GetName()), nil)
		case before == nil || !sameMulti(before, after):
			changed(contract.MultiNetworkPolicyOwner(after.GetNamespace(), after.GetName()), after)
		}
	})
	if v.multisPresent || err != nil {
		f.add(synced, err)
	}
}

func sameMulti(old, new *unstructured.Unstructured) bool {
	return old.GetUID() == new.GetUID() && old.GetAnnotations()[contract.PolicyForKey] == new.GetAnnotations()[contract.PolicyForKey] &&
		equality.Semantic.DeepEqual(old.Object["spec"], new.Object["spec"])
}

// MultiNetworkPolicy is nil when there is none of that name.
func (v *multiPolicies) MultiNetworkPolicy(namespace, name string) *unstructured.Unstructured {
	if v.multis.SharedIndexInformer == nil {
		return nil
	}
	return v.multis.Get(namespace + "/" + name)
}
