package kube

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

const byLabel = "label"

// policies holds the parsed policies and the sets of pods that they use, found
// from a pod or a namespace without looking at those that have nothing to do
// with it.
type policies struct {
	mu      sync.RWMutex
	byOwner map[Owner]*Policy
	// wide are those whose subjects are in several namespaces.
	wide     map[Owner]*Policy
	sets     map[Owner]*usedSet
	subjects map[string]map[*Policy]struct{}  // by bucket
	members  map[string]map[*usedSet]struct{} // by bucket
	// selectors are the sets of several namespaces by their namespace selector:
	// many sets share few of these.
	selectors map[string]map[*usedSet]struct{}
}

type usedSet struct {
	*PodSet
	users map[Owner]struct{}
	// size is how many members were found last, 0 before that.
	size atomic.Int64
}

func newPolicies() *policies {
	return &policies{
		byOwner: map[Owner]*Policy{}, wide: map[Owner]*Policy{}, sets: map[Owner]*usedSet{},
		subjects: map[string]map[*Policy]struct{}{}, members: map[string]map[*usedSet]struct{}{},
		selectors: map[string]map[*usedSet]struct{}{},
	}
}

// put replaces a policy by what it is now, nil when it is gone, and gives the sets
// that came into use and those that went out of it.
func (p *policies) put(owner Owner, policy *Policy) (came, went []Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.byOwner[owner]
	delete(p.byOwner, owner)
	delete(p.wide, owner)
	if policy != nil {
		p.byOwner[owner] = policy
		if policy.Subject.Namespace == "" {
			p.wide[owner] = policy
		}
		put(p.subjects, policy.Subject.bucket(), policy)
		came = p.use(policy)
	}
	if old != nil {
		take(p.subjects, old.Subject.bucket(), old)
		went = p.release(old, policy)
	}
	return came, went
}

func (p *policies) use(policy *Policy) (came []Owner) {
	for _, set := range policy.Sets() {
		used := p.sets[set.Owner()]
		if used == nil {
			used = &usedSet{PodSet: set, users: map[Owner]struct{}{}}
			p.sets[set.Owner()] = used
			put(p.members, set.bucket(), used)
			if set.Namespace == "" {
				put(p.selectors, selectorKey(set.Namespaces), used)
			}
			came = append(came, set.Owner())
		}
		used.users[policy.Owner] = struct{}{}
	}
	return came
}

// release takes away the sets of old that the policy that replaces it has not.
func (p *policies) release(old, policy *Policy) (went []Owner) {
	kept := map[Owner]bool{}
	if policy != nil {
		for _, set := range policy.Sets() {
			kept[set.Owner()] = true
		}
	}
	for _, set := range old.Sets() {
		used := p.sets[set.Owner()]
		if used == nil || kept[set.Owner()] {
			continue
		}
		if delete(used.users, old.Owner); len(used.users) > 0 {
			continue
		}
		delete(p.sets, set.Owner())
		take(p.members, set.bucket(), used)
		if set.Namespace == "" {
			take(p.selectors, selectorKey(set.Namespaces), used)
		}
		went = append(went, set.Owner())
	}
	return went
}

func put[T comparable](m map[string]map[T]struct{}, key string, value T) {
	if m[key] == nil {
		m[key] = map[T]struct{}{}
	}
	m[key][value] = struct{}{}
}

func take[T comparable](m map[string]map[T]struct{}, key string, value T) {
	if delete(m[key], value); len(m[key]) == 0 {
		delete(m, key)
	}
}

// selecting gives the policies whose subject a pod is.
func (p *policies) selecting(pod *corev1.Pod, namespace labels.Set) []*Policy {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var found []*Policy
	for _, bucket := range buckets(pod) {
		for policy := range p.subjects[bucket] {
			if policy.Subject.selects(pod, namespace) {
				found = append(found, policy)
			}
		}
	}
	slices.SortFunc(found, func(a, b *Policy) int { return cmp.Compare(a.Owner.String(), b.Owner.String()) })
	return found
}

