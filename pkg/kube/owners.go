package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
)

// changed tells the listeners whose rows an event may change; old or new is nil
// for an object that came or went.
func (v *View) changed(old, new any) {
	if gone, ok := old.(cache.DeletedFinalStateUnknown); ok {
		old = gone.Obj
	}
	var owners []Owner
	switch o := either(old, new).(type) {
	case *corev1.Pod:
		before, _ := old.(*corev1.Pod)
		after, _ := new.(*corev1.Pod)
		if !samePod(before, after) {
			owners = []Owner{PodOwner(o.Namespace, o.Name)}
		}
	case *corev1.Node:
		before, _ := old.(*corev1.Node)
		after, _ := new.(*corev1.Node)
		owners = v.nodeOwners(o.Name, before, after)
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
// rows or addresses are made from.
func (v *View) nodeOwners(name string, old, new *corev1.Node) []Owner {
	if sameNode(old, new) {
		return nil
	}
	owners := []Owner{NodeOwner(name)}
	if nodeFact(old, NodeSubnetsKey) == nodeFact(new, NodeSubnetsKey) && nodeFact(old, NodeChassisIDKey) == nodeFact(new, NodeChassisIDKey) {
		return owners
	}
	for _, pod := range v.PodsOnNode(name) {
		owners = append(owners, PodOwner(pod.Namespace, pod.Name))
	}
	return owners
}

func nodeFact(node *corev1.Node, key string) string {
	if node == nil {
		return ""
	}
	return node.Annotations[key]
}

// samePod and sameNode compare trimmed objects: kubelet's many status updates
// differ in nothing but the version.
func samePod(old, new *corev1.Pod) bool {
	if old == nil || new == nil {
		return false
	}
	was := *old
	was.ResourceVersion = new.ResourceVersion
	return equality.Semantic.DeepEqual(&was, new)
}

func sameNode(old, new *corev1.Node) bool {
	if old == nil || new == nil {
		return false
	}
	was := *old
	was.ResourceVersion = new.ResourceVersion
	return equality.Semantic.DeepEqual(&was, new)
}
