package controller

import (
	"context"
	"errors"

	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// leaderKey is the key of the leader's identity in the external_ids of NB_Global.
const leaderKey = "ovn-offload.io/leader"

// fence belongs to one term of a leader: an identity leads once.
func (c *Zone) fence() *ovsdb.Fence {
	return &ovsdb.Fence{Table: nb.NBGlobalTable, Column: "external_ids", Key: leaderKey, Value: c.cfg.Leader.Identity}
}

// claim excludes former leaders from the database, once. The lease is confirmed before the claim, so that a former
// leader does not fence its successor. The lease is confirmed again after the claim: a later holder of the lease claims
// the database later, so each commit of this leader is either before that claim or refused.
func (c *Zone) claim(ctx context.Context) error {
	if c.claimed {
		return nil
	}
	confirm := func() error { return leader.Confirm(ctx, c.cfg.Leases, c.cfg.Leader) }
	for _, step := range []func() error{confirm, func() error { return c.db.Claim(ctx) }, confirm} {
		if err := step(); err != nil {
			if errors.Is(err, leader.ErrLost) {
				c.end(err)
			}
			return err
		}
	}
	c.claimed = true
	c.log.Info("database claimed", "leader", c.cfg.Leader.Identity)
	return nil
}

// commitClaimed commits as the leader. A claim that is lost with the database's content is made again. A claim that
// another leader has taken ends this leader's term.
func (c *Zone) commitClaimed(ctx context.Context, wants []ovsdb.Want) (result ovsdb.Result, err error) {
	for range 2 {
		if err := c.claim(ctx); err != nil {
			return ovsdb.Result{}, err
		}
		if result, err = c.db.Commit(ctx, wants...); !errors.Is(err, ovsdb.ErrFenced) {
			break
		}
		c.claimed = false
		c.log.Warn("write refused", "leader", c.cfg.Leader.Identity, "error", err)
	}
	return result, err
}