// with gives the sets that a pod is in, then the policies that look up a named
// port in them: their rules follow the numbers.
func (p *policies) with(pod *corev1.Pod, namespace labels.Set) (sets, users []Owner) {
	if pod == nil {
		return nil, nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, bucket := range buckets(pod) {
		for set := range p.members[bucket] {
			if !set.selects(pod, namespace) {
				continue
			}
			sets = append(sets, set.Owner())
			if set.Port.Name != "" {
				users = slices.AppendSeq(users, maps.Keys(set.users))
			}
		}
	}
	return sets, users
}

// AdminSetsOf are the sets that a pod is in of policies for the whole cluster, whose
// rules may deny, in no order.
func (v *View) AdminSetsOf(pod *corev1.Pod) (owners []Owner) {
	if len(v.admin) == 0 {
		return nil
	}
	sets, _ := v.policyIndex.with(pod, v.namespaceLabels(pod.Namespace))
	for _, set := range sets {
		if slices.ContainsFunc(v.UsersOf(set), func(user Owner) bool { return user.Namespace == "" }) {
			owners = append(owners, set)
		}
	}
	return owners
}

// between gives the sets, and policies as with does, that a namespace's pods
// leave or enter when its labels change.
func (p *policies) between(old, new labels.Set) (sets, users []Owner) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, group := range p.selectors {
		for set := range group {
			if (old != nil && set.Namespaces.Matches(old)) == (new != nil && set.Namespaces.Matches(new)) {
				break // the group has one selector
			}
			sets = append(sets, set.Owner())
			if set.Port.Name != "" {
				users = slices.AppendSeq(users, maps.Keys(set.users))
			}
		}
	}
	return sets, users
}

// subjectChanges says whether a policy begins or ceases to select a namespace's
// pods when its labels change.
func (p *policies) subjectChanges(old, new labels.Set) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, policy := range p.wide {
		selector := policy.Subject.Namespaces
		if (old != nil && selector.Matches(old)) != (new != nil && selector.Matches(new)) {
			return true
		}
	}
	return false
}

// withNodes are the policies whose rules refer to nodes.
func (p *policies) withNodes() (owners []Owner) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for owner, policy := range p.wide {
		for _, direction := range []*Direction{policy.Ingress, policy.Egress} {
			if direction != nil && slices.ContainsFunc(direction.Rules, func(r Rule) bool { return len(r.Nodes) > 0 }) {
				owners = append(owners, owner)
				break
			}
		}
	}
	return owners
}

// podPolicyOwners gives the sets and policies that a pod's change concerns: first
// the sets, so that the address of a pod is in them before its port is there.
func (v *View) podPolicyOwners(old, new *corev1.Pod) []Owner {
	if v.policies == nil || sameMember(old, new) {
		return nil
	}
	var sets, users []Owner
	for _, pod := range []*corev1.Pod{old, new} {
		if pod != nil {
			s, u := v.policyIndex.with(pod, v.namespaceLabels(pod.Namespace))
			sets, users = append(sets, s...), append(users, u...)
		}
	}
	return unique(append(sets, users...))
}

// sameMember says that two states of a pod are in the same sets with the same addresses.
func sameMember(old, new *corev1.Pod) bool {
	return old != nil && new != nil && WantsNetwork(old) == WantsNetwork(new) &&
		old.Annotations[PodNetworksKey] == new.Annotations[PodNetworksKey] &&
		maps.Equal(old.Labels, new.Labels) && equality.Semantic.DeepEqual(old.Spec, new.Spec)
}

func unique(owners []Owner) []Owner {
	seen := map[Owner]bool{}
	return slices.DeleteFunc(owners, func(o Owner) bool {
		again := seen[o]
		seen[o] = true
		return again
	})
}

// policyOwners takes in a policy and gives whom that concerns, in the order in
// which it should happen: sets before the rules that use them, the policy before
// the ports that join it, and sets that nobody uses last.
func (v *View) policyOwners(owner Owner, policy *Policy) []Owner {
	old := v.Policy(owner)
	came, went := v.policyIndex.put(owner, policy)
	owners := append(came, owner)
	owners = append(owners, v.SubjectOwners(owner)...)
	if old != nil {
		for _, pod := range v.Members(old.Subject) {
			owners = append(owners, PodOwner(pod.Namespace, pod.Name))
		}
	}
	return unique(append(owners, went...))
}

func (v *View) networkPolicyOwners(old, new *networkingv1.NetworkPolicy) []Owner {
	if new == nil {
		return v.policyOwners(NetworkPolicyOwner(old.Namespace, old.Name), nil)
	}
	if old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return nil
	}
	policy := ParseNetworkPolicy(new)
	return v.policyOwners(policy.Owner, policy)
}

