package controller

import (
	"fmt"
	"slices"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// completeRules has a pass leave no rule without its address sets: a policy would deny
// what it allows. Objects change while the rows of a pass are built, one after
// another, so a rule may be from before a change, and its sets from after it or for
// a later pass.
func (c *Controller) completeRules(p *pass) {
	needed, refers := map[string]bool{}, map[string]map[string]contract.Owner{}
	for _, want := range slices.Clone(p.wants) {
		refers[want.Owner] = ovn.SetsIn(want.Rows)
		for name, set := range refers[want.Owner] {
			needed[name] = true
			if _, there := p.failed[set]; !there && !hasRow(c.db.Rows(set.String()), name) {
				c.add(p, set)
			}
		}
	}
	made := map[string][]ovsdb.Row{}
	for _, want := range p.wants {
		made[want.Owner] = want.Rows
	}
	// The rules of a policy that waits stay as they are, and so do their sets: the
	// policy is taken out before the sets that go are compared with rules elsewhere.
	p.wants = slices.DeleteFunc(p.wants, func(want ovsdb.Want) bool {
		for name, set := range refers[want.Owner] {
			if !hasRow(made[set.String()], name) && !hasRow(c.db.Rows(set.String()), name) { // the policy has changed again, which marks it
				p.failed[p.byName[want.Owner]] = fmt.Errorf("%w: address set %s has gone", reconcile.ErrNotReady, name)
				return true
			}
		}
		return false
	})
	elsewhere := sync.OnceValue(func() map[string]contract.Owner { return c.referredElsewhere(p) })
	for i := range p.wants {
		c.keepSets(p, &p.wants[i], func(name string) bool { return needed[name] || elsewhere()[name] != contract.Owner{} })
	}
}

// keepSets puts back the sets that go while a rule refers to them.
func (c *Controller) keepSets(p *pass, want *ovsdb.Want, referred func(name string) bool) {
	set := p.byName[want.Owner]
	if set.Kind != contract.KindPodSet {
		return
	}
	for _, have := range c.db.Rows(want.Owner) {
		if !hasRow(want.Rows, have.ID) && referred(have.ID) {
			want.Rows = append(want.Rows, have)
			p.kept = append(p.kept, set)
		}
	}
}

// referredElsewhere are the sets to which rules refer that are not in the pass.
func (c *Controller) referredElsewhere(p *pass) map[string]contract.Owner {
	ours := map[any]bool{}
	for _, want := range p.wants {
		for _, row := range c.db.Rows(want.Owner) {
			ours[row.Model] = true
		}
	}
	var rules []ovsdb.Row
	for _, model := range c.db.Table(nb.ACLTable) {
		if !ours[model] {
			rules = append(rules, ovsdb.Row{Model: model})
		}
	}
	return ovn.SetsIn(rules)
}

// keep remembers those for the next pass with a policy, which may be the one that lets
// go of them, and marks those of before.
func (c *Controller) keep(p *pass) {
	for _, owner := range p.byName {
		if rank(owner) == rank(contract.Owner{Kind: contract.KindNetworkPolicy}) {
			c.rows.Mark(c.kept...)
			c.kept = nil
			break
		}
	}
	c.kept = append(c.kept, p.kept...)
}

func hasRow(rows []ovsdb.Row, id string) bool {
	return slices.ContainsFunc(rows, func(row ovsdb.Row) bool { return row.ID == id })
}
