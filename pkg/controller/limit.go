package controller

import (
	"slices"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/acl"
)

// limits has the state of the rows loop for policy.MaxMembers.
type limits struct {
	counted map[contract.Owner]int              // members by set, as they count
	beyond  map[contract.Owner][]contract.Owner // sets by policy
}

// followLimit marks the policies whose sets beyond the limit change, and these sets. They change when a set in the batch
// has grown or shrunk, or when a policy has changed.
func (c *Zone) followLimit(p *pass) {
	policies := map[contract.Owner]bool{}
	for _, owner := range p.byName {
		switch owner.Kind {
		case contract.KindNetworkPolicy, contract.KindMultiNetworkPolicy:
			policies[owner] = true
		case contract.KindPodSet:
			set, counted := c.view.PodSet(owner), 0
			if set != nil {
				counted = acl.Counted(c.view.Sizes(set))
			}
			if counted == c.limits.counted[owner] {
				continue
			}
			if c.limits.counted[owner] = counted; counted == 0 {
				delete(c.limits.counted, owner)
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
		before := c.limits.beyond[owner]
		if slices.Equal(before, beyond) {
			continue
		}
		if c.limits.beyond[owner] = beyond; len(beyond) == 0 {
			delete(c.limits.beyond, owner)
		}
		c.rows.Mark(append(slices.Concat(before, beyond), owner)...)
	}
}
