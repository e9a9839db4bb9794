package policy

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// The indexes of Objects: pods have all, namespaces have the one by label.
const (
	byNamespace = "namespace"
	byLabel     = "label"
	byAttached  = "attached" // the value "" has the pods that ask for further networks
)

// Objects are the current objects of one kind, shared and never changed. All has no order.
type Objects[T any] interface {
	// Get is nil for an unknown key, which is "name" or "namespace/name".
	Get(key string) *T
	All() []*T
	// Find looks in one of the indexes that PodIndexes and NamespaceIndexes name.
	Find(index, value string) []*T
}

// PodIndexes are what an Index finds pods by.
func PodIndexes() map[string]func(*corev1.Pod) []string {
	return map[string]func(*corev1.Pod) []string{
		byNamespace: func(pod *corev1.Pod) []string { return []string{pod.Namespace} },
		byLabel:     func(pod *corev1.Pod) []string { return pairsOf(pod.Labels) },
		byAttached: func(pod *corev1.Pod) []string {
			if contract.IsAttached(pod) {
				return []string{""}
			}
			return nil
		},
	}
}

// NamespaceIndexes are what an Index finds namespaces by.
func NamespaceIndexes() map[string]func(*corev1.Namespace) []string {
	return map[string]func(*corev1.Namespace) []string{
		byLabel: func(namespace *corev1.Namespace) []string { return pairsOf(namespace.Labels) },
	}
}

func pairsOf(labels map[string]string) []string {
	pairs := make([]string, 0, len(labels))
	for key, value := range labels {
		pairs = append(pairs, key+"="+value)
	}
	return pairs
}

// Index has the policies of the cluster. Methods named after an event take in a change and return the owners whose
// rows it may change; old or new is nil for an object that came or went.
type Index struct {
	policies
	multis
	pods       Objects[corev1.Pod]
	namespaces Objects[corev1.Namespace]
	listening  func() bool
}

// NewIndex makes an Index without policies. While listening is false, events return no owners, which saves looking
// for them. NetworkOf is the network of a NetworkAttachmentDefinition, nil when there is none.
func NewIndex(pods Objects[corev1.Pod], namespaces Objects[corev1.Namespace], listening func() bool, networkOf func(nad string) *contract.Network) *Index {
	x := &Index{policies: newPolicies(), pods: pods, namespaces: namespaces, listening: listening}
	x.multis = newMultis(networkOf, x.PolicyChanged)
	return x
}

// PodChanged returns the sets that the pod is or was in. Policies that look up a named
// port in a set depend on the set's rows.
func (x *Index) PodChanged(old, new *corev1.Pod) []contract.Owner {
	if sameMember(old, new) {
		return nil
	}
	var sets []contract.Owner
	for _, pod := range []*corev1.Pod{old, new} {
		if pod != nil {
			sets = append(sets, x.with(pod, labelsOf(x.namespaces.Get(pod.Namespace)), false)...)
		}
	}
	return contract.Unique(sets)
}

// AdminSetsOf are the sets that a pod is in of policies for the whole cluster, whose
// rules may deny, in no order.
func (x *Index) AdminSetsOf(pod *corev1.Pod) []contract.Owner {
	return x.with(pod, labelsOf(x.namespaces.Get(pod.Namespace)), true)
}

// sameMember says that two states of a pod are in the same sets with the same addresses.
func sameMember(old, new *corev1.Pod) bool {
	return old != nil && new != nil && contract.WantsNetwork(old) == contract.WantsNetwork(new) &&
		old.Annotations[contract.PodNetworksKey] == new.Annotations[contract.PodNetworksKey] &&
		maps.Equal(old.Labels, new.Labels) && equality.Semantic.DeepEqual(old.Spec, new.Spec)
}

// PolicyChanged takes in a policy, nil when it was deleted. The owners are in the order in
// which they are best reconciled: sets before the rules that use them, the policy before
// the ports that join it, and sets without users last.
func (x *Index) PolicyChanged(owner contract.Owner, policy *Policy) []contract.Owner {
	old := x.Policy(owner)
	came, went := x.put(owner, policy)
	if !x.listening() {
		return nil
	}
	owners := append(came, owner)
	owners = append(append(owners, x.subjects(policy)...), x.subjects(old)...)
	return contract.Unique(append(owners, went...))
}

// NamespaceChanged returns the sets and pods that the namespace's labels concern, and, when the level of logging
// changes, its policies.
func (x *Index) NamespaceChanged(old, new *corev1.Namespace) []contract.Owner {
	if !x.listening() {
		return nil
	}
	before, after := labelsOf(old), labelsOf(new)
	var name string
	var levels [2]string
	for i, namespace := range []*corev1.Namespace{old, new} {
		if namespace != nil {
			name, levels[i] = namespace.Name, namespace.Annotations[contract.ACLLoggingKey]
		}
	}
	owners := x.between(before, after)
	if old == nil || x.subjectChanges(before, after) { // its pods wait for a new one
		for _, pod := range x.pods.Find(byNamespace, name) {
			owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
		}
	}
	if levels[0] != levels[1] {
		for _, owner := range x.PolicyOwners() {
			if owner.Namespace == name {
				owners = append(owners, owner)
			}
		}
	}
	return contract.Unique(owners)
}

