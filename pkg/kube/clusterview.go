package kube

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/network"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
	"github.com/ovn-offload/ovn-offload/pkg/service"
)

const byChassis = "chassis"

// proxied selects the EndpointSlices that load balancers use: those with the label
// are for DNS only.
const proxied = "!" + corev1.IsHeadlessService

// ClusterView is what the controller sees: the objects of the whole cluster, with the
// facts of policies and services that follow from them.
type ClusterView struct {
	objects
	*policy.Index
	*service.Facts
	primaries
	namespaceSubnets
	portMirrors
	namespaces store[corev1.Namespace]
	endpoints  store[discoveryv1.EndpointSlice]
	policies   store[networkingv1.NetworkPolicy]
	admin      adminPolicies
	listening  func() bool
	taken      takenSubnets
}

// NewClusterView makes the view of a cluster, to be started.
func NewClusterView(client *api.Client) (*ClusterView, error) {
	nodes, pods := indexers(service.NodeIndexes(), nodesByChassis()), indexers(policy.PodIndexes(), podsByNode(), podsByNAD(), podsByClaim())
	namespaces, services, endpoints := indexers(policy.NamespaceIndexes()), indexers(service.ServiceIndexes(), servicesByNetwork(), servicesOfDNS()), indexers(service.SliceIndexes())
	maps.Copy(services, namespaced())
	all := metav1.NamespaceAll
	v := &ClusterView{
		objects: objects{
			nodes:    store[corev1.Node]{api.NewInformer(client.Nodes, &corev1.Node{}, nodes, nil)},
			pods:     store[corev1.Pod]{api.NewInformer(client.Pods(all), &corev1.Pod{}, pods, nil)},
			services: store[corev1.Service]{api.NewInformer(client.Services(all), &corev1.Service{}, services, nil)},
		},
		namespaces: store[corev1.Namespace]{api.NewInformer(client.Namespaces, &corev1.Namespace{}, namespaces, nil)},
		endpoints:  store[discoveryv1.EndpointSlice]{api.NewInformer(client.EndpointSlices(all), &discoveryv1.EndpointSlice{}, endpoints, selectLabels(proxied))},
		policies:   store[networkingv1.NetworkPolicy]{api.NewInformer(client.Policies(all), &networkingv1.NetworkPolicy{}, namespaced(), nil)},
		listening:  func() bool { return true },
	}
	v.networks = &networks{allPods: v.pods, allNodes: v.nodes, grants: grants{allNamespaces: v.namespaces}, sharedServices: sharedServices{allServices: v.services}}
	define(v.networks, network.NewDefinitions(nil))
	v.of, v.sources, v.taken.v = &v.primaries, &v.primaries, v
	v.Index = policy.NewIndex(v.pods, v.namespaces, func() bool { return v.listening() },
		func(nad string) *contract.Network { return v.PolicyNetwork(nad) })
	v.Facts = service.NewFacts(v.nodes, v.services, v.endpoints, v.podOwnersOn)
	return v, v.prepare(client, trim, v.nodes, v.pods, v.services, v.namespaces, v.endpoints, v.policies)
}

func namespaced() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

func nodesByChassis() map[string]func(*corev1.Node) []string {
	return map[string]func(*corev1.Node) []string{byChassis: func(node *corev1.Node) []string {
		if id := node.Annotations[contract.NodeChassisIDKey]; id != "" {
			return []string{id}
		}
		return nil
	}}
}

// ListenWhen says when the listeners want the owners of pods, namespaces and policies;
// call it before Start. The view does not look for owners that they would ignore.
func (v *ClusterView) ListenWhen(f func() bool) { v.listening = f }

