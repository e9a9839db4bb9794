package kube

import (
	"cmp"
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/network/portmirror"
)

// portMirrors are the PortMirrors, whose CRD may be absent.
type portMirrors struct {
	mirrorObjects  store[unstructured.Unstructured]
	mirrorsPresent bool
	// mirrors are *portmirror.Mirror by name.
	mirrors sync.Map
	// sources are those whose packets can be copied.
	sources *primaries
}

// WatchPortMirrors adds the PortMirrors to the view; call it before Start.
func (v *portMirrors) WatchPortMirrors(ctx context.Context, client dynamic.Interface) (err error) {
	v.mirrorObjects, v.mirrorsPresent, err = optionalKind(ctx, client, v1alpha1.PortMirrors())
	return err
}

// startMirrors runs the informer; changed gets the mirror and the pods whose ports refer to it.
func (v *portMirrors) startMirrors(ctx context.Context, f *following, changed func(owners ...contract.Owner)) {
	if v.mirrorObjects.SharedIndexInformer == nil {
		return
	}
	synced, err := listen(ctx, v.mirrorObjects, func(old, new any) {
		before, _ := old.(*unstructured.Unstructured)
		after, _ := new.(*unstructured.Unstructured)
		if before != nil && after != nil && equality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"]) {
			return
		}
		name := either(before, after).GetName()
		was := v.PortMirror(name)
		if v.mirrors.Delete(name); after != nil {
			v.mirrors.Store(name, portmirror.Parse(after))
		}
		now := v.PortMirror(name)
		owners := append(append([]contract.Owner{contract.PortMirrorOwner(name)}, v.collectorOwners(was)...), v.collectorOwners(now)...)
		changed(contract.Unique(append(append(owners, v.sourcesOf(was, v.sources.allPods.All())...), v.sourcesOf(now, v.sources.allPods.All())...))...)
	})
	if v.mirrorsPresent || err != nil {
		f.add(synced, err)
	}
}

// collectorOwners are those of a mirror, which may be nil, on the nodes with collectors.
func (v *portMirrors) collectorOwners(mirror *portmirror.Mirror) (owners []contract.Owner) {
	if mirror == nil {
		return nil
	}
	for _, pod := range v.sources.allPods.Find(byNAD, mirror.CollectorNAD) {
		if mirror.Collects(pod) {
			owners = append(owners, contract.CollectorOwner(pod.Spec.NodeName, mirror.Name))
		}
	}
	return contract.Unique(owners)
}

// collectorChanged are the owners whose rows depend on a pod as a collector.
func (v *portMirrors) collectorChanged(states ...*corev1.Pod) (owners []contract.Owner) {
	for _, mirror := range v.allMirrors() {
		for _, pod := range states {
			if mirror.Collects(pod) {
				node := pod.Spec.NodeName
				owners = append(append(owners, contract.CollectorOwner(node, mirror.Name)), v.sourcesOf(mirror, v.sources.allPods.Find(byNode, node))...)
			}
		}
	}
	return owners
}

// CollectorOn is the pod of a node that gets the copies of a mirror, the first one by name; nil when there is none.
func (v *portMirrors) CollectorOn(mirror *portmirror.Mirror, node string) (first *corev1.Pod) {
	for _, pod := range v.sources.allPods.Find(byNode, node) {
		if mirror.Collects(pod) && (first == nil || pod.Name < first.Name) {
			first = pod
		}
	}
	return first
}

// sourcesOf are the owners of the ports of those pods whose packets a mirror, which may be nil, copies.
func (v *portMirrors) sourcesOf(mirror *portmirror.Mirror, of []*corev1.Pod) (owners []contract.Owner) {
	if mirror == nil {
		return nil
	}
	for _, pod := range of {
		if mirror.Copies(pod, v.sources.allNamespaces.Get(pod.Namespace)) {
			owners = append(append(owners, contract.PodOwner(pod.Namespace, pod.Name)), AttachmentOwners(pod)...)
		}
	}
	return owners
}

// mirroredChanged are the owners whose mirrors depend on the labels of a namespace.
func (v *portMirrors) mirroredChanged(old, new *corev1.Namespace) (owners []contract.Owner) {
	if len(v.allMirrors()) == 0 || old != nil && new != nil && equality.Semantic.DeepEqual(old.Labels, new.Labels) {
		return nil
	}
	for _, pod := range v.sources.PodsIn(either(old, new).Name) {
		owners = append(append(owners, contract.PodOwner(pod.Namespace, pod.Name)), AttachmentOwners(pod)...)
	}
	return owners
}

func (v *portMirrors) allMirrors() (mirrors []*portmirror.Mirror) {
	v.mirrors.Range(func(_, value any) bool {
		mirrors = append(mirrors, value.(*portmirror.Mirror))
		return true
	})
	slices.SortFunc(mirrors, func(a, b *portmirror.Mirror) int { return cmp.Compare(a.Name, b.Name) })
	return mirrors
}

// PortMirror is nil when there is none of that name.
func (v *portMirrors) PortMirror(name string) *portmirror.Mirror {
	value, _ := v.mirrors.Load(name)
	mirror, _ := value.(*portmirror.Mirror)
	return mirror
}

// PortMirrorOwners are all PortMirrors, also on the nodes with collectors.
func (v *portMirrors) PortMirrorOwners() (owners []contract.Owner) {
	for _, mirror := range v.allMirrors() {
		owners = append(append(owners, contract.PortMirrorOwner(mirror.Name)), v.collectorOwners(mirror)...)
	}
	return owners
}

// MirrorsOf are the mirrors that copy the packets of a pod, in the order of their names.
func (v *portMirrors) MirrorsOf(pod *corev1.Pod) []*portmirror.Mirror {
	return slices.DeleteFunc(v.allMirrors(), func(mirror *portmirror.Mirror) bool {
		return !mirror.Copies(pod, v.sources.allNamespaces.Get(pod.Namespace))
	})
}

// mirrorObject is the object of a PortMirror, nil when there is none.
func (v *portMirrors) mirrorObject(name string) runtime.Object {
	if v.mirrorObjects.SharedIndexInformer == nil {
		return nil
	}
	return objectOf(v.mirrorObjects.Get(name))
}
