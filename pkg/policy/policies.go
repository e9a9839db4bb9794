package policy

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// policies holds the parsed policies and the sets of pods that they use. A pod or a
// namespace is compared only with the candidates of its labels.
type policies struct {
	mu      sync.RWMutex
	byOwner map[contract.Owner]*Policy
	// further has the networks beside the default one on which an object's policies are.
	further map[string]map[string]struct{}
	// wide are those whose subjects are in several namespaces.
	wide      map[contract.Owner]*Policy
	sets      map[contract.Owner]*usedSet
	bySubject map[string]map[*Policy]struct{} // by bucket
	members   map[string]map[member]struct{}  // by bucket
	// selectors are the sets of several namespaces by their namespace selectors:
	// many sets share few of these.
	selectors map[string]map[member]struct{}
}

// member is one of the selections that make up a set.
type member struct {
	set *usedSet
	at  int
}

func (m member) selection() Selection { return m.set.Of[m.at] }

type usedSet struct {
	*PodSet
	users  map[contract.Owner]struct{}
	admins int // of the users
	// sizes are what was found last, nil before that.
	sizes atomic.Pointer[map[int32]int]
}

func newPolicies() policies {
	return policies{
		byOwner: map[contract.Owner]*Policy{}, further: map[string]map[string]struct{}{}, wide: map[contract.Owner]*Policy{}, sets: map[contract.Owner]*usedSet{},
		bySubject: map[string]map[*Policy]struct{}{}, members: map[string]map[member]struct{}{},
		selectors: map[string]map[member]struct{}{},
	}
}

// put replaces a policy by what it is now, nil when it is gone, and gives the sets
// that came into use and those that went out of it.
func (p *policies) put(owner contract.Owner, policy *Policy) (came, went []contract.Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.byOwner[owner]
	delete(p.byOwner, owner)
	delete(p.wide, owner)
	if owner.Network != "" {
		take(p.further, owner.On("").String(), owner.Network)
		if policy != nil {
			put(p.further, owner.On("").String(), owner.Network)
		}
	}
	if policy != nil {
		p.byOwner[owner] = policy
		if policy.Subject.Namespace == "" {
			p.wide[owner] = policy
		}
		for _, bucket := range policy.Subject.buckets() {
			put(p.bySubject, bucket, policy)
		}
		came = p.use(policy)
	}
	if old != nil {
		for _, bucket := range old.Subject.buckets() {
			take(p.bySubject, bucket, old)
		}
		went = p.release(old, policy)
	}
	return came, went
}

func (p *policies) use(policy *Policy) (came []contract.Owner) {
	for _, set := range policy.Sets() {
		used := p.sets[set.Owner()]
		if used == nil {
			used = &usedSet{PodSet: set, users: map[contract.Owner]struct{}{}}
			p.sets[set.Owner()] = used
			used.each(func(m member, bucket string) { put(p.members, bucket, m) }, func(m member, key string) { put(p.selectors, key, m) })
			came = append(came, set.Owner())
		}
		if _, there := used.users[policy.Owner]; !there && policy.Owner.Namespace == "" {
			used.admins++
		}
		used.users[policy.Owner] = struct{}{}
	}
	return came
}

// each calls the functions for the places of the set's selections in the indices.
func (u *usedSet) each(bucket, selector func(m member, key string)) {
	for i, s := range u.Of {
		for _, key := range s.buckets() {
			bucket(member{u, i}, key)
		}
		if s.Namespace == "" {
			selector(member{u, i}, selectorKey(s.Namespaces))
		}
	}
}

// release takes away the sets of old that the policy that replaces it has not.
func (p *policies) release(old, policy *Policy) (went []contract.Owner) {
	kept := map[contract.Owner]bool{}
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
		if old.Owner.Namespace == "" {
			used.admins--
		}
		if delete(used.users, old.Owner); len(used.users) > 0 {
			continue
		}
		delete(p.sets, set.Owner())
		used.each(func(m member, bucket string) { take(p.members, bucket, m) }, func(m member, key string) { take(p.selectors, key, m) })
		went = append(went, set.Owner())
	}
	return went
}

// NetworksOf are the networks on which a policy is in force, in no order.
func (p *policies) NetworksOf(owner contract.Owner) (networks []string) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.byOwner[owner.On("")] != nil {
		networks = append(networks, "")
	}
	for network := range p.further[owner.On("").String()] {
		networks = append(networks, network)
	}
	return networks
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

// selecting gives the policies on a network whose subject a pod is.
func (p *policies) selecting(pod *corev1.Pod, namespace labels.Set, network string) []*Policy {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var found []*Policy
	for _, bucket := range bucketsOf(pod, namespace) {
		for policy := range p.bySubject[bucket] {
			if policy.Owner.Network == network && policy.Subject.selects(pod, namespace) {
				found = append(found, policy)
			}
		}
	}
	slices.SortFunc(found, func(a, b *Policy) int { return cmp.Compare(a.Owner.String(), b.Owner.String()) })
	return found
}

// with gives the sets that a pod is in; of admins only, those that policies for
// the whole cluster use.
func (p *policies) with(pod *corev1.Pod, namespace labels.Set, admins bool) (sets []contract.Owner) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	seen := map[*usedSet]bool{}
	for _, bucket := range bucketsOf(pod, namespace) {
		for m := range p.members[bucket] {
			if admins && m.set.admins == 0 || seen[m.set] || !m.selection().selects(pod, namespace) || !m.set.mayHave(pod) {
				continue
			}
			seen[m.set] = true
			sets = append(sets, m.set.Owner())
		}
	}
	return sets
}

// used is nil when no policy uses such a set.
func (p *policies) used(set contract.Owner) *usedSet {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.sets[set]
}

// sized notes the members that were found for a set of the index, as PodSet gives
// it: another set may be the same for another purpose.
func (p *policies) sized(set *PodSet, members []*corev1.Pod) {
	if used := p.used(set.Owner()); used != nil && used.PodSet == set {
		sizes := set.sizes(members)
		used.sizes.Store(&sizes)
	}
}

// between gives the sets that a namespace's pods leave or enter when its labels change.
func (p *policies) between(old, new labels.Set) (sets []contract.Owner) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, group := range p.selectors {
		for m := range group {
			selector := m.selection().Namespaces
			if (old != nil && selector.Matches(old)) == (new != nil && selector.Matches(new)) {
				break // the group has one selector
			}
			sets = append(sets, m.set.Owner())
		}
	}
	return sets
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
func (p *policies) withNodes() (owners []contract.Owner) {
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
