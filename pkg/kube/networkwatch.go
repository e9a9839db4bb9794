package kube

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/network"
)

// byNAD is the index of pods by the NetworkAttachmentDefinitions that they ask for, or whose networks they have.
const byNAD = "nad"

// NADs are the NetworkAttachmentDefinitions in the API.
func NADs() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}
}

// networks are the further networks, and the policies for them. Their CRDs may be absent.
type networks struct {
	*network.Definitions
	network.Access
	networkObjects
	nads    store[unstructured.Unstructured]
	present bool
	claims
	grants
	multiPolicies
	chainings
	sharedServices
	allPods  store[corev1.Pod]
	allNodes store[corev1.Node]
}

// podsByNAD is the index of the pods that ask for a network or have one.
func podsByNAD() map[string]func(*corev1.Pod) []string {
	return map[string]func(*corev1.Pod) []string{byNAD: func(pod *corev1.Pod) (keys []string) {
		all, seen := contract.AttachmentKeys(pod), map[string]bool{contract.DefaultNetwork: true}
		if !contract.IsAttached(pod) && contract.HasFurther(pod.Annotations[contract.PodNetworksKey]) {
			all = contract.NetworkKeys(pod.Annotations[contract.PodNetworksKey]) // it has what it no longer asks for
		}
		for _, key := range all {
			if nad := contract.NADOf(key); !seen[nad] {
				seen[nad], keys = true, append(keys, nad)
			}
		}
		return keys
	}}
}

// WatchNetworks adds the further networks to the view; call it before Start. Their subnets must not overlap those of the
// cluster, by purpose. A cluster without the CRD of NetworkAttachmentDefinitions has none, until the CRD comes.
func (v *ClusterView) WatchNetworks(ctx context.Context, client dynamic.Interface, cluster map[string][]netip.Prefix) error {
	define(v.networks, network.NewDefinitions(cluster))
	var err error
	if v.nads, v.present, err = optionalKind(ctx, client, NADs()); err == nil {
		v.networkObjects, err = newNetworkObjects(ctx, client)
	}
	if err == nil {
		v.ipamClaims, v.claimsPresent, err = optionalKind(ctx, client, IPAMClaims())
	}
	if err == nil {
		err = v.ipamClaims.AddIndexers(claimsByNetwork())
	}
	if err == nil {
		v.physical, v.physicalPresent, err = optionalKind(ctx, client, v1alpha1.PhysicalNetworks())
	}
	if err == nil {
		v.multis, v.multisPresent, err = optionalKind(ctx, client, MultiNetworkPolicies())
	}
	if err == nil {
		v.chains, v.chainsPresent, err = optionalKind(ctx, client, opnfv.NetworkChainings())
	}
	return err
}

func define(v *networks, x *network.Definitions) {
	v.Definitions, v.Access, x.NamespaceLabels = x, network.Access{Of: x}, v.labelsOf
}

// start runs the informers of NetworkAttachmentDefinitions and of what they refer to; marked gets the owners that change
// with the latter.
func (v *networks) start(ctx context.Context, f *following, changed func(old, new *unstructured.Unstructured), marked func(owners ...contract.Owner)) {
	if v.nads.SharedIndexInformer == nil {
		return
	}
	synced, err := listen(ctx, v.nads, func(old, new any) {
		before, _ := old.(*unstructured.Unstructured)
		after, _ := new.(*unstructured.Unstructured)
		if before == nil || after == nil || !sameNAD(before, after) {
			changed(before, after)
		}
	})
	if v.present || err != nil {
		f.add(synced, err)
	}
	v.startClaims(ctx, f, marked)
	v.startPhysical(ctx, f, marked)
	v.startChains(ctx, f, marked)
}

// notifyOfNAD notifies of what changes with a NetworkAttachmentDefinition: of policies last, which use what the others make.
func notifyOfNAD(v *ClusterView, old, new *unstructured.Unstructured) {
	notifyOfNADs(v, v.nadChanged(old, new))
}

func notifyOfNADs(v *ClusterView, owners []contract.Owner) {
	var nads []string
	for _, owner := range owners {
		if owner.Kind == contract.KindNAD {
			nads = append(nads, owner.Namespace+"/"+owner.Name)
		}
	}
	namespaces, chains := v.labelledAmong(nads), v.ChainOwners()
	if slices.ContainsFunc(nads, func(nad string) bool { return len(v.index.On(nad)) > 0 }) {
		chains = chained(v.networks, "")
	}
	var outside []contract.Owner
	if slices.ContainsFunc(owners, func(o contract.Owner) bool { return o.Kind == contract.KindNetwork }) {
		outside = ledOutside(v)
	}
	v.notify(contract.Unique(slices.Concat(
		owners, primaryChanged(v, namespaces), naming(v, nads), v.NADsChanged(nads...), placePolicies(v, namespaces), chains,
		outside,
	))...)
}

