package kube

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// KindServiceCIDR is a range of cluster addresses of services. No rows are made
// for it: it is told to those who lead a node to services, and to the services that
// name external addresses, which may not be in it.
const KindServiceCIDR = "ServiceCIDR"

// serviceCIDRs are the ranges that the API says, none where it is too old to.
type serviceCIDRs struct {
	cache.SharedIndexInformer
	absent atomic.Bool
}

func newServiceCIDRs(client *api.Client) (*serviceCIDRs, error) {
	s := &serviceCIDRs{SharedIndexInformer: api.NewInformer(client.ServiceCIDRs, &networkingv1.ServiceCIDR{}, nil, nil)}
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

// trimServiceCIDR leaves out the status.
func trimServiceCIDR(obj any) (any, error) {
	if o, ok := obj.(*networkingv1.ServiceCIDR); ok {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}, Spec: o.Spec}, nil
	}
	return obj, nil
}

// externalOwners are the services with addresses that their authors have chosen.
func (v *View) externalOwners() []contract.Owner {
	var owners []contract.Owner
	for _, address := range v.services.GetIndexer().ListIndexFuncValues(byExternal) {
		found, _ := v.services.GetIndexer().ByIndex(byExternal, address)
		for _, service := range objects[corev1.Service](found) {
			owners = append(owners, v.serviceOwners(nil, service)...)
		}
	}
	return unique(owners)
}

// ServiceSubnets are the ranges of services that the API says, sorted. A range stays
// until its last service is gone.
func (v *View) ServiceSubnets() []netip.Prefix {
	var out []netip.Prefix
	for _, object := range objects[networkingv1.ServiceCIDR](v.ranges.GetIndexer().List()) {
		for _, text := range object.Spec.CIDRs {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				out = append(out, prefix.Masked())
			}
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}