// Start runs the informers until ctx ends. It returns when the view is complete
// and the listeners were called for every object in it.
func (v *ClusterView) Start(ctx context.Context) error {
	f := v.admin.start(ctx, func(owner contract.Owner, parsed *policy.Policy) { v.notify(v.PolicyChanged(owner, parsed)...) })
	v.follow(ctx, &f, v.ServiceSubnets, func(name string) {
		v.taken.takeNamespaces()
		v.notify(append(v.users(name), v.PolicyOwners()...)...)
	})
	startObjects(ctx, v.networks, &f, func(owners []contract.Owner) { notifyOfNADs(v, owners) })
	v.start(ctx, &f, func(old, new *unstructured.Unstructured) {
		v.taken.mu.Lock()
		notifyOfNAD(v, old, new)
		v.taken.mu.Unlock()
		v.rejudge()
	}, v.notify)
	v.startMirrors(ctx, &f, v.notify)
	v.startPolicies(ctx, &f, func(owner contract.Owner, object *unstructured.Unstructured) {
		v.notify(v.MultiChanged(owner, object)...)
	})
	f.add(follow(ctx, v.nodes, func(old, new *corev1.Node) {
		v.taken.take("node "+either(old, new).Name, takenByNode(new))
		v.notify(v.nodeOwners(old, new)...)
	}))
	f.add(follow(ctx, v.pods, v.podChanged))
	f.add(follow(ctx, v.services, func(old, new *corev1.Service) {
		namespace, name := either(old, new).Namespace, either(old, new).Name
		if isDNS(old) != isDNS(new) {
			v.taken.takeEndpoints(namespace, name)
		}
		v.notify(append(v.ServiceChanged(old, new), sharedChanged(v.networks, isDNS(old) || v.isShared(namespace, name))...)...)
	}))
	f.add(follow(ctx, v.namespaces, func(old, new *corev1.Namespace) {
		owners := slices.Concat(v.NamespaceChanged(old, new), v.namespaceChanged(old, new), v.mirroredChanged(old, new))
		if old == nil && v.isLabelled(new.Name) { // its policies may have come before
			owners = append(owners, placePolicies(v, []string{new.Name})...)
		}
		v.notify(owners...)
	}))
	f.add(follow(ctx, v.endpoints, func(old, new *discoveryv1.EndpointSlice) {
		slice := either(old, new)
		isShared := v.isShared(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])
		if isShared {
			v.taken.takeEndpoints(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])
		}
		v.notify(append(v.SliceChanged(old, new), sharedChanged(v.networks, isShared)...)...)
	}))
	f.add(follow(ctx, v.policies, v.policyChanged))
	f.add(v.ranges.follow(ctx, func(_, _ *networkingv1.ServiceCIDR) {
		v.taken.takeRanges()
		v.notify(v.RangesChanged()...)
	}))
	return f.wait(ctx)
}

func (v *ClusterView) podChanged(old, new *corev1.Pod) {
	if old == nil && len(new.Status.PodIPs) > 0 && v.isLabelled(new.Namespace) && v.Definitions.Primary(new.Namespace) == nil {
		v.notify(placePolicies(v, []string{new.Namespace})...) // of a network that the pod keeps
	}
	if v.listening() {
		pod := either(old, new)
		owners := append(v.PodChanged(old, new), contract.PodOwner(pod.Namespace, pod.Name))
		if old == nil || new == nil || !slices.Equal(old.Status.PodIPs, new.Status.PodIPs) ||
			old.Annotations[contract.PodNetworksKey] != new.Annotations[contract.PodNetworksKey] {
			owners = append(owners, servicesOf(v, pod.Namespace)...)
		}
		owners = slices.Concat(owners, v.chainsOf(old, new), v.sameMachine(old, new), v.collectorChanged(old, new))
		v.notify(contract.Unique(append(append(owners, AttachmentOwners(old)...), AttachmentOwners(new)...))...)
	}
}

func (v *ClusterView) policyChanged(old, new *networkingv1.NetworkPolicy) {
	if old != nil && new != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return
	}
	object := either(old, new)
	v.notify(placePolicy(v, contract.NetworkPolicyOwner(object.Namespace, object.Name), new)...)
}

// placePolicy takes in a NetworkPolicy, nil when it was deleted. It is in force on the primary network of its namespace, or
// on the default network.
func placePolicy(v *ClusterView, owner contract.Owner, object *networkingv1.NetworkPolicy) (owners []contract.Owner) {
	var parsed *policy.Policy
	switch _, primary := v.Primary(owner.Namespace); {
	case object == nil:
	case primary != nil:
		parsed = policy.ParseOn(primary.Name, object)
	case !v.isLabelled(owner.Namespace):
		parsed = policy.ParseNetworkPolicy(object)
	}
	for _, network := range v.NetworksOf(owner) {
		if parsed == nil || parsed.Owner.Network != network {
			owners = append(owners, v.PolicyChanged(owner.On(network), nil)...)
		}
	}
	if parsed == nil {
		return owners
	}
	if parsed.Owner.Network != "" && v.listening() { // also sets that the network's families change
		for _, set := range parsed.Sets() {
			owners = append(owners, set.Owner())
		}
	}
	return append(owners, v.PolicyChanged(parsed.Owner, parsed)...)
}

// placePolicies is placePolicy for the policies of namespaces.
func placePolicies(v *ClusterView, namespaces []string) (owners []contract.Owner) {
	for _, namespace := range namespaces {
		for _, object := range v.policies.Find(cache.NamespaceIndex, namespace) {
			owners = append(owners, placePolicy(v, contract.NetworkPolicyOwner(object.Namespace, object.Name), object)...)
		}
	}
	return owners
}

