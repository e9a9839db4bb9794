package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
)

// Access says who may use the networks, and what a pod gets of them.
type Access struct{ Of *Definitions }

// Requests are what a pod asks of networks that exist. The error says which attachments the pod has to wait for, and why. A
// running pod has the interfaces of its start: what it asks for later is left out.
func (a Access) Requests(pod *corev1.Pod) (requests []ipam.Request, err error) {
	attachments, err := contract.Attachments(pod)
	if err != nil {
		return nil, err
	}
	var errs []error
	has := contract.NewValues(pod.Annotations[contract.PodNetworksKey])
	for _, one := range attachments {
		if len(pod.Status.PodIPs) > 0 && !has.Names(one.Key()) {
			continue
		}
		network, resource, err := a.asked(pod, one)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		requests = append(requests, ipam.Request{Attachment: one, Network: *network, Resource: resource})
	}
	return requests, errors.Join(errs...)
}

// asked is the network of an attachment with the resource of its devices, or why the pod cannot have it.
func (a Access) asked(pod *corev1.Pod, one contract.Attachment) (network *contract.Network, resource string, err error) {
	network, resource, err = a.Of.find(one.NAD)
	if err == nil && network.IsPrimary() {
		return nil, "", fmt.Errorf("network %s of NetworkAttachmentDefinition %s is primary, which a pod cannot ask for", network.Name, one.NAD)
	}
	if err == nil {
		if err = a.Refusal(one.NAD, pod.Namespace); err != nil {
			err = fmt.Errorf("NetworkAttachmentDefinition %s: %w", one.NAD, err)
		}
	}
	if len(pod.Status.PodIPs) == 0 {
		if err == nil {
			err = unreached(one, network)
		}
		return network, resource, err
	}
	if name, keeps := a.Keeps(pod, one.Key()); err != nil && keeps { // it began before, or while the network was its owner's
		if kept := a.Of.Network(name); kept != nil {
			return kept, resource, nil
		}
	}
	return network, resource, err
}

// unreached says which next hop of an attachment's routes is in none of its subnets.
func unreached(one contract.Attachment, network *contract.Network) error {
	for _, route := range one.AskedRoutes {
		holds := func(p netip.Prefix) bool { return p.Masked().Contains(route.NextHop) }
		if !slices.ContainsFunc(one.Addresses, holds) && !slices.ContainsFunc(network.Subnets, func(s contract.Subnet) bool { return holds(s.Prefix) }) {
			return fmt.Errorf("route to %s: gw %s is in no subnet of network %s", route.Dest, route.NextHop, network.Name)
		}
	}
	return nil
}

// PrimaryOf is what a pod gets on the primary network of its namespace, or goes on having; nil if the namespace has none. The
// error says why the namespace may not have its network.
func (a Access) PrimaryOf(pod *corev1.Pod) (*ipam.Request, error) {
	isRunning := len(pod.Status.PodIPs) > 0
	if kept := a.keptPrimary(pod); isRunning && kept != nil {
		return kept, nil
	}
	request := a.Of.Primary(pod.Namespace)
	if request == nil || isRunning {
		return request, nil
	}
	if err := a.Refusal(request.NAD, pod.Namespace); err != nil {
		return nil, fmt.Errorf("NetworkAttachmentDefinition %s: %w", request.NAD, err)
	}
	return request, nil
}

// keptPrimary is the primary network that a pod has by its annotation.
func (a Access) keptPrimary(pod *corev1.Pod) *ipam.Request {
	for _, key := range contract.NetworkKeys(pod.Annotations[contract.PodNetworksKey]) {
		name, keeps := a.Keeps(pod, key)
		if !keeps {
			continue
		}
		if network := a.Of.Network(name); network != nil && network.IsPrimary() {
			return &ipam.Request{Attachment: contract.Attachment{NAD: contract.NADOf(key), Interface: contract.PrimaryInterface}, Network: *network}
		}
	}
	return nil
}