// namespaceOwners are those whom a namespace's labels or log level concern.
func (v *View) namespaceOwners(old, new *corev1.Namespace) []Owner {
	if v.policies == nil {
		return nil
	}
	name, before, after := "", labels.Set(nil), labels.Set(nil)
	var levels [2]string
	if old != nil {
		name, before, levels[0] = old.Name, known(old.Labels), old.Annotations[ACLLoggingKey]
	}
	if new != nil {
		name, after, levels[1] = new.Name, known(new.Labels), new.Annotations[ACLLoggingKey]
	}
	sets, users := v.policyIndex.between(before, after)
	owners := append(sets, users...)
	if old == nil || v.policyIndex.subjectChanges(before, after) { // its pods wait for a new one
		// The only error is an index that does not exist.
		list, _ := v.pods.GetIndexer().ByIndex(cache.NamespaceIndex, name)
		for _, pod := range objects[corev1.Pod](list) {
			owners = append(owners, PodOwner(pod.Namespace, pod.Name))
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
func (v *View) Policy(owner Owner) *Policy {
	v.policyIndex.mu.RLock()
	defer v.policyIndex.mu.RUnlock()
	return v.policyIndex.byOwner[owner]
}

// PolicyOwners is every policy, in no order.
func (v *View) PolicyOwners() []Owner {
	v.policyIndex.mu.RLock()
	defer v.policyIndex.mu.RUnlock()
	return slices.Collect(maps.Keys(v.policyIndex.byOwner))
}

// SubjectOwners are the pods that a policy selects.
func (v *View) SubjectOwners(policy Owner) []Owner {
	parsed := v.Policy(policy)
	if parsed == nil {
		return nil
	}
	var owners []Owner
	for _, pod := range v.Members(parsed.Subject) {
		owners = append(owners, PodOwner(pod.Namespace, pod.Name))
	}
	return owners
}

// UsersOf are the policies that use a set of pods, in no order.
func (v *View) UsersOf(set Owner) []Owner {
	v.policyIndex.mu.RLock()
	defer v.policyIndex.mu.RUnlock()
	if used := v.policyIndex.sets[set]; used != nil {
		return slices.Collect(maps.Keys(used.users))
	}
	return nil
}

// PodSetOwners is every set of pods that a policy uses, in no order.
func (v *View) PodSetOwners() []Owner {
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
func (v *View) PodSet(owner Owner) *PodSet {
	v.policyIndex.mu.RLock()
	defer v.policyIndex.mu.RUnlock()
	if used := v.policyIndex.sets[owner]; used != nil {
		return used.PodSet
	}
	return nil
}

// Size is how many members a set had when its own rows were built last: policies,
// which need no more, do not count all pods of the cluster each.
func (v *View) Size(set *PodSet) int {
	v.policyIndex.mu.RLock()
	used := v.policyIndex.sets[set.Owner()]
	v.policyIndex.mu.RUnlock()
	switch {
	case used == nil:
		return len(v.Members(set))
	case used.size.Load() == 0:
		return len(v.Members(used.PodSet))
	}
	return int(used.size.Load())
}

// sized notes the members that were found for a set of the index, as PodSet gives
// it: another set may be the same selection for another purpose.
func (p *policies) sized(set *PodSet, members int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if used := p.sets[set.Owner()]; used != nil && used.PodSet == set {
		used.size.Store(int64(members))
	}
}

// Members are the pods of a set that are, or will be, on the pod network, in no order.
func (v *View) Members(set *PodSet) []*corev1.Pod {
	var found []*corev1.Pod
	add := func(index, value string, namespaces map[string]labels.Set) {
		// The only error is an index that does not exist.
		list, _ := v.pods.GetIndexer().ByIndex(index, value)
		for _, pod := range objects[corev1.Pod](list) {
			l, ok := namespaces[pod.Namespace]
			if !ok {
				l = v.namespaceLabels(pod.Namespace)
				namespaces[pod.Namespace] = l
			}
			if WantsNetwork(pod) && set.selects(pod, l) {
				found = append(found, pod)
			}
		}
	}
	namespaces := map[string]labels.Set{}
	switch pair := surePair(set.Pods); {
	case set.Namespace != "":
		add(cache.NamespaceIndex, set.Namespace, namespaces)
	case pair != "":
		add(byLabel, pair, namespaces)
	default:
		for _, name := range v.Namespaces(set.Namespaces) {
			add(cache.NamespaceIndex, name, namespaces)
		}
	}
	v.policyIndex.sized(set, len(found))
	return found
}

// Namespaces are the names of the namespaces that a selector selects, in no order.
func (v *View) Namespaces(selector labels.Selector) []string {
	if v.namespaces == nil {
		return nil
	}
	var names []string
	for _, ns := range objects[corev1.Namespace](v.namespaces.GetIndexer().List()) {
		if selector.Matches(known(ns.Labels)) {
			names = append(names, ns.Name)
		}
	}
	return names
}

func labelsOfPod(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	pairs := make([]string, 0, len(pod.Labels))
	for key, value := range pod.Labels {
		pairs = append(pairs, key+"="+value)
	}
	return pairs, nil
}
