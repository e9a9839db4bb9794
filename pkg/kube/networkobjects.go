package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

// networkObjects are the objects that stand for networks, by kind: they say who a network belongs to. Their CRDs may be absent.
type networkObjects struct {
	objects        map[string]store[unstructured.Unstructured]
	objectsPresent map[string]bool
}

func newNetworkObjects(ctx context.Context, client dynamic.Interface) (v networkObjects, err error) {
	v = networkObjects{objects: map[string]store[unstructured.Unstructured]{}, objectsPresent: map[string]bool{}}
	for kind, resource := range render.Kinds() {
		if v.objects[kind], v.objectsPresent[kind], err = optionalKind(ctx, client, resource); err != nil {
			return v, err
		}
		if err := v.objects[kind].SetTransform(selectorOnly); err != nil {
			return v, fmt.Errorf("watching %s: %w", resource.Resource, err)
		}
	}
	return v, nil
}

// selectorOnly keeps of an object whose it is, and which namespaces it selects.
func selectorOnly(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind()}}
	kept.SetNamespace(u.GetNamespace())
	kept.SetName(u.GetName())
	kept.SetUID(u.GetUID())
	kept.SetResourceVersion(u.GetResourceVersion())
	kept.SetCreationTimestamp(u.GetCreationTimestamp())
	if selector, ok, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "namespaceSelector"); ok {
		kept.Object["spec"] = map[string]any{"namespaceSelector": selector}
	}
	return kept, nil
}

// startObjects follows the objects that stand for networks; changed gets the owners on the networks that change.
func startObjects(ctx context.Context, v *networks, f *following, changed func(owners []contract.Owner)) {
	for kind, informer := range v.objects {
		synced, err := listen(ctx, informer, func(old, new any) {
			before, _ := old.(*unstructured.Unstructured)
			after, _ := new.(*unstructured.Unstructured)
			if before != nil && after != nil && before.GetUID() == after.GetUID() && equality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"]) {
				return
			}
			changed(objectChanged(v, before, after))
		})
		if v.objectsPresent[kind] || err != nil {
			f.add(synced, err)
		}
	}
}

// objectChanged are the owners that change with an object that stands for a network, or with the namespaces that it selects.
func objectChanged(v *networks, old, new *unstructured.Unstructured) []contract.Owner {
	owner, object := render.OwnerOf(either(old, new)), (*network.Object)(nil)
	if new != nil {
		object = network.ReadObject(new)
	}
	name := render.NetworkName(owner)
	return onNetworks(v, v.ObjectChanged(owner, object), v.NADsOf(name), false)
}

// labelsOf are the labels of a namespace.
func (v *grants) labelsOf(namespace string) map[string]string {
	if is := v.allNamespaces.Get(namespace); is != nil {
		return is.Labels
	}
	return nil
}
