package kube

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/network"
)

// primaries are the further networks, of which some are the primary ones of namespaces.
type primaries struct{ *networks }

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
	request := v.Definitions.Primary(namespace)
	for _, pod := range v.PodsIn(namespace) {
		if request != nil {
			break
		}
		if len(pod.Status.PodIPs) > 0 { // it may keep a network that the namespace does not get any more
			request, _ = v.PrimaryOf(pod)
		}
	}
	if request == nil {
		return "", nil
	}
	return request.NAD, &request.Network
}

// NetworkOf is the further network of a service with the key of its NetworkAttachmentDefinition: the one that the service
// names, or the primary one of its namespace; nil if the service is on the default network.
func (v *primaries) NetworkOf(service *corev1.Service) (nad string, network *contract.Network, err error) {
	if nad = namedNetwork(service); nad == "" {
		nad, network = v.Primary(service.Namespace)
		return nad, network, nil
	}
	if network = v.NetworkOfNAD(nad); network == nil || network.IsPrimary() || !network.HasGateway() || network.ID == 0 {
		return "", nil, fmt.Errorf("annotation %s: NetworkAttachmentDefinition %s defines no secondary network with a gateway", contract.ServiceNetworkKey, nad)
	}
	if err := v.Refusal(nad, service.Namespace); err != nil {
		return "", nil, fmt.Errorf("annotation %s: NetworkAttachmentDefinition %s: %w", contract.ServiceNetworkKey, nad, err)
	}
	return nad, network, nil
}

// IsForeign says that load balancers of gateway routers would lead packets for an address to a primary network other than the
// one of that name.
func (v *primaries) IsForeign(own string, addr netip.Addr) bool {
	return network.IsForeign(v.Definitions, own, addr)
}

// byNamedNetwork is the index of services that name a network: by the key of its NetworkAttachmentDefinition, and by their
// namespace.
const byNamedNetwork = "named network"

func servicesByNetwork() map[string]func(*corev1.Service) []string {
	return map[string]func(*corev1.Service) []string{byNamedNetwork: func(service *corev1.Service) []string {
		if nad := namedNetwork(service); nad != "" {
			return []string{nad, service.Namespace}
		}
		return nil
	}}
}

// namedNetwork is the key of the NetworkAttachmentDefinition that a service names, "" if it names none.
func namedNetwork(service *corev1.Service) string {
	name := service.Annotations[contract.ServiceNetworkKey]
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return service.Namespace + "/" + name
}

// PodsIn are the pods of a namespace, in no order.
func (v *primaries) PodsIn(namespace string) []*corev1.Pod {
	return v.allPods.Find(cache.NamespaceIndex, namespace)
}

// PodsOf are the pods that ask for the network of a NetworkAttachmentDefinition or have it, in no order.
func (v *primaries) PodsOf(nad string) []*corev1.Pod { return v.allPods.Find(byNAD, nad) }

// sameMachine are the attachments of all pods of a virtual machine, when it may run in another one than before.
func (v *primaries) sameMachine(old, new *corev1.Pod) (owners []contract.Owner) {
	pod := either(old, new)
	name := pod.Labels[contract.VMLabel]
	if name == "" || old != nil && new != nil && old.Annotations[contract.VMReadyKey] == new.Annotations[contract.VMReadyKey] &&
		contract.WantsNetwork(old) == contract.WantsNetwork(new) {
		return nil
	}
	for _, other := range v.PodsIn(pod.Namespace) {
		if other.Labels[contract.VMLabel] == name {
			owners = append(owners, AttachmentOwners(other)...)
		}
	}
	return owners
}

// primaryRequest is what a pod gets on the primary network of its namespace.
func (v *primaries) primaryRequest(pod *corev1.Pod) ([]ipam.Request, error) {
	if !v.Locked(pod) {
		return nil, nil
	}
	request, err := v.PrimaryOf(pod)
	if err != nil {
		return nil, err
	}
	if request == nil {
		return nil, fmt.Errorf("namespace %s has the label %s, but no primary network", pod.Namespace, contract.PrimaryNetworkLabel)
	}
	if err := preconfigure(request, pod); err != nil && len(pod.Status.PodIPs) == 0 {
		return nil, err
	}
	return []ipam.Request{*request}, nil
}

// preconfigure takes in what a pod asks for on its primary network, which can be had with topology layer2 only.
func preconfigure(request *ipam.Request, pod *corev1.Pod) error {
	asked, err := contract.OnPrimary(pod)
	switch n := len(asked.Addresses); {
	case err != nil || asked.NAD == "":
		return err
	case request.Network.Topology != contract.Layer2:
		return fmt.Errorf("annotation %s: network %s does not have topology layer2", contract.DefaultNetworkKey, request.Network.Name)
	case n > 0 && n != len(request.Network.Families()):
		return fmt.Errorf("annotation %s: network %s needs one address of each family %v", contract.DefaultNetworkKey, request.Network.Name, request.Network.Families())
	}
	request.Addresses, request.MAC, request.Claim = asked.Addresses, asked.MAC, asked.Claim
	return nil
}

// labelledAmong are those namespaces of NetworkAttachmentDefinitions that are to have a primary network.
func (v *grants) labelledAmong(nads []string) (namespaces []string) {
	seen := map[string]bool{}
	for _, nad := range nads {
		if namespace, _, _ := strings.Cut(nad, "/"); !seen[namespace] && v.isLabelled(namespace) {
			seen[namespace], namespaces = true, append(namespaces, namespace)
		}
	}
	return namespaces
}

// primaryChanged are the pods and services of namespaces whose primary network has changed.
func primaryChanged(v *ClusterView, namespaces []string) (owners []contract.Owner) {
	for _, namespace := range namespaces {
		for _, pod := range v.PodsIn(namespace) {
			owners = append(append(owners, contract.PodOwner(pod.Namespace, pod.Name)), AttachmentOwners(pod)...)
		}
		owners = append(owners, servicesOf(v, namespace)...)
	}
	return owners
}

// naming are the services that name the networks of NetworkAttachmentDefinitions, as servicesOf gives them.
func naming(v *ClusterView, nads []string) (owners []contract.Owner) {
	for _, nad := range nads {
		for _, service := range v.allServices.Find(byNamedNetwork, nad) {
			owners = append(owners, v.ServiceChanged(nil, service)...)
		}
	}
	return owners
}

// servicesOf are the services of a namespace that are on further networks, with the nodes that have endpoints of their own:
// the endpoints are the pods' addresses there.
func servicesOf(v *ClusterView, namespace string) (owners []contract.Owner) {
	index := byNamedNetwork
	if v.isLabelled(namespace) {
		index = cache.NamespaceIndex
	}
	for _, service := range v.allServices.Find(index, namespace) {
		owners = append(owners, v.ServiceChanged(nil, service)...)
	}
	return owners
}
