package kube

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// adminPolicies are the policies for the whole cluster, by kind; present are the kinds whose CRDs the cluster had at
// the start.
type adminPolicies struct {
	informers map[string]store[unstructured.Unstructured]
	present   []string
}

func newAdminPolicies(ctx context.Context, client dynamic.Interface) (adminPolicies, error) {
	a := adminPolicies{informers: map[string]store[unstructured.Unstructured]{}}
	for kind, resource := range policy.AdminKinds() {
		informer, present, err := optionalKind(ctx, client, resource)
		if err != nil {
			return a, err
		}
		a.informers[kind] = informer
		if present {
			a.present = append(a.present, kind)
		}
	}
	return a, nil
}

// optionalKind is the informer of a kind whose CRD a cluster may lack, and whether it has the CRD now.
func optionalKind(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource) (s store[unstructured.Unstructured], present bool, err error) {
	informer := api.NewDynamicInformer(client, resource)
	if err := informer.SetWatchErrorHandlerWithContext(logUnlessAbsent); err != nil {
		return s, false, fmt.Errorf("watching %s: %w", resource.Resource, err)
	}
	_, err = client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil && !apierrors.IsNotFound(err) {
		return s, false, fmt.Errorf("reading %s: %w", resource.Resource, err)
	}
	return store[unstructured.Unstructured]{informer}, err == nil, nil
}

// logUnlessAbsent spares a cluster without the CRDs a line for each attempt.
func logUnlessAbsent(ctx context.Context, r *cache.Reflector, err error) {
	if !apierrors.IsNotFound(err) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// start runs the informers; changed gets a parsed policy, nil when it was deleted.
func (a adminPolicies) start(ctx context.Context, changed func(owner contract.Owner, parsed *policy.Policy)) following {
	var f following
	for kind, informer := range a.informers {
		synced, err := listen(ctx, informer, func(old, new any) {
			before, _ := old.(*unstructured.Unstructured)
			after, _ := new.(*unstructured.Unstructured)
			switch {
			case after == nil:
				changed(contract.Owner{Kind: kind, Name: before.GetName()}, nil)
			case before == nil || !sameAdmin(before, after):
				parsed := policy.ParseAdmin(kind, after)
				changed(parsed.Owner, parsed)
			}
		})
		if slices.Contains(a.present, kind) || err != nil {
			f.add(synced, err)
		}
	}
	return f
}

// sameAdmin leaves out the status, which we write ourselves.
func sameAdmin(old, new *unstructured.Unstructured) bool {
	return old.GetUID() == new.GetUID() && old.GetAnnotations()[contract.ACLLoggingKey] == new.GetAnnotations()[contract.ACLLoggingKey] &&
		equality.Semantic.DeepEqual(old.Object["spec"], new.Object["spec"])
}
