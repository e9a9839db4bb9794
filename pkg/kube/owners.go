package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// changed tells the listeners whose rows an event may change; old or new is nil
// for an object that came or went.
func (v *View) changed(old, new any) {
	if gone, ok := old.(cache.DeletedFinalStateUnknown); ok {
		old = gone.Obj
	}
	var owners []contract.Owner
	switch o := either(old, new).(type) {
	case *corev1.Pod:
		before, _ := old.(*corev1.Pod)
		after, _ := new.(*corev1.Pod)
		if v.heeded() && !sameObject(before, after) {
			owners = append(v.podPolicyOwners(before, after), contract.PodOwner(o.Namespace, o.Name))
		}
	case *corev1.Node:
		before, _ := old.(*corev1.Node)
		after, _ := new.(*corev1.Node)
		owners = v.nodeOwners(o.Name, before, after)
	case *corev1.Service:
		before, _ := old.(*corev1.Service)
		after, _ := new.(*corev1.Service)
		owners = v.serviceOwners(before, after)
	case *discoveryv1.EndpointSlice:
		before, _ := old.(*discoveryv1.EndpointSlice)
		after, _ := new.(*discoveryv1.EndpointSlice)
		owners = v.endpointOwners(before, after)
	case *networkingv1.ServiceCIDR:
		before, _ := old.(*networkingv1.ServiceCIDR)
		after, _ := new.(*networkingv1.ServiceCIDR)
		if !sameObject(before, after) {
			owners = append(v.externalOwners(), contract.Owner{Kind: KindServiceCIDR, Name: o.Name})
		}
	case *corev1.Namespace:
		before, _ := old.(*corev1.Namespace)
		after, _ := new.(*corev1.Namespace)
		owners = v.namespaceOwners(before, after)
	case *networkingv1.NetworkPolicy:
		before, _ := old.(*networkingv1.NetworkPolicy)
		after, _ := new.(*networkingv1.NetworkPolicy)
		owners = v.networkPolicyOwners(before, after)
	}
	if len(owners) == 0 {
		return
	}
	for _, f := range v.listeners {
		f(owners...)
	}
}

func either(old, new any) any {
	if new != nil {
		return new
	}
	return old
}

// nodeOwners adds the node's pods when it is about facts of the node that their
// rows or addresses are made from, or why they get none.
func (v *View) nodeOwners(name string, old, new *corev1.Node) []contract.Owner {
	if sameObject(old, new) {
		return nil
	}
	owners := append([]contract.Owner{contract.NodeOwner(name)}, v.nodePolicyOwners(old, new)...)
	owners = append(owners, v.choosers(old, new)...)
	subnets, chassis := otherFact(old, new, contract.NodeSubnetsKey), otherFact(old, new, contract.NodeChassisIDKey)
	changed := v.changedAddresses(old, new)
	gateway := otherFact(old, new, contract.GatewayConfigKey) || len(changed) > 0
	if chassis || gateway || zone(old) != zone(new) {
		owners = append(owners, contract.NodeServicesOwner(name))
	}
	if chassis {
		owners = append(owners, v.rivals(name, nodeFact(old, contract.NodeChassisIDKey), nodeFact(new, contract.NodeChassisIDKey))...)
	}
	if gateway {
		owners = append(owners, v.gatewayOwners(name, changed)...)
		owners = append(v.namesakes(old, new), owners...)
	}
	if subnets || chassis || gateway || otherConditions(old, new) || otherFact(old, new, contract.NodeIDKey) {
		owners = append(owners, v.podOwnersOn(name)...)
	}
	return owners
}

func otherConditions(old, new *corev1.Node) bool {
	return old != nil && new != nil && !equality.Semantic.DeepEqual(old.Status.Conditions, new.Status.Conditions)
}

func (v *View) podOwnersOn(node string) (owners []contract.Owner) {
	for _, pod := range v.PodsOnNode(node) {
		owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
	}
	return owners
}

// rivals are the other nodes that claim one of these chassis ids, with what is made
// from it: only one of them has the chassis.
func (v *View) rivals(name string, ids ...string) (owners []contract.Owner) {
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

// namesakes are pods whose ports have, by their names, that of one of the node's
// external bridges. They come first: theirs make way.
func (v *View) namesakes(states ...*corev1.Node) []contract.Owner {
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

func otherFact(old, new *corev1.Node, key string) bool {
	return nodeFact(old, key) != nodeFact(new, key)
}

func nodeFact(node *corev1.Node, key string) string {
	if node == nil {
		return ""
	}
	return node.Annotations[key]
}

func zone(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	return node.Labels[corev1.LabelTopologyZone]
}

// sameObject compares trimmed objects: most updates, such as kubelet's of a
// status, differ in nothing but the version.
func sameObject[T any, P interface {
	*T
	metav1.Object
}](old, new P) bool {
	if old == nil || new == nil {
		return false
	}
	was := *old
	P(&was).SetResourceVersion(new.GetResourceVersion())
	return equality.Semantic.DeepEqual(&was, (*T)(new))
}
