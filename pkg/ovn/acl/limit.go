package acl

import (
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// countedIn is the granularity in which members count towards the limit: a pod
// more or less seldom changes what is beyond it.
const countedIn = 100

// BeyondLimit are the sets of pods of a NetworkPolicy that have more members than
// the sets before them have left of policy.MaxMembers. They have no rows on
// account of this policy, and the rules that need them allow nothing.
func BeyondLimit(view Peers, p *policy.Policy) (beyond []contract.Owner) {
	if p.Tier != policy.TierNetworkPolicy || p.Owner.Namespace == "" {
		return nil
	}
	left := policy.MaxMembers
	for _, set := range p.Sets() {
		if size := Counted(view.Sizes(set)); size <= left {
			left -= size
		} else {
			beyond = append(beyond, set.Owner())
		}
	}
	return beyond
}

// Counted is what a set's members count towards the limit.
func Counted(sizes map[int32]int) int {
	members := 0
	for _, n := range sizes {
		members += n
	}
	return members / countedIn * countedIn
}

// wanted says that a set is within the limit of some policy that uses it.
func wanted(view View, set *policy.PodSet) bool {
	return slices.ContainsFunc(view.UsersOf(set.Owner()), func(user contract.Owner) bool {
		policy := view.Policy(user)
		return policy != nil && !slices.Contains(BeyondLimit(view, policy), set.Owner())
	})
}
