package kube

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/network/namespaces"
)

// namespaceSubnets are the NamespaceSubnets, whose CRD may be absent.
type namespaceSubnets struct {
	objects store[unstructured.Unstructured]
	present bool
	// plan are the subnets of the cluster by purpose.
	plan map[string][]netip.Prefix
	// of are those that may have such addresses.
	of     *primaries
	judged atomic.Pointer[namespaces.Judgement]
	// rejudge looks again at all of them, when networks have changed.
	rejudge func()
}

// WatchNamespaceSubnets adds the NamespaceSubnets to the view; call it before Start. They must not overlap the subnets of the
// cluster, by purpose.
func (v *namespaceSubnets) WatchNamespaceSubnets(ctx context.Context, client dynamic.Interface, plan map[string][]netip.Prefix) (err error) {
	v.plan = plan
	v.objects, v.present, err = optionalKind(ctx, client, v1alpha1.NamespaceSubnets())
	return err
}

// follow runs the informer; changed gets the name of one that changed, after it is judged.
func (v *namespaceSubnets) follow(ctx context.Context, f *following, services func() []netip.Prefix, changed func(name string)) {
	v.rejudge = func() {}
	if v.objects.SharedIndexInformer == nil {
		return
	}
	var judging sync.Mutex // the last judgement is of the newest objects
	judge := func() (before, now *namespaces.Judgement) {
		judging.Lock()
		defer judging.Unlock()
		now = namespaces.Judge(v.objects.All(), namespaces.Taken{
			Plan: v.plan, Services: services(), Nodes: v.of.allNodes.All(), Networks: v.of.Networks(),
		})
		return v.judged.Swap(now), now
	}
	v.rejudge = func() {
		before, now := judge()
		for _, object := range v.objects.All() {
			if name := object.GetName(); fmt.Sprint(before.Problem(name)) != fmt.Sprint(now.Problem(name)) {
				changed(name)
			}
		}
	}
	synced, err := listen(ctx, v.objects, func(old, new any) {
		before, _ := old.(*unstructured.Unstructured)
		after, _ := new.(*unstructured.Unstructured)
		if before != nil && after != nil && sameSubnet(before, after) {
			return
		}
		judge()
		changed(either(before, after).GetName())
	})
	if v.present || err != nil {
		f.add(synced, err)
	}
}

func sameSubnet(old, new *unstructured.Unstructured) bool {
	return old.GetUID() == new.GetUID() && (old.GetDeletionTimestamp() == nil) == (new.GetDeletionTimestamp() == nil) &&
		slices.Equal(old.GetFinalizers(), new.GetFinalizers()) && equality.Semantic.DeepEqual(old.Object["spec"], new.Object["spec"])
}

// users are the owners that depend on NamespaceSubnets. When one goes, another may be accepted.
func (v *namespaceSubnets) users(name string) []contract.Owner {
	owners := append(v.NamespaceSubnetOwners(), contract.NamespaceSubnetOwner(name), contract.NetworkOwner())
	for _, node := range v.of.allNodes.All() {
		owners = append(owners, contract.NodeOwner(node.Name))
	}
	for _, network := range v.of.NetworksWithGateway() {
		owners = append(owners, contract.NetworkOwner().On(network.Name))
	}
	return contract.Unique(owners)
}

// NamespaceSubnets are those in force, oldest first.
func (v *namespaceSubnets) NamespaceSubnets() []contract.NamespaceSubnet {
	return v.judged.Load().InForce()
}

// NamespaceSubnetProblem says why one is not in force.
func (v *namespaceSubnets) NamespaceSubnetProblem(name string) error {
	return v.judged.Load().Problem(name)
}

// SubnetOf is the one from which a new pod gets its addresses; nil: those are of its node's subnet.
func (v *namespaceSubnets) SubnetOf(pod *corev1.Pod) *contract.NamespaceSubnet {
	if v.of.Locked(pod) {
		return nil
	}
	return v.judged.Load().Of(v.of.allNamespaces.Get(pod.Namespace))
}

// NamespaceSubnet is nil when there is none of that name.
func (v *namespaceSubnets) NamespaceSubnet(name string) *unstructured.Unstructured {
	if v.objects.SharedIndexInformer == nil {
		return nil
	}
	return v.objects.Get(name)
}

// NamespaceSubnetOwners are all NamespaceSubnets.
func (v *namespaceSubnets) NamespaceSubnetOwners() (owners []contract.Owner) {
	if v.objects.SharedIndexInformer == nil {
		return nil
	}
	for _, object := range v.objects.All() {
		owners = append(owners, contract.NamespaceSubnetOwner(object.GetName()))
	}
	return owners
}
