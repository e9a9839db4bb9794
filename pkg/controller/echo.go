package controller

import (
	"context"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// echo is what the database tells of owners while their rows are committed.
type echo struct {
	mu sync.Mutex
	// heard says of each owner in the commit whether its rows have changed; nil
	// when there is no commit.
	heard map[contract.Owner]bool
}

func (e *echo) begin(owners map[string]contract.Owner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = map[contract.Owner]bool{}
	for _, owner := range owners {
		e.heard[owner] = false
	}
}

// hears says that the owner is in a commit.
func (e *echo) hears(owner contract.Owner) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, in := e.heard[owner]
	if in {
		e.heard[owner] = true
	}
	return in
}

// end gives the owners of which something was heard.
func (e *echo) end() (owners []contract.Owner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for owner, changed := range e.heard {
		if changed {
			owners = append(owners, owner)
		}
	}
	e.heard = nil
	return owners
}

// rowsChanged hears from the database whose rows changed.
func (c *Controller) rowsChanged(names []string) {
	for _, name := range names {
		if owner, err := contract.ParseOwner(name); err == nil && !c.echo.hears(owner) {
			c.rows.Mark(owner)
		}
	}
}

// commit makes the rows of a pass what they should be. Its owners are told of that
// by the database as of anybody's changes. If afterwards all are as they wanted
// that was no news, and building them again would give the same: for what changes
// in the facts there are events, and whose rows are changed from here on is marked.
func (c *Controller) commit(ctx context.Context, p *pass) (ovsdb.Result, error) {
	c.echo.begin(p.byName)
	result, err := c.commitClaimed(ctx, p.wants)
	owners := c.echo.end()
	if len(owners) > 0 && (err != nil || !c.db.Holds(p.wants...)) {
		c.rows.Mark(owners...)
	}
	return result, err
}
