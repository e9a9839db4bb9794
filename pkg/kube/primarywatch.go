package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
)

// primaries are the further networks, of which some are the primary ones of namespaces.
type primaries struct{ *networks }

// PrimaryNetworks are the primary networks of namespaces, in the order of their ids; one without an id is left out.
func (v *primaries) PrimaryNetworks() []contract.Network {
	all := slices.DeleteFunc(v.Networks(), func(n contract.Network) bool { return !n.IsPrimary() || n.ID == 0 })
	slices.SortStableFunc(all, func(a, b contract.Network) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// sharedServices are the services of the default network that pods of primary networks reach, by their cluster addresses.
func sharedServices() []string { return []string{"default/kubernetes", "kube-system/kube-dns"} }

// SharedServices are the services of the default network that pods of primary networks reach.
func (v *primaries) SharedServices() (services []*corev1.Service) {
	for _, key := range sharedServices() {
		if service := v.allServices.Get(key); service != nil {
			services = append(services, service)
		}
	}
	return services
}

// sharedChanged are the networks that have rows for a service.
func (v *primaries) sharedChanged(namespace, name string) (owners []contract.Owner) {
	if slices.Contains(sharedServices(), namespace+"/"+name) {
		for _, network := range v.PrimaryNetworks() {
			owners = append(owners, contract.NetworkOwner().On(network.Name))
		}
	}
	return owners
}

// isLabelled says that the pods of a namespace are to have a primary network.
func (v *grants) isLabelled(namespace string) bool {
	is := v.allNamespaces.Get(namespace)
	if is == nil {
		return false
	}
	_, labelled := is.Labels[contract.PrimaryNetworkLabel]
	return labelled
}

// AwaitsNamespace says that it is not known yet what the namespace of a pod is: the informers of both kinds may differ.
func (v *primaries) AwaitsNamespace(pod *corev1.Pod) bool {
	return v.nads.SharedIndexInformer != nil && v.nads.HasSynced() && v.allNamespaces.Get(pod.Namespace) == nil
}

// Locked says that the default network only leads to a pod's node: the namespace has a primary network, or is to have one.
func (v *primaries) Locked(pod *corev1.Pod) bool {
	return v.isLabelled(pod.Namespace) && contract.WantsNetwork(pod)
}

// Primary is the primary network of a namespace with the key of its NetworkAttachmentDefinition; nil if the namespace is not
// labelled, or has none.
func (v *primaries) Primary(namespace string) (nad string, network *contract.Network) {
	if !v.isLabelled(namespace) {
		return "", nil
	}
	return v.Definitions.Primary(namespace)
}

// PodsIn are the pods of a namespace, in no order.
func (v *primaries) PodsIn(namespace string) []*corev1.Pod {
	return v.allPods.Find(cache.NamespaceIndex, namespace)
}

// primaryRequest is what a pod gets on the primary network of its namespace.
func (v *primaries) primaryRequest(pod *corev1.Pod) ([]ipam.Request, error) {
	if !v.Locked(pod) {
		return nil, nil
	}
	nad, network := v.Definitions.Primary(pod.Namespace)
	if network == nil {
		return nil, fmt.Errorf("namespace %s has the label %s, but no primary network", pod.Namespace, contract.PrimaryNetworkLabel)
	}
	request := ipam.Request{Attachment: contract.Attachment{NAD: nad, Interface: contract.PrimaryInterface}, Network: *network}
	if definition := v.NAD(pod.Namespace, strings.TrimPrefix(nad, pod.Namespace+"/")); definition != nil {
		request.Resource = definition.GetAnnotations()[contract.ResourceNameKey]
	}
	return []ipam.Request{request}, nil
}

// primaryChanged are the pods, services and policies of the namespaces of NetworkAttachmentDefinitions, if these namespaces
// are to have a primary network.
func (v *primaries) primaryChanged(nads []string) (owners []contract.Owner) {
	seen := map[string]bool{}
	for _, nad := range nads {
		namespace, _, _ := strings.Cut(nad, "/")
		if seen[namespace] || !v.isLabelled(namespace) {
			continue
		}
		seen[namespace] = true
		for _, pod := range v.PodsIn(namespace) {
			owners = append(append(owners, contract.PodOwner(pod.Namespace, pod.Name)), AttachmentOwners(pod)...)
		}
		owners = append(owners, v.servicesOf(namespace)...)
	}
	return owners
}

// servicesOf are the services of a namespace whose pods have a primary network: the endpoints are their addresses there.
func (v *primaries) servicesOf(namespace string) (owners []contract.Owner) {
	if !v.isLabelled(namespace) {
		return nil
	}
	for _, service := range v.allServices.Find(cache.NamespaceIndex, namespace) {
		owners = append(owners, contract.ServiceOwner(service.Namespace, service.Name))
	}
	return owners
}
