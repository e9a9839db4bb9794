package kube

import (
	"context"
	"fmt"
	"sync/atomic"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// KindServiceCIDR is a range of cluster addresses of services. It has no rows: the agent leads a node's
// traffic to the range, and services may not name external addresses in it.
const KindServiceCIDR = "ServiceCIDR"

// serviceCIDRs are the ranges that the API says, none where it is too old to.
type serviceCIDRs struct {
	store[networkingv1.ServiceCIDR]
	absent atomic.Bool
}

func newServiceCIDRs(client *api.Client) (*serviceCIDRs, error) {
	s := &serviceCIDRs{store: store[networkingv1.ServiceCIDR]{api.NewInformer(client.ServiceCIDRs, &networkingv1.ServiceCIDR{}, nil, nil)}}
	err := s.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if s.absent.Store(apierrors.IsNotFound(err)); !s.absent.Load() {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
	if err == nil {
		err = s.SetTransform(trimServiceCIDR)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing the informer of service ranges: %w", err)
	}
	return s, nil
}

// follow is the follow of other kinds; a cluster without the kind is complete.
func (s *serviceCIDRs) follow(ctx context.Context, changed func(old, new *networkingv1.ServiceCIDR)) (cache.InformerSynced, error) {
	synced, err := follow(ctx, s.store, changed)
	return func() bool { return synced() || s.absent.Load() }, err
}

// either is the object of an event.
func either[T any](old, new *T) *T {
	if new != nil {
		return new
	}
	return old
}

// trimServiceCIDR leaves out the status.
func trimServiceCIDR(obj any) (any, error) {
	if o, ok := obj.(*networkingv1.ServiceCIDR); ok {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}, Spec: o.Spec}, nil
	}
	return obj, nil
}
