package mirror

import (
	"cmp"
	"maps"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// What OVN-Kubernetes writes on a copy. It has no label with which load balancers of others look for a service's slices.
const (
	controllerName   = "endpointslice-mirror-controller.k8s.ovn.org"
	serviceLabel     = "k8s.ovn.org/service-name"
	networkKey       = "k8s.ovn.org/endpointslice-network"
	sourceKey        = "k8s.ovn.org/source-endpointslice"
	sourceVersionKey = "k8s.ovn.org/source-endpointslice-version"

	// sourceController makes the slices of which there are copies.
	sourceController = "endpointslice-controller.k8s.io"
)

// serviceOf is the service of a copy, or of a slice.
func serviceOf(slice *discoveryv1.EndpointSlice) contract.Owner {
	name, isCopy := slice.Labels[serviceLabel]
	if !isCopy {
		name = slice.Labels[discoveryv1.LabelServiceName]
	}
	return contract.ServiceOwner(slice.Namespace, name)
}

// mirrored are the slices of which there are copies.
func mirrored(some []*discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice) {
	for _, slice := range some {
		isIP := slice.AddressType == discoveryv1.AddressTypeIPv4 || slice.AddressType == discoveryv1.AddressTypeIPv6
		if slice.Labels[discoveryv1.LabelManagedBy] == sourceController && isIP {
			out = append(out, slice)
		}
	}
	return out
}

func pointers(items []discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	out := make([]*discoveryv1.EndpointSlice, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// copyOf is the copy of a slice that has the addresses of the network already. Endpoints without one are left out.
func copyOf(source *discoveryv1.EndpointSlice, network string) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: source.Namespace, GenerateName: nameOf(network) + "-" + source.Name + "-",
			Labels: map[string]string{discoveryv1.LabelManagedBy: controllerName, serviceLabel: source.Labels[discoveryv1.LabelServiceName]},
			Annotations: map[string]string{
				networkKey: network, sourceKey: source.Name, sourceVersionKey: source.ResourceVersion,
			},
		},
		AddressType: source.AddressType, Ports: source.Ports, Endpoints: []discoveryv1.Endpoint{},
	}
	for _, owner := range source.OwnerReferences { // without a block: this would need rights on the finalizers of services
		owner.BlockOwnerDeletion = nil
		out.OwnerReferences = append(out.OwnerReferences, owner)
	}
	for _, endpoint := range source.Endpoints {
		if len(endpoint.Addresses) > 0 {
			out.Endpoints = append(out.Endpoints, endpoint)
		}
	}
	return out
}

// nameOf is the name of a network as a part of an object's name: in lower case, with '-' for what is no letter or digit.
func nameOf(network string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(network))
	return cmp.Or(strings.Trim(name, "-"), "network")
}

// update is the present copy with what is wanted, and whether this is something else. Labels and annotations of others
// stay.
func update(present discoveryv1.EndpointSlice, wanted *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, bool) {
	changed := present.DeepCopy()
	changed.Ports, changed.Endpoints, changed.OwnerReferences = wanted.Ports, wanted.Endpoints, wanted.OwnerReferences
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	maps.Copy(changed.Labels, wanted.Labels)
	maps.Copy(changed.Annotations, wanted.Annotations)
	return changed, !equality.Semantic.DeepEqual(&present, changed)
}
