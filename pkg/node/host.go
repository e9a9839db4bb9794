package node

import (
	"context"
	"fmt"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// stepTimeout bounds a step that waits for the database or ovs-vswitchd.
const StepTimeout = 10 * time.Second

// Run applies steps in their order, up to the first error.
func (h *Host) Run(ctx context.Context, steps []Step) error {
	for _, step := range steps {
		start := time.Now()
		if err := step.Apply(ctx, h); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		h.Deps.Logger.Info("node step", "step", step.String(), "took", time.Since(start))
	}
	return nil
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
