package node

import (
	"context"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// StepTimeout bounds a step that waits for the database or ovs-vswitchd.
const StepTimeout = 10 * time.Second

// Run applies steps in their order, up to the first error.
func (h *Host) Run(ctx context.Context, steps []Step) error {
	_, err := reconcile.Apply(ctx, h.Deps.Logger, h, steps)
	return err
}

// Commit makes rows all that their owner has.
func (h *Host) Commit(ctx context.Context, c Commit) error {
	ctx, cancel := context.WithTimeout(ctx, StepTimeout)
	defer cancel()
	result, err := h.Deps.DB.Commit(ctx, ovsdb.Want{Owner: c.Owner.String(), Rows: c.Rows})
	if err != nil {
		return err
	}
	return result.Failed[c.Owner.String()]
}
