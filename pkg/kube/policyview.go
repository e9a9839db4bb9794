package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

const byLabel = "label"

// podPolicyOwners gives the sets that a pod's change concerns. The policies that look
// up a named port in a set follow its rows.
func (v *View) podPolicyOwners(old, new *corev1.Pod) []contract.Owner {
	if v.policies == nil || sameMember(old, new) {
		return nil
	}
	var sets []contract.Owner
	for _, pod := range []*corev1.Pod{old, new} {
		if pod != nil {
			sets = append(sets, v.policyIndex.with(pod, v.namespaceLabels(pod.Namespace), false)...)
		}
	}
	return unique(sets)
}

// AdminSetsOf are the sets that a pod is in of policies for the whole cluster, whose
// rules may deny, in no order.
func (v *View) AdminSetsOf(pod *corev1.Pod) []contract.Owner {
	return v.policyIndex.with(pod, v.namespaceLabels(pod.Namespace), true)
}

// sameMember says that two states of a pod are in the same sets with the same addresses.
func sameMember(old, new *corev1.Pod) bool {
	return old != nil && new != nil && WantsNetwork(old) == WantsNetwork(new) &&
		old.Annotations[contract.PodNetworksKey] == new.Annotations[contract.PodNetworksKey] &&
		maps.Equal(old.Labels, new.Labels) && equality.Semantic.DeepEqual(old.Spec, new.Spec)
}

func unique(owners []contract.Owner) []contract.Owner {
	seen := map[contract.Owner]bool{}
	return slices.DeleteFunc(owners, func(o contract.Owner) bool {
		again := seen[o]
		seen[o] = true
		return again
	})
}

// policyOwners takes in a policy and gives whom that concerns, in the order in
// which it should happen: sets before the rules that use them, the policy before
// the ports that join it, and sets without users last.
func (v *View) policyOwners(owner contract.Owner, policy *Policy) []contract.Owner {
	old := v.Policy(owner)
	came, went := v.policyIndex.put(owner, policy)
	if !v.heeded() {
		return nil
	}
	owners := append(came, owner)
	owners = append(owners, v.SubjectOwners(owner)...)
	if old != nil {
		owners = append(owners, v.subjectOwners(old)...)
	}
	return unique(append(owners, went...))
}

func (v *View) networkPolicyOwners(old, new *networkingv1.NetworkPolicy) []contract.Owner {
	if new == nil {
		return v.policyOwners(contract.NetworkPolicyOwner(old.Namespace, old.Name), nil)
	}
	if old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return nil
	}
	policy := ParseNetworkPolicy(new)
	return v.policyOwners(policy.Owner, policy)
}

// namespaceOwners are those whom a namespace's labels or log level concern.
func (v *View) namespaceOwners(old, new *corev1.Namespace) []contract.Owner {
	if v.policies == nil || !v.heeded() {
		return nil
	}
	name, before, after := "", labels.Set(nil), labels.Set(nil)
	var levels [2]string
	if old != nil {
		name, before, levels[0] = old.Name, known(old.Labels), old.Annotations[contract.ACLLoggingKey]
	}
	if new != nil {
		name, after, levels[1] = new.Name, known(new.Labels), new.Annotations[contract.ACLLoggingKey]
	}
	owners := v.policyIndex.between(before, after)
	if old == nil || v.policyIndex.subjectChanges(before, after) { // its pods wait for a new one
		// The only error is an index that does not exist.
		list, _ := v.pods.GetIndexer().ByIndex(cache.NamespaceIndex, name)
		for _, pod := range objects[corev1.Pod](list) {
			owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
		}
	}
	if levels[0] != levels[1] {
		for _, owner := range v.PolicyOwners() {
			if owner.Namespace == name {
				owners = append(owners, owner)
			}
		}
	}
	return unique(owners)
}

// known tells a namespace without labels from one that is not there.
func known(l map[string]string) labels.Set {
	if l == nil {
		return labels.Set{}
	}
	return l
}

func (v *View) namespaceLabels(name string) labels.Set {
	if ns := v.Namespace(name); ns != nil {
		return known(ns.Labels)
	}
	return nil
}

func (v *View) networkPolicy(namespace, name string) *networkingv1.NetworkPolicy {
	if v.policies == nil {
		return nil
	}
	return get[networkingv1.NetworkPolicy](v.policies, namespace+"/"+name)
}

// Policy is a parsed policy, nil when there is none.
func (v *View) Policy(owner contract.Owner) *Policy {
	v.policyIndex.mu.RLock()
	defer v.policyIndex.mu.RUnlock()
	return v.policyIndex.byOwner[owner]
}

// PolicyOwners is every policy, in no order.
func (v *View) PolicyOwners() []contract.Owner {
	v.policyIndex.mu.RLock()
	defer v.policyIndex.mu.RUnlock()
	return slices.Collect(maps.Keys(v.policyIndex.byOwner))
}

// SubjectOwners are the pods that a policy selects.
func (v *View) SubjectOwners(policy contract.Owner) []contract.Owner {
	if parsed := v.Policy(policy); parsed != nil {
		return v.subjectOwners(parsed)
	}
	return nil
}

func (v *View) subjectOwners(policy *Policy) (owners []contract.Owner) {
	for _, pod := range v.Members(newPodSet([]Selection{policy.Subject}, PortName{}, nil)) {
		owners = append(owners, contract.PodOwner(pod.Namespace, pod.Name))
	}
	return owners
}