// Allows says that a namespace may use the network of a NAD.
func (a Access) Allows(nad, namespace string) bool { return a.Refusal(nad, namespace) == nil }

// Refusal says why a namespace may not use the network of a NAD, or why the NAD defines none.
func (a Access) Refusal(nad, namespace string) error {
	if _, _, err := a.Of.find(nad); err != nil {
		return err
	}
	a.Of.mu.RLock()
	defer a.Of.mu.RUnlock()
	d := a.Of.nads[nad]
	if d == nil || a.Of.firsts[d.network.Name] == nil { // since find
		return fmt.Errorf("NetworkAttachmentDefinition %s does not exist", nad)
	}
	return a.Of.refusal(d, a.Of.firsts[d.network.Name], namespace)
}

// PolicyNetwork is the network of a NAD for policies: pods of a NAD that is refused may run, and their policies hold.
func (a Access) PolicyNetwork(nad string) *contract.Network {
	a.Of.mu.RLock()
	defer a.Of.mu.RUnlock()
	d := a.Of.nads[nad]
	isOthers := d != nil && errors.As(d.conflict, new(RefusedError))
	if d == nil || d.parsed != nil || d.conflict != nil && !isOthers {
		return nil
	}
	network, ok := a.Of.networks[d.network.Name]
	if !ok {
		return nil
	}
	return &network
}

// SharedNAD says why a NAD would be refused, if namespaces were isolated; nil when it would not.
func (a Access) SharedNAD(key string) error {
	a.Of.mu.RLock()
	defer a.Of.mu.RUnlock()
	d := a.Of.nads[key]
	if d == nil || d.parsed != nil || d.conflict != nil || !a.Of.Shared {
		return nil
	}
	first := a.Of.firsts[d.network.Name]
	if first == nil || first == d || a.Of.standing(d) != handMade || d.namespace() == first.namespace() || lists(first, d.namespace()) {
		return nil
	}
	return fmt.Errorf("network %s is also that of NetworkAttachmentDefinition %s, which is older: with networks.namespaceIsolation, this one needs %s in annotation %s there",
		d.network.Name, first.Key, d.namespace(), contract.NamespacesKey)
}

// Keeps says that a pod goes on having the network of an attachment, and names the network: what was given under the network's
// present owner stays, and so does what a running pod of a namespace with access has. A pod of an earlier release, whose annotation does not name the owner, keeps a network that is older than the pod.
func (a Access) Keeps(pod *corev1.Pod, key string) (name string, keeps bool) {
	entry, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], key)
	if err != nil || entry == nil {
		return "", false
	}
	a.Of.mu.RLock()
	defer a.Of.mu.RUnlock()
	if name = entry.Network; name == "" { // of OVN-Kubernetes
		if d := a.Of.nads[contract.NADOf(key)]; d != nil && d.parsed == nil {
			name = d.network.Name
		}
	}
	network, ok := a.Of.networks[name]
	isRunning := len(pod.Status.PodIPs) > 0
	switch {
	case !ok:
		return "", false
	case entry.Owner != "" && entry.Owner == network.Owner, isRunning && isFor(a.Of, name, pod.Namespace):
		return name, true
	}
	return name, entry.Owner == "" && isRunning && !pod.CreationTimestamp.Time.Before(a.Of.since(a.Of.firsts[name]))
}

// isFor says that a namespace may use a network by one of its NADs.
func isFor(x *Definitions, name, namespace string) bool {
	first := x.firsts[name]
	for _, d := range x.groups[first.network.JoinSwitch()] {
		if d.conflict == nil && x.refusal(d, first, namespace) == nil {
			return true
		}
	}
	return false
}

// Joins says that a pod has, or may have, an attachment on a network: rows of others are removed.
func (a Access) Joins(pod *corev1.Pod, key, network string) bool {
	if kept, keeps := a.Keeps(pod, key); keeps && kept == network {
		return true
	}
	nad := contract.NADOf(key)
	found := a.Of.NetworkOfNAD(nad)
	return found != nil && found.Name == network && a.Allows(nad, pod.Namespace)
}