// nodeOwners are those whose rows, addresses or missing addresses depend on facts of the node that changed.
func (v *ClusterView) nodeOwners(old, new *corev1.Node) []contract.Owner {
	name := either(old, new).Name
	owners := append([]contract.Owner{contract.NodeOwner(name)}, v.Index.NodeChanged(old, new)...)
	ofServices, isOther := v.Facts.NodeChanged(name, old, new)
	owners = append(owners, ofServices...)
	chassis := isOtherFact(old, new, contract.NodeChassisIDKey)
	gateway := isOtherFact(old, new, contract.GatewayConfigKey) || isOther
	if chassis || gateway || zone(old) != zone(new) {
		owners = append(owners, contract.NodeServicesOwner(name))
	}
	if chassis {
		owners = append(owners, v.otherClaimants(name, nodeFact(old, contract.NodeChassisIDKey), nodeFact(new, contract.NodeChassisIDKey))...)
	}
	if gateway {
		owners = append(v.nameCollisions(old, new), owners...)
	}
	if gateway || isOtherForPods(old, new) {
		owners = append(owners, v.podOwnersOn(name)...)
		for _, further := range v.withNodeParts() {
			owners = append(owners, contract.NodeOwner(name).On(further))
		}
		for _, pod := range v.PodsOnNode(name) {
			owners = append(owners, AttachmentOwners(pod)...)
		}
	}
	return owners
}

// otherClaimants are the owners on other nodes that claim one of these chassis ids: only one node gets the chassis.
func (v *ClusterView) otherClaimants(name string, ids ...string) (owners []contract.Owner) {
	for _, id := range ids {
		for _, node := range v.NodesOfChassis(id) {
			if node.Name == name {
				continue
			}
			owners = append(owners, contract.NodeOwner(node.Name), contract.NodeServicesOwner(node.Name))
			owners = append(owners, v.podOwnersOn(node.Name)...)
		}
	}
	return owners
}

// nameCollisions are pods whose port has the name of a port of one of the node's external bridges. They come first, so
// that their ports are removed first.
func (v *ClusterView) nameCollisions(states ...*corev1.Node) []contract.Owner {
	var owners []contract.Owner
	for _, node := range states {
		if node == nil {
			continue
		}
		gateway, err := contract.ParseGatewayConfig(node.Annotations[contract.GatewayConfigKey], contract.DefaultNetwork)
		if err != nil || gateway == nil {
			continue
		}
		for _, bridge := range []string{gateway.Interface, gateway.SecondGateway.Interface} {
			if namespace, ok := strings.CutSuffix(bridge, "_"+node.Name); ok && v.Pod(namespace, node.Name) != nil {
				owners = append(owners, contract.PodOwner(namespace, node.Name))
			}
		}
	}
	return owners
}

// Namespace is nil when there is none of that name.
func (v *ClusterView) Namespace(name string) *corev1.Namespace { return v.namespaces.Get(name) }

// Nodes is every node, in no order.
func (v *ClusterView) Nodes() []*corev1.Node { return v.nodes.All() }

// NodesOfChassis are the nodes that claim a chassis id, in no order.
func (v *ClusterView) NodesOfChassis(id string) []*corev1.Node { return v.nodes.Find(byChassis, id) }

// NodesWith are the nodes that a selector selects, in no order.
func (v *ClusterView) NodesWith(selector labels.Selector) []*corev1.Node {
	return slices.DeleteFunc(v.Nodes(), func(node *corev1.Node) bool { return !selector.Matches(labels.Set(node.Labels)) })
}

// Object adds policies to those of both views.
func (v *ClusterView) Object(owner contract.Owner) runtime.Object {
	if owner.Kind == contract.KindNetworkPolicy {
		return objectOf(v.policies.Get(owner.Namespace + "/" + owner.Name))
	}
	switch owner.Kind {
	case contract.KindNAD:
		return objectOf(v.NAD(owner.Namespace, owner.Name))
	case contract.KindIPAMClaim:
		return objectOf(v.IPAMClaim(owner.Namespace, owner.Name))
	case contract.KindNetworkChaining:
		return objectOf(v.NetworkChaining(owner.Namespace, owner.Name))
	case contract.KindPortMirror:
		return v.mirrorObject(owner.Name)
	case contract.KindNamespaceSubnet:
		return objectOf(v.NamespaceSubnet(owner.Name))
	}
	if owner.Kind == contract.KindMultiNetworkPolicy {
		return objectOf(v.MultiNetworkPolicy(owner.Namespace, owner.Name))
	}
	if _, isAdmin := v.admin.informers[owner.Kind]; isAdmin {
		return objectOf(v.AdminPolicy(owner))
	}
	return v.objects.Object(owner)
}

// AdminPolicy is the object of a policy for the whole cluster, nil when there is none.
func (v *ClusterView) AdminPolicy(owner contract.Owner) *unstructured.Unstructured {
	informer, ok := v.admin.informers[owner.Kind]
	if !ok {
		return nil
	}
	return informer.Get(owner.Name)
}

// WatchAdminPolicies adds the policies for the whole cluster to the view; call it
// before Start. A cluster without their CRDs has none: they are looked for, and
// found when they are installed. Present CRDs belong to a complete view: the rules of a policy that is not
// seen would be removed.
func (v *ClusterView) WatchAdminPolicies(ctx context.Context, client dynamic.Interface) (err error) {
	v.admin, err = newAdminPolicies(ctx, client)
	return err
}
