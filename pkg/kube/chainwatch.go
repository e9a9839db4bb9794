package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/network/chain"
)

// chainings are the NetworkChainings, whose CRD may be absent.
type chainings struct {
	index         chain.Chains
	chains        store[unstructured.Unstructured]
	chainsPresent bool
}

// startChains follows the NetworkChainings. A chain that comes or goes gives or takes others their networks.
func (v *networks) startChains(ctx context.Context, f *following, changed func(owners ...contract.Owner)) {
	synced, err := listen(ctx, v.chains, func(old, new any) {
		before, _ := old.(*unstructured.Unstructured)
		after, _ := new.(*unstructured.Unstructured)
		if before != nil && after != nil && sameChaining(before, after) {
			return
		}
		object := either(before, after)
		owner := contract.NetworkChainingOwner(object.GetNamespace(), object.GetName())
		was := v.index.NADsOf(owner)
		v.index.Changed(owner, after)
		changed(contract.Unique(append(sharing(v, slices.Concat(was, v.index.NADsOf(owner))), owner))...)
	})
	if v.chainsPresent || err != nil {
		f.add(synced, err)
	}
}

func sameChaining(old, new *unstructured.Unstructured) bool {
	return old.GetUID() == new.GetUID() && old.GetAnnotations()[contract.ChainFailureKey] == new.GetAnnotations()[contract.ChainFailureKey] &&
		equality.Semantic.DeepEqual(old.Object["spec"], new.Object["spec"])
}

// ChainOwners are all NetworkChainings.
func (v *chainings) ChainOwners() []contract.Owner { return v.index.Owners() }

// SetChainState writes the state of a NetworkChaining, unless the object has it.
func SetChainState(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured, outcome metav1.Condition) error {
	want := map[string]any{"state": opnfv.StateCreated}
	if outcome.Status != metav1.ConditionTrue {
		want = map[string]any{"state": opnfv.StateFailed, "message": outcome.Message}
	}
	if equality.Semantic.DeepEqual(object.Object["status"], want) {
		return nil
	}
	next := object.DeepCopy()
	next.Object["status"] = want
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	_, err := client.Resource(opnfv.NetworkChainings()).Namespace(object.GetNamespace()).UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the state of NetworkChaining %s: %w", keyOf(object), err)
	}
	return nil
}

// NetworkChaining is nil when there is none of that name.
func (v *chainings) NetworkChaining(namespace, name string) *unstructured.Unstructured {
	if v.chains.SharedIndexInformer == nil {
		return nil
	}
	return v.chains.Get(namespace + "/" + name)
}

// Chain is the chain of a NetworkChaining, nil when there is none, or why there can be none.
func (v *networks) Chain(owner contract.Owner) (*chain.Chain, error) {
	return v.index.Find(owner, chain.Networks{NADs: v.NADsOf, Of: func(nad string) *contract.Network {
		n := v.NetworkOfNAD(nad)
		if v.denied(nad, n) != nil {
			return nil
		}
		return n
	}})
}

// sharing are the chains on the networks of NADs, and the pods on the networks of these chains, which have or had their
// routes.
func sharing(v *networks, nads []string) (owners []contract.Owner) {
	same := map[string]bool{}
	for _, nad := range nads {
		same[nad] = true
		if n := v.NetworkOfNAD(nad); n != nil {
			for _, other := range v.NADsOf(n.Name) {
				same[other] = true
			}
		}
	}
	of := maps.Clone(same)
	for nad := range same {
		for _, owner := range v.index.On(nad) {
			owners = append(owners, owner)
			for _, its := range v.index.NADsOf(owner) {
				of[its] = true
			}
		}
	}
	for nad := range of {
		for _, pod := range v.allPods.Find(byNAD, nad) {
			owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
		}
	}
	return owners
}

// chained are all chains, and the pods that have or had their routes, of a namespace or of all ("").
func chained(v *networks, namespace string) []contract.Owner {
	owners := v.ChainOwners()
	for _, nad := range v.index.NADs() {
		for _, pod := range v.allPods.Find(byNAD, nad) {
			if namespace == "" || pod.Namespace == namespace {
				owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
			}
		}
	}
	return owners
}

// Replicas are the ready pods of a function of a chain, in the order of their names.
func (v *networks) Replicas(c *chain.Chain, function int) (pods []*corev1.Pod) {
	for _, pod := range v.allPods.Find(cache.NamespaceIndex, c.Owner.Namespace) {
		if isReady(pod) && slices.Contains(c.FunctionsOf(pod), function) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// chainsOf are the chains of which a pod is or was a function.
func (v *chainings) chainsOf(states ...*corev1.Pod) (owners []contract.Owner) {
	for _, pod := range states {
		if pod == nil {
			continue
		}
		for _, c := range v.index.In(pod.Namespace) {
			if len(c.FunctionsOf(pod)) > 0 {
				owners = append(owners, c.Owner)
			}
		}
	}
	return owners
}

// chainRoutes are the routes of a pod to chains on the network of a NAD.
func (v *primaries) chainRoutes(pod *corev1.Pod, nad string) (routes []contract.Route) {
	namespace := v.allNamespaces.Get(pod.Namespace)
	if namespace == nil {
		return nil
	}
	for _, owner := range v.index.On(nad) {
		if c, err := v.Chain(owner); err == nil && c != nil {
			routes = append(routes, c.Routes(pod, namespace.Labels, nad)...)
		}
	}
	return routes
}
