package controller

import (
	"maps"
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
)

// sizes has the state of the rows loop for what policies take from the sizes of their sets.
type sizes struct {
	numbers map[contract.Owner][]int32          // of the named port, by set
	counted map[contract.Owner]int              // members by set, as they count towards policy.MaxMembers
	beyond  map[contract.Owner][]contract.Owner // sets beyond that, by policy
}

// followSizes marks the policies whose sets beyond the limit change, and these sets. They change when a set in the batch
// has grown or shrunk, or when a policy has changed. It also marks the policies whose named port has other numbers.
func (c *Zone) followSizes(p *pass) {
	policies := map[contract.Owner]bool{}
	for _, owner := range p.byName {
		switch owner.Kind {
		case contract.KindNetworkPolicy, contract.KindMultiNetworkPolicy:
			policies[owner] = true
		case contract.KindPodSet:
			var members map[int32]int
			if set := c.view.PodSet(owner); set != nil {
				members = c.view.Sizes(set)
			}
			c.followNumbers(owner, members)
			counted := acl.Counted(members)
			if counted == c.sizes.counted[owner] {
				continue
			}
			if c.sizes.counted[owner] = counted; counted == 0 {
				delete(c.sizes.counted, owner)
			}
			for _, user := range c.view.UsersOf(owner) {
				policies[user] = true
			}
		}
	}
	for owner := range policies {
		var beyond []contract.Owner
		if policy := c.view.Policy(owner); policy != nil {
			beyond = acl.BeyondLimit(c.view, policy)
		}
		before := c.sizes.beyond[owner]
		if slices.Equal(before, beyond) {
			continue
		}
		if c.sizes.beyond[owner] = beyond; len(beyond) == 0 {
			delete(c.sizes.beyond, owner)
		}
		c.rows.Mark(append(slices.Concat(before, beyond), owner)...)
	}
}

// followNumbers marks the users of a set if the numbers of its named port are others than at the last look. An inserted
// row does not always say so: the address set of a number may still be there from an earlier use of the set.
func (c *Zone) followNumbers(set contract.Owner, members map[int32]int) {
	numbers := slices.Sorted(maps.Keys(members))
	if slices.Equal(numbers, []int32{0}) || slices.Equal(numbers, c.sizes.numbers[set]) { // 0: it has no named port
		return
	}
	if c.sizes.numbers[set] = numbers; len(numbers) == 0 {
		delete(c.sizes.numbers, set)
	}
	c.rows.Mark(c.view.UsersOf(set)...)
}