func sameNAD(old, new *unstructured.Unstructured) bool {
	return old.GetUID() == new.GetUID() && equality.Semantic.DeepEqual(old.GetAnnotations(), new.GetAnnotations()) &&
		equality.Semantic.DeepEqual(old.GetOwnerReferences(), new.GetOwnerReferences()) &&
		equality.Semantic.DeepEqual(old.Object["spec"], new.Object["spec"])
}

// nadChanged are the owners on the networks that change with a NetworkAttachmentDefinition.
func (v *networks) nadChanged(old, new *unstructured.Unstructured) (owners []contract.Owner) {
	object, parsed := old, (*network.NAD)(nil)
	if new != nil {
		object, parsed = new, network.ReadNAD(new)
	}
	before := v.NetworkOfNAD(keyOf(object))
	changed := v.NADChanged(keyOf(object), parsed)
	return onNetworks(v, changed, []string{keyOf(object)}, before != nil && before.HasNodeParts())
}

// onNetworks are the owners on networks that have changed, and those that have to do with NetworkAttachmentDefinitions. All nodes
// are among them if the networks have parts of nodes, or had.
func onNetworks(v *networks, changed, nads []string, hadNodeParts bool) (owners []contract.Owner) {
	for _, name := range changed {
		nads = append(nads, v.NADsOf(name)...)
		owners = append(owners, contract.NetworkOwner().On(name))
		if now := v.Network(name); now == nil || now.HasNodeParts() || hadNodeParts {
			for _, node := range v.allNodes.All() {
				owners = append(owners, contract.NodeOwner(node.Name), contract.NodeOwner(node.Name).On(name))
			}
		}
	}
	for _, namespace := range v.labelledAmong(nads) { // another one may be the namespace's network now
		nads = append(nads, network.PrimaryNADs(v.Definitions, namespace)...)
	}
	slices.Sort(nads)
	for _, nad := range slices.Compact(nads) {
		owners = append(owners, nadOwner(nad))
		for _, pod := range v.allPods.Find(byNAD, nad) {
			owners = append(append(owners, contract.PodOwner(pod.Namespace, pod.Name)), AttachmentOwners(pod)...)
		}
	}
	return contract.Unique(owners)
}

func nadOwner(key string) contract.Owner {
	namespace, name, _ := strings.Cut(key, "/")
	return contract.Owner{Kind: contract.KindNAD, Namespace: namespace, Name: name}
}

func keyOf(object *unstructured.Unstructured) string {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}.String()
}

// AttachmentOwners are the owners of a pod's attachments to further networks: those that it asks for, and those that it
// has.
func AttachmentOwners(pod *corev1.Pod) (owners []contract.Owner) {
	if pod == nil {
		return nil
	}
	for _, key := range contract.AttachmentKeys(pod) {
		owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name).On(key))
	}
	return owners
}

// Attachments are the owners of all pods' attachments to further networks.
func (v *networks) Attachments() (owners []contract.Owner) {
	for _, nad := range v.allPods.Values(byNAD) {
		for _, pod := range v.allPods.Find(byNAD, nad) {
			owners = append(owners, AttachmentOwners(pod)...)
		}
	}
	return contract.Unique(owners)
}

// NAD is a NetworkAttachmentDefinition, nil when there is none.
func (v *networks) NAD(namespace, name string) *unstructured.Unstructured {
	if v.nads.SharedIndexInformer == nil {
		return nil
	}
	return v.nads.Get(namespace + "/" + name)
}

// NADOwners are all NetworkAttachmentDefinitions.
func (v *networks) NADOwners() (owners []contract.Owner) {
	if v.nads.SharedIndexInformer == nil {
		return nil
	}
	for _, nad := range v.nads.All() {
		owners = append(owners, contract.Owner{Kind: contract.KindNAD, Namespace: nad.GetNamespace(), Name: nad.GetName()})
	}
	return owners
}

// withNodeParts are the names of the networks of which each node has rows.
func (v *networks) withNodeParts() (names []string) {
	for _, n := range v.Networks() {
		if n.HasNodeParts() {
			names = append(names, n.Name)
		}
	}
	return names
}

// sharedChanged are the networks that have rows for a service that is shared, or was, and the nodes, whose gateway routers have rows
// for the networks.
func sharedChanged(v *networks, isShared bool) (owners []contract.Owner) {
	if !isShared {
		return nil
	}
	all := v.NetworksWithGateway()
	if len(all) == 0 {
		return nil
	}
	for _, network := range all {
		owners = append(owners, contract.NetworkOwner().On(network.Name))
	}
	for _, node := range v.allNodes.All() {
		owners = append(owners, contract.NodeOwner(node.Name))
	}
	return owners
}
