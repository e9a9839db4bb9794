package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// grants say which namespaces may use which physical network. The CRD of PhysicalNetworks may be absent.
type grants struct {
	physical        store[unstructured.Unstructured]
	physicalPresent bool
	allNamespaces   store[corev1.Namespace]
}

// startPhysical follows the PhysicalNetworks: they say which namespaces may use which physical network.
func (v *networks) startPhysical(ctx context.Context, f *following, changed func(owners ...contract.Owner)) {
	synced, err := listen(ctx, v.physical, func(old, new any) {
		before, _ := old.(*unstructured.Unstructured)
		after, _ := new.(*unstructured.Unstructured)
		if before != nil && after != nil && equality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"]) {
			return
		}
		name := either(before, after).GetName()
		changed(v.usersOf(func(n contract.Network, _ string) bool { return n.PhysicalNetwork == name })...)
	})
	if v.physicalPresent || err != nil {
		f.add(synced, err)
	}
}

// usersOf are the NetworkAttachmentDefinitions of localnets, the pods that ask for them, and chains.
func (v *networks) usersOf(which func(n contract.Network, namespace string) bool) (owners []contract.Owner) {
	for _, owner := range v.NADOwners() {
		key := owner.Namespace + "/" + owner.Name
		n := v.NetworkOfNAD(key)
		if n == nil || n.Topology != contract.Localnet || !which(*n, owner.Namespace) {
			continue
		}
		owners = append(owners, owner)
		for _, pod := range v.allPods.Find(byNAD, key) {
			owners = append(append(owners, contract.PodOwner(pod.Namespace, pod.Name)), AttachmentOwners(pod)...)
		}
	}
	if len(owners) > 0 {
		owners = append(owners, chained(v, "")...)
	}
	return owners
}

// namespaceChanged are the owners whose right to a physical network depends on the labels of a namespace, and those whose
// number it bounds.
func (v *networks) namespaceChanged(old, new *corev1.Namespace) []contract.Owner {
	owners := quotaChanged(v.allPods, old, new)
	if old != nil && new != nil && equality.Semantic.DeepEqual(old.Labels, new.Labels) {
		return owners
	}
	name := either(old, new).Name
	owners = append(owners, chained(v, name)...) // an end may select by labels of namespaces
	for _, pod := range v.allPods.Find(cache.NamespaceIndex, name) {
		if contract.IsAttached(pod) || v.isLabelled(name) { // a network may select the namespace
			owners = append(append(owners, contract.PodOwner(pod.Namespace, pod.Name)), AttachmentOwners(pod)...)
		}
	}
	return append(owners, v.usersOf(func(_ contract.Network, namespace string) bool { return namespace == name })...)
}

// NADProblem says why a NetworkAttachmentDefinition defines no network; nil when it does, and for one that is not ours.
func (v *networks) NADProblem(key string) error {
	if err := v.Definitions.NADProblem(key); err != nil {
		return err
	}
	n := v.NetworkOfNAD(key)
	if namespace, _, _ := strings.Cut(key, "/"); n != nil && n.IsPrimary() && !v.isLabelled(namespace) {
		return fmt.Errorf("namespace %s does not have the label %s: its pods stay on the default network", namespace, contract.PrimaryNetworkLabel)
	}
	return v.denied(key, n)
}

// deniedTo says why a pod may not use the physical network of a NetworkAttachmentDefinition: its namespace needs the grant, and so
// does that of the NetworkAttachmentDefinition.
func (v *grants) deniedTo(pod *corev1.Pod, nad string, n *contract.Network) error {
	if err := v.denied(nad, n); err != nil {
		return err
	}
	return v.denied(pod.Namespace+"/", n)
}

// denied says why the namespace of a NetworkAttachmentDefinition may not use its physical network.
func (v *grants) denied(key string, n *contract.Network) error {
	if n == nil || n.Topology != contract.Localnet || v.physical.SharedIndexInformer == nil {
		return nil
	}
	object := v.physical.Get(n.PhysicalNetwork)
	if object == nil {
		return nil
	}
	physical, err := v1alpha1.Decode[v1alpha1.PhysicalNetwork](object)
	if err != nil {
		return err // a grant that cannot be read is none
	}
	if physical.Spec.Namespaces == nil {
		return nil
	}
	namespace, _, _ := strings.Cut(key, "/")
	is := v.allNamespaces.Get(namespace)
	for _, grant := range physical.Spec.Namespaces {
		selector, err := metav1.LabelSelectorAsSelector(&grant.NamespaceSelector)
		if err != nil || is == nil || !selector.Matches(labels.Set(is.Labels)) {
			continue
		}
		if hasVLAN(grant.VLANs, n.VLAN) {
			return nil
		}
	}
	return fmt.Errorf("PhysicalNetwork %s does not let namespace %s use VLAN %d (0: untagged)", n.PhysicalNetwork, namespace, n.VLAN)
}

// hasVLAN reads numbers and ranges; no list has all VLANs.
func hasVLAN(list []string, vlan int) bool {
	for _, entry := range list {
		low, high, isRange := strings.Cut(entry, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(low)
		to, toErr := strconv.Atoi(high)
		if errors.Join(err, toErr) == nil && from <= vlan && vlan <= to {
			return true
		}
	}
	return len(list) == 0
}