// NodeChanged returns the policies whose rules refer to nodes, when the node's labels or addresses change.
func (x *Index) NodeChanged(old, new *corev1.Node) []contract.Owner {
	if old != nil && new != nil && equality.Semantic.DeepEqual(old.Labels, new.Labels) &&
		equality.Semantic.DeepEqual(old.Status.Addresses, new.Status.Addresses) {
		return nil
	}
	return x.withNodes()
}

// labelsOf is nil when the namespace is not there, and never nil when it is.
func labelsOf(namespace *corev1.Namespace) labels.Set {
	switch {
	case namespace == nil:
		return nil
	case namespace.Labels == nil:
		return labels.Set{}
	}
	return namespace.Labels
}

// Policy is a parsed policy, nil when there is none.
func (x *Index) Policy(owner contract.Owner) *Policy {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byOwner[owner]
}

// PolicyOwners is every policy, in no order.
func (x *Index) PolicyOwners() []contract.Owner {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byOwner))
}

func (x *Index) subjects(policy *Policy) (owners []contract.Owner) {
	if policy == nil {
		return nil
	}
	selected := newPodSet([]Selection{policy.Subject}, PortName{}, nil)
	if network := policy.Owner.Network; network != "" {
		for _, pod := range x.Members(selected.on(network)) {
			for _, key := range contract.AttachmentKeys(pod) {
				owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name).On(key))
			}
		}
		return owners
	}
	for _, pod := range x.Members(selected) {
		owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
	}
	return owners
}

// UsersOf are the policies that use a set of pods, in no order.
func (x *Index) UsersOf(set contract.Owner) []contract.Owner {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if used := x.sets[set]; used != nil {
		return slices.Collect(maps.Keys(used.users))
	}
	return nil
}

// PodSetOwners is every set of pods that a policy uses, in no order.
func (x *Index) PodSetOwners() []contract.Owner {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.sets))
}

// PoliciesOf are the policies on a network whose subject a pod is, sorted. They are not complete
// while the pod's namespace is not there and a policy selects by namespaces.
func (x *Index) PoliciesOf(pod *corev1.Pod, network string) (policies []*Policy, complete bool) {
	namespace := labelsOf(x.namespaces.Get(pod.Namespace))
	x.mu.RLock()
	complete = namespace != nil || len(x.wide) == 0
	x.mu.RUnlock()
	return x.selecting(pod, namespace, network), complete
}

// PodSet is nil when no policy uses such a set.
func (x *Index) PodSet(owner contract.Owner) *PodSet {
	if used := x.used(owner); used != nil {
		return used.PodSet
	}
	return nil
}

// Sizes are how many members of a set there are for each number of its named port,
// or for 0, as of the last look at the members of this very set of the index. So
// policies do not count the pods of the cluster each.
func (x *Index) Sizes(set *PodSet) map[int32]int {
	used := x.used(set.Owner())
	if used == nil {
		return set.sizes(x.Members(set))
	}
	if sizes := used.sizes.Load(); sizes != nil {
		return *sizes
	}
	return set.sizes(x.Members(used.PodSet))
}

// place is where in the indexes of pods the pods of selections are.
type place struct{ index, value string }

// placesOf needs the names of the namespaces that a selector selects.
func placesOf(set *PodSet, namespaces func(labels.Selector) []string) map[place][]Selection {
	all := map[place][]Selection{}
	add := func(s Selection, index string, values ...string) {
		for _, value := range values {
			all[place{index, value}] = append(all[place{index, value}], s)
		}
	}
	for _, s := range set.Of {
		pairs := surePairs(s.Pods)
		switch {
		case s.Namespace != "":
			add(s, byNamespace, s.Namespace)
		case pairs != nil:
			add(s, byLabel, pairs...)
		case set.Network != "":
			add(s, byAttached, "")
		default:
			add(s, byNamespace, namespaces(s.Namespaces)...)
		}
	}
	return all
}

// Members are the pods of a set that are, or will be, on the pod network, in no order. Of a further network they are the
// pods that ask for such networks.
func (x *Index) Members(set *PodSet) []*corev1.Pod {
	var found []*corev1.Pod
	namespaces := map[string]labels.Set{}
	seen := map[types.NamespacedName]bool{}
	places := placesOf(set, x.Namespaces)
	overlap := false // a pod is in one namespace, and may have several labels
	for in := range places {
		overlap = overlap || in.index != byNamespace && len(places) > 1
	}
	for in, selections := range places {
		for _, pod := range x.pods.Find(in.index, in.value) {
			l, ok := namespaces[pod.Namespace]
			if !ok {
				l = labelsOf(x.namespaces.Get(pod.Namespace))
				namespaces[pod.Namespace] = l
			}
			if !contract.WantsNetwork(pod) || !slices.ContainsFunc(selections, func(s Selection) bool { return s.selects(pod, l) }) || !set.mayHave(pod) {
				continue
			}
			if overlap {
				name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
				if seen[name] {
					continue
				}
				seen[name] = true
			}
			found = append(found, pod)
		}
	}
	x.sized(set, found)
	return found
}

// Namespaces are the names of the namespaces that a selector selects, in no order.
func (x *Index) Namespaces(selector labels.Selector) []string {
	var list []*corev1.Namespace
	if pairs := surePairs(selector); pairs != nil {
		for _, pair := range pairs {
			list = append(list, x.namespaces.Find(byLabel, pair)...)
		}
	} else {
		list = x.namespaces.All()
	}
	var names []string
	for _, namespace := range list {
		if selector.Matches(labelsOf(namespace)) {
			names = append(names, namespace.Name)
		}
	}
	return names
}