// UsersOf are the policies that use a set of pods, in no order.
func (v *View) UsersOf(set contract.Owner) []contract.Owner {
	v.policyIndex.mu.RLock()
	defer v.policyIndex.mu.RUnlock()
	if used := v.policyIndex.sets[set]; used != nil {
		return slices.Collect(maps.Keys(used.users))
	}
	return nil
}

// PodSetOwners is every set of pods that a policy uses, in no order.
func (v *View) PodSetOwners() []contract.Owner {
	v.policyIndex.mu.RLock()
	defer v.policyIndex.mu.RUnlock()
	return slices.Collect(maps.Keys(v.policyIndex.sets))
}

// PoliciesOf are the policies whose subject a pod is, sorted. They are not complete
// while the pod's namespace is not there and a policy selects by namespaces.
func (v *View) PoliciesOf(pod *corev1.Pod) (policies []*Policy, complete bool) {
	namespace := v.namespaceLabels(pod.Namespace)
	v.policyIndex.mu.RLock()
	complete = namespace != nil || len(v.policyIndex.wide) == 0
	v.policyIndex.mu.RUnlock()
	return v.policyIndex.selecting(pod, namespace), complete
}

// PodSet is nil when no policy uses such a set.
func (v *View) PodSet(owner contract.Owner) *PodSet {
	v.policyIndex.mu.RLock()
	defer v.policyIndex.mu.RUnlock()
	if used := v.policyIndex.sets[owner]; used != nil {
		return used.PodSet
	}
	return nil
}

// Sizes are how many members of a set there are for each number of its named port,
// or for 0, as of the last look at the members of this very set of the index. So
// policies do not count the pods of the cluster each.
func (v *View) Sizes(set *PodSet) map[int32]int {
	v.policyIndex.mu.RLock()
	used := v.policyIndex.sets[set.Owner()]
	v.policyIndex.mu.RUnlock()
	if used == nil {
		return set.sizes(v.Members(set))
	}
	if sizes := used.sizes.Load(); sizes != nil {
		return *sizes
	}
	return set.sizes(v.Members(used.PodSet))
}

// sized notes the members that were found for a set of the index, as PodSet gives
// it: another set may be the same for another purpose.
func (p *policies) sized(set *PodSet, members []*corev1.Pod) {
	p.mu.RLock()
	used := p.sets[set.Owner()]
	p.mu.RUnlock()
	if used != nil && used.PodSet == set {
		sizes := set.sizes(members)
		used.sizes.Store(&sizes)
	}
}

// candidates is where in the index of pods the pods of selections are.
type candidates struct{ index, value string }

func (v *View) candidates(set *PodSet) map[candidates][]Selection {
	all := map[candidates][]Selection{}
	for _, s := range set.Of {
		pairs := surePairs(s.Pods)
		switch {
		case s.Namespace != "":
			in := candidates{cache.NamespaceIndex, s.Namespace}
			all[in] = append(all[in], s)
		case pairs != nil:
			for _, pair := range pairs {
				in := candidates{byLabel, pair}
				all[in] = append(all[in], s)
			}
		default:
			for _, name := range v.Namespaces(s.Namespaces) {
				in := candidates{cache.NamespaceIndex, name}
				all[in] = append(all[in], s)
			}
		}
	}
	return all
}

// Members are the pods of a set that are, or will be, on the pod network, in no order.
func (v *View) Members(set *PodSet) []*corev1.Pod {
	var found []*corev1.Pod
	namespaces := map[string]labels.Set{}
	seen := map[types.NamespacedName]bool{}
	places := v.candidates(set)
	overlap := false // a pod is in one namespace, and may have several labels
	for in := range places {
		overlap = overlap || in.index == byLabel && len(places) > 1
	}
	for in, selections := range places {
		// The only error is an index that does not exist.
		list, _ := v.pods.GetIndexer().ByIndex(in.index, in.value)
		for _, pod := range objects[corev1.Pod](list) {
			l, ok := namespaces[pod.Namespace]
			if !ok {
				l = v.namespaceLabels(pod.Namespace)
				namespaces[pod.Namespace] = l
			}
			if !WantsNetwork(pod) || !slices.ContainsFunc(selections, func(s Selection) bool { return s.selects(pod, l) }) || !set.hasPort(pod) {
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
	v.policyIndex.sized(set, found)
	return found
}

// Namespaces are the names of the namespaces that a selector selects, in no order.
func (v *View) Namespaces(selector labels.Selector) []string {
	if v.namespaces == nil {
		return nil
	}
	list := v.namespaces.GetIndexer().List()
	if pairs := surePairs(selector); pairs != nil {
		list = nil
		for _, pair := range pairs {
			// The only error is an index that does not exist.
			some, _ := v.namespaces.GetIndexer().ByIndex(byLabel, pair)
			list = append(list, some...)
		}
	}
	var names []string
	for _, ns := range objects[corev1.Namespace](list) {
		if selector.Matches(known(ns.Labels)) {
			names = append(names, ns.Name)
		}
	}
	return names
}

func labelsOf(obj any) ([]string, error) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return nil, nil
	}
	pairs := make([]string, 0, len(object.GetLabels()))
	for key, value := range object.GetLabels() {
		pairs = append(pairs, key+"="+value)
	}
	return pairs, nil
}
